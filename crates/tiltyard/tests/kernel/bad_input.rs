// SPDX-License-Identifier: GPL-2.0-or-later
//! What `tiltyard kernel` says where it cannot do what it is asked: one clear line, the documented exit code, nothing
//! left behind. Tests that need QEMU or a guest skip, with a word why, where there is none.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const TILTYARD: &str = env!("CARGO_BIN_EXE_tiltyard");

/// `tiltyard kernel` with arguments in one string.
fn kernel(arguments: &str) -> Command {
    let mut command = Command::new(TILTYARD);
    command.arg("kernel").args(arguments.split_whitespace());
    command
}

/// Expects this exit code, and a first line on stderr with all these words; returns all of stderr.
#[track_caller]
fn refused(mut command: Command, code: i32, words: &[&str]) -> String {
    let output = command.output().expect("tiltyard starts");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    let line = text.lines().find(|line| line.starts_with("tiltyard: "));
    let line = line.unwrap_or_else(|| panic!("no line of tiltyard's: {text}"));
    for word in words {
        assert!(line.contains(word), "no \"{word}\" in: {text}");
    }
    text
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Not eprintln!, which the test harness keeps to itself when a test passes.
fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

fn has_qemu() -> bool {
    let found = cfg!(target_arch = "x86_64")
        && Command::new("qemu-system-x86_64")
            .arg("--version")
            .output()
            .is_ok();
    if !found {
        skip("no QEMU for this machine");
    }
    found
}

fn can_boot() -> bool {
    let check = Command::new(TILTYARD).args(["kernel", "--check"]).output();
    let can = check.expect("tiltyard starts").status.success();
    if !can {
        skip("no guest can be booted here");
    }
    can
}

/// A source that some kernel must refuse or eject.
fn failing(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/tests/bpf");
    tests.canonicalize().unwrap().join(format!("{name}.bpf.c"))
}

/// A file that looks like the kernel `release` from outside; its first instruction jumps to itself.
fn hanging_kernel(folder: &Path, release: &str, options: &str) -> PathBuf {
    // Documentation/arch/x86/boot.rst: one setup sector (0x1f1), the entry with its jump (0x200), magic, protocol
    // 2.12, where the release stands (less 0x200), loaded high, initrd below 2 GiB.
    let mut image = vec![0; 64 * 1024];
    image[0x1f1] = 1;
    image[0x200..0x206].copy_from_slice(b"\xeb\xfeHdrS");
    image[0x206..0x208].copy_from_slice(&0x020c_u16.to_le_bytes());
    image[0x20e..0x210].copy_from_slice(&0x0100_u16.to_le_bytes());
    image[0x211] = 1;
    image[0x22c..0x230].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes());
    image[0x300..0x300 + release.len()].copy_from_slice(release.as_bytes());
    let path = folder.join("bzImage");
    std::fs::write(&path, image).unwrap();
    let drivers = "VIRTIO VIRTIO_PCI_LIB VIRTIO_PCI_LIB_LEGACY VIRTIO_PCI VIRTIO_CONSOLE FUSE_FS VIRTIO_FS OVERLAY_FS";
    let all = format!("{drivers} {options}");
    let config: String = all
        .split_whitespace()
        .map(|option| format!("CONFIG_{option}=y\n"))
        .collect();
    std::fs::write(folder.join(format!("config-{release}")), config).unwrap();
    path
}

#[test]
#[cfg(target_arch = "x86_64")]
fn without_qemu_its_package_is_named_before_anything_is_built() {
    let mut command = kernel("--vm -s fifo -- true");
    command.env("PATH", "/nowhere");
    refused(
        command,
        7,
        &[
            "qemu-system-x86_64 is not installed",
            "install the package qemu-system-x86",
        ],
    );
}

#[test]
fn a_guest_larger_than_the_machine_is_not_started() {
    if has_qemu() {
        let command = kernel("--vm -s fifo --memory 4000000000 -- true");
        refused(
            command,
            7,
            &["4000000000 MiB does not fit", "MiB free", "--memory"],
        );
    }
}

#[test]
fn a_command_that_is_nowhere_is_named() {
    if has_qemu() {
        let command = kernel("--vm -s default --no-events -- no-such-command 1");
        refused(command, 7, &["no-such-command: command not found", "PATH"]);
    }
    let command = kernel("-s default --no-events -- no-such-command 1");
    refused(command, 7, &["no-such-command: command not found", "PATH"]);
}

/// Needs neither root nor sched_ext: no scheduler is loaded and nothing recorded.
#[test]
fn a_command_that_cannot_start_fails_or_takes_too_long_is_a_workload_error() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/nowhere/interpreter\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).unwrap();
    let run = |command: &str| {
        kernel(&format!(
            "-s default --no-events --rounds 1 --limit 2 -- {command}"
        ))
    };
    let script = script.display().to_string();
    refused(
        run(&script),
        6,
        &[
            "command not started: ",
            &script,
            "No such file",
            "first line",
        ],
    );
    refused(run("false"), 6, &["command exited with 1"]);
    refused(
        run("sleep 100"),
        6,
        &["command killed: over the limit of 2 s"],
    );
}

#[test]
fn a_file_that_is_no_kernel_is_named() {
    if !has_qemu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let zeros = folder.path().join("zeros");
    std::fs::write(&zeros, [0; 4096]).unwrap();
    let boot = |image: &Path| {
        kernel(&format!(
            "--vm -s default --no-events --kernel {} -- true",
            image.display()
        ))
    };
    refused(boot(&zeros), 7, &["zeros: no kernel image (bzImage)"]);
    refused(
        boot(Path::new("/nowhere/bzImage")),
        7,
        &["/nowhere/bzImage: cannot read"],
    );
}

#[test]
fn a_kernel_without_sched_ext_is_refused_unless_it_runs_its_own_scheduler() {
    if !has_qemu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = hanging_kernel(folder.path(), "6.1.2-old", "DEBUG_INFO_BTF");
    let command = kernel(&format!(
        "--vm -s default,fifo --no-events --kernel {} -- true",
        image.display()
    ));
    refused(
        command,
        7,
        &[
            "Linux 6.1.2-old has no sched_ext",
            "-s default",
            "6.12",
            "--kernel",
        ],
    );
}

#[test]
fn a_kernel_that_does_not_boot_is_given_up_and_qemu_is_gone() {
    if !has_qemu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = hanging_kernel(folder.path(), "6.18.2-hangs", "");
    let options = "--vm -s default --no-events --accel emulated --boot-limit 1 --kernel";
    let command = kernel(&format!("{options} {} -- true", image.display()));
    let text = refused(
        command,
        7,
        &[
            "did not come up within 1 s",
            "bzImage",
            "--boot-limit",
            "Last console lines:",
        ],
    );
    assert!(
        text.lines().count() > 1,
        "the console, or that it is empty: {text}"
    );
    let commands = Path::new("/proc").read_dir().unwrap().flatten();
    let commands = commands.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let left = commands
        .filter(|words| String::from_utf8_lossy(words).contains(&image.display().to_string()));
    assert_eq!(left.count(), 0, "QEMU runs on");
}

#[test]
fn why_a_scheduler_failed_stands_in_one_line() {
    if !can_boot() {
        return;
    }
    let run = |name: &str| {
        kernel(&format!(
            "--vm -s {} --rounds 1 --no-events -- sleep 60",
            failing(name).display()
        ))
    };
    let mut verifier = run("verifier_fail");
    let output = verifier.output().unwrap();
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(
        table.contains("verifier_fail.bpf.c:"),
        "the source's own lines: {table}"
    );
    let line = "verifier_fail: scheduler not loaded: the verifier refuses verifier_fail_enqueue: R0 invalid mem access";
    refused(verifier, 5, &[line]);
    // What stalls is a task, or the watchdog itself.
    let words = [
        "stall_fail: scheduler ejected: runnable task stall: ",
        "failed to ",
        "(SCX_EXIT_ERROR_STALL)",
    ];
    refused(run("stall_fail"), 5, &words);
}

/// On the machine at hand, which here is a guest.
#[test]
fn here_too_what_is_missing_or_fails_is_one_line_and_nothing_stays() {
    if !can_boot() {
        return;
    }
    // The guest finds its object in this machine's cache and needs no compiler.
    let stall = failing("stall_fail");
    let built = Command::new(TILTYARD)
        .arg("build")
        .arg(&stall)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", said(&built));
    let script = r#"
        run() { $TILTYARD kernel --rounds 1 --no-events "$@"; echo "== code $?"; }
        run -s $STALL -- sh -c 'sleep 1234 & wait'
        echo "== left $(cat /sys/kernel/sched_ext/state) $(cat /proc/[0-9]*/stat | grep -c '(sleep) [^Z]')"
        cp $TILTYARD /tmp/tiltyard # where nobody can read it too
        setpriv --reuid=65534 --regid=65534 --clear-groups /tmp/tiltyard kernel -s fifo --no-events -- true
        echo "== code $?"
        mount -t tmpfs none /sys/kernel/btf && run -s fifo -- true
        mount -t tmpfs none /sys/kernel && run -s fifo -- true
    "#;
    let mut guest = kernel("--vm -s default --rounds 1 --no-events -- sh -c");
    guest
        .arg(script)
        .env("TILTYARD", TILTYARD)
        .env("STALL", &stall);
    let text = said(&guest.output().unwrap());
    let told: Vec<&str> = text
        .lines()
        .filter(|l| l.starts_with("tiltyard: ") || l.starts_with("== "))
        .collect();
    let expected = [
        "tiltyard: stall_fail: scheduler ejected: runnable task stall: ",
        "== code 5",
        "== left disabled 0",
        "tiltyard: loading a scheduler needs root: ",
        "== code 7",
        "tiltyard: this kernel carries no type information: it needs CONFIG_DEBUG_INFO_BTF=y",
        "== code 7",
        "tiltyard: this kernel has no sched_ext: it needs Linux 6.12 or newer",
        "== code 7",
    ];
    assert_eq!(told.len(), expected.len(), "{text}");
    for (line, begin) in told.iter().zip(expected) {
        assert!(line.starts_with(begin), "\"{begin}\" expected: {text}");
    }
}
