// SPDX-License-Identifier: GPL-2.0-or-later
//! The same sources in a real kernel. Each test boots one guest under emulation.
//!
//! Where QEMU, a kernel package or a command is missing, a test says so and passes: nothing
//! about the code is known then, and nothing is claimed.

use std::io::Write;
use std::path::{Path, PathBuf};

use tiltyard_build::{Builder, Source};
use tiltyard_kernel::{
    CommandStatus, ExitInfo, KernelError, Progress, Report, RunOutcome, RunReport, SchedulerJob,
    Tunable, VmJob, elf, host, packages, vm,
};
use tiltyard_model::Machine;

/// That a scheduler is loaded does not prove that it schedules: ask the kernel in whose class
/// the command itself is. And back under the kernel's own afterwards.
#[test]
fn the_command_is_in_the_schedulers_hands() {
    let command = ["grep", "ext.enabled", "/proc/self/sched"];
    let schedulers = vec![default(), scheduler("fifo", &shipped("fifo")), default()];
    let Some((report, output)) = boot(&command, schedulers, |_| {}) else {
        return;
    };
    assert!(report.is_success(), "{report:#?}");
    let values: Vec<&str> = output
        .lines()
        .filter_map(|line| line.split(':').nth(1))
        .map(str::trim)
        .collect();
    assert_eq!(values, ["0", "1", "0"], "{output}");
}

#[test]
fn a_scheduler_that_fails_is_reported_and_the_guest_goes_on() {
    let failing = ["verifier_fail", "init_fail", "bogus_dsq_fail", "stall_fail"];
    let mut schedulers: Vec<_> = failing
        .iter()
        .map(|name| scheduler(name, &own(name)))
        .collect();
    schedulers.push(scheduler("fifo", &shipped("fifo")));
    let command = ["hackbench", "-g", "2", "-l", "200"];
    let Some((report, _)) = boot(&command, schedulers, |_| {}) else {
        return;
    };

    let [verifier, init, bogus, stall, fine] = &report.runs[..] else {
        panic!("{report:#?}");
    };
    let reason = not_loaded(verifier);
    assert!(
        reason.starts_with("the verifier refuses verifier_fail_enqueue:\n"),
        "{reason}"
    );
    assert!(
        reason.ends_with("R0 invalid mem access 'map_value_or_null'"),
        "{reason}"
    );
    let reason = not_loaded(init);
    assert!(reason.contains("SCX_EXIT_ERROR_BPF"), "{reason}");
    assert!(reason.contains("no queue today"), "{reason}");
    // The kernel meets the bogus queue with a thread of its own or of the command, so either
    // before or after the scheduler is in charge.
    let text = format!("{bogus:?}");
    assert!(text.contains("non-existent DSQ 0xbad"), "{text}");
    assert!(!bogus.is_success());
    let exit = exit_info(stall);
    assert_eq!(command_status(stall), CommandStatus::Ejected);
    assert_eq!(exit.kind_name, "SCX_EXIT_ERROR_STALL");
    assert!(
        stall
            .complaints
            .iter()
            .any(|line| line.contains("runnable task stall")),
        "{:?}",
        stall.complaints
    );
    assert!(exit.dump.contains("CPU states"), "the kernel's: {exit:?}");
    assert!(fine.is_success(), "{fine:#?}");
    assert_eq!(fine.complaints, [""; 0], "a clean log");
    assert!(
        report.runs.iter().all(RunReport::default_is_back),
        "{report:#?}"
    );
}

#[test]
fn tunables_arrive_in_their_types() {
    let with = |values: &[(&str, &str)]| SchedulerJob {
        tunables: values
            .iter()
            .map(|(name, value)| Tunable {
                name: (*name).to_owned(),
                value: (*value).to_owned(),
            })
            .collect(),
        ..scheduler("tunables_fail", &own("tunables_fail"))
    };
    let values = [
        ("wide", "0xffffffffffffffff"),
        ("negative", "-7"),
        ("flag", "true"),
        ("narrow", "255"),
    ];
    let schedulers = vec![with(&values), with(&[]), with(&[("speed", "1")])];
    let Some((report, _)) = boot(&["true"], schedulers, |_| {}) else {
        return;
    };
    let reasons: Vec<&str> = report.runs.iter().map(not_loaded).collect();
    assert!(
        reasons[0].ends_with("wide=18446744073709551615 negative=-7 flag=1 narrow=255 untouched=4"),
        "{reasons:#?}"
    );
    assert!(
        reasons[1].ends_with("wide=1 negative=2 flag=0 narrow=3 untouched=4"),
        "{reasons:#?}"
    );
    // The order is the compiler's.
    let (before, names) = reasons[2].split_once("; it has: ").unwrap();
    assert_eq!(before, "the scheduler has no tunable \"speed\"");
    let mut names: Vec<&str> = names.split(", ").collect();
    names.sort_unstable();
    assert_eq!(names, ["flag", "narrow", "negative", "untouched", "wide"]);
}

#[test]
fn a_command_that_takes_too_long_is_ended() {
    let schedulers = vec![scheduler("rr", &shipped("rr"))];
    let Some((report, _)) = boot(&["sleep", "600"], schedulers, |job| job.run_limit_s = 1) else {
        return;
    };
    assert_eq!(
        command_status(&report.runs[0]),
        CommandStatus::TimedOut { limit_s: 1 }
    );
    assert!(report.runs[0].default_is_back());
    assert!(!report.is_success());
}

#[test]
fn exit_status_and_signal_come_back() {
    let script = "grep enabled /sys/kernel/sched_ext/state && kill -9 $$; exit 3";
    let schedulers = vec![default(), scheduler("fifo", &shipped("fifo"))];
    let Some((report, _)) = boot(&["sh", "-c", script], schedulers, |_| {}) else {
        return;
    };
    let statuses: Vec<_> = report.runs.iter().map(command_status).collect();
    let expected = [
        CommandStatus::Exited { code: 3 },
        CommandStatus::Signalled { signal: 9 },
    ];
    assert_eq!(statuses, expected);
}

/// Of the host: programs, files, the folder, the variables. Of the guest: its kernel, its
/// devices, its network.
#[test]
fn the_command_finds_what_it_finds_on_the_host() {
    let script = "
        set -e
        pwd; echo $HOME
        grep -q tiltyard-kernel Cargo.toml
        uname -r
        ls -d /proc/self /sys/kernel/sched_ext /dev/null /dev/fd/0 /dev/pts /dev/shm >/dev/null
        [ -w /run ] && [ -z \"$(ls /run)\" ]
        # IFF_UP, IFF_LOOPBACK
        grep -qx 0x9 /sys/class/net/lo/flags
        unshare --user --map-root-user true";
    let Some((report, output)) = boot(&["sh", "-c", script], vec![default()], |_| {}) else {
        return;
    };
    assert!(report.is_success(), "{report:#?}\n{output}");
    let here = std::env::current_dir().unwrap();
    let home = std::env::var("HOME").unwrap_or_default();
    let expected = format!("{}\n{home}\n{}\n", here.display(), report.kernel_release);
    assert_eq!(output, expected);
}

/// Not even by mounting the host's files again. And no run sees what another one wrote.
#[test]
fn what_a_script_writes_stays_in_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let (script, kept) = (folder.path().join("script"), folder.path().join("kept"));
    let text = "#!/usr/bin/env sh
        set -e
        cd ${0%/*}
        for file in written /tmp/written-by-tiltyard /etc/hostname; do
            grep -s 'by the guest' $file && exit 1
            echo by the guest > $file
        done
        cat written /tmp/written-by-tiltyard /etc/hostname
        echo by the guest >> kept
        mv kept moved
        perl -e 'rename(\"folder\", \"renamed\") or die $!'
        mkdir /tmp/direct
        mount -t virtiofs -o ro host /tmp/direct
        mount -o remount,rw /tmp/direct || true
        cat /tmp/direct$PWD/kept
        echo by the guest > /tmp/direct$PWD/kept || true
        rm /tmp/direct$PWD/kept || true
        touch /tmp/direct$PWD/new || true";
    std::fs::write(&script, text).unwrap();
    std::fs::write(&kept, "the host's\n").unwrap();
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).unwrap();
    let host_name = std::fs::read("/etc/hostname").ok();
    let command = [script.to_str().unwrap()];
    let Some((report, output)) = boot(&command, vec![default(), default()], |_| {}) else {
        return;
    };
    assert!(report.is_success(), "{report:#?}\n{output}");
    assert_eq!(output.matches("by the guest\n").count(), 6, "{output}");
    assert_eq!(output.matches("the host's\n").count(), 2, "{output}");
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["folder", "kept", "script"]);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "the host's\n");
    assert!(!Path::new("/tmp/written-by-tiltyard").exists());
    assert_eq!(std::fs::read("/etc/hostname").ok(), host_name);
}

#[test]
fn a_guest_that_dies_shows_its_last_words() {
    let error = fail(&["true"], |job| {
        job.init = elf::find_command("true").unwrap()
    });
    let Some(error) = error else { return };
    assert!(matches!(error, KernelError::GuestDied { .. }), "{error}");
    assert!(
        error.to_string().contains("Attempted to kill init"),
        "{error}"
    );
}

#[test]
fn a_guest_that_does_not_come_up_is_ended() {
    let error = fail(&["true"], |job| job.boot_limit_s = 1);
    let Some(error) = error else { return };
    assert!(
        matches!(error, KernelError::BootTimeout { limit_s: 1, .. }),
        "{error}"
    );
}

#[test]
fn qemus_own_complaint_is_shown() {
    let Some(error) = fail(&["true"], |job| {
        job.machine = Machine::parse_hwloc_synthetic("package:1 core:3000 pu:1").expect("large");
    }) else {
        return;
    };
    assert!(matches!(error, KernelError::GuestDied { .. }), "{error}");
    assert!(error.to_string().contains("CPUs"), "{error}");
}

fn command_status(run: &RunReport) -> CommandStatus {
    match &run.outcome {
        RunOutcome::Ran { command, .. } => command.clone(),
        RunOutcome::NotLoaded { .. } => panic!("{run:#?}"),
    }
}

fn exit_info(run: &RunReport) -> &ExitInfo {
    match &run.outcome {
        RunOutcome::Ran {
            exit: Some(exit), ..
        } => exit,
        _ => panic!("{run:#?}"),
    }
}

fn not_loaded(run: &RunReport) -> &str {
    match &run.outcome {
        RunOutcome::NotLoaded { reason, .. } => reason,
        RunOutcome::Ran { .. } => panic!("{run:#?}"),
    }
}

fn shipped(name: &str) -> PathBuf {
    let schedulers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schedulers");
    schedulers.join(name).join(format!("{name}.bpf.c"))
}

/// A source of this test's own.
fn own(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bpf");
    folder.join(format!("{name}.bpf.c"))
}

/// A scheduler by its source; compiled by [`boot`].
fn scheduler(name: &str, source: &Path) -> SchedulerJob {
    SchedulerJob {
        object: Some(source.to_owned()),
        ..SchedulerJob::own(name)
    }
}

fn compile(source: &Path) -> PathBuf {
    let mut source = Source::new(source);
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schedulers/lib");
    source.include_dirs.push(shared);
    let object = Builder::default().bpf_object(&source);
    object.unwrap_or_else(|error| panic!("{error}")).path
}

fn default() -> SchedulerJob {
    SchedulerJob::own("default")
}

/// Runs the job after `change`; its report and all that the command wrote. None, with a word
/// why, where it cannot run.
fn boot(
    command: &[&str],
    schedulers: Vec<SchedulerJob>,
    change: impl FnOnce(&mut VmJob),
) -> Option<(Report, String)> {
    let mut job = prepare(command)?;
    job.schedulers = schedulers;
    for scheduler in &mut job.schedulers {
        if let Some(source) = &scheduler.object {
            scheduler.object = Some(compile(source));
        }
    }
    change(&mut job);
    let mut output = Output::default();
    let report = vm::run(&job, &mut output, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    Some((report, output.0))
}

/// The error of a job that must not succeed.
fn fail(command: &[&str], change: impl FnOnce(&mut VmJob)) -> Option<KernelError> {
    let mut job = prepare(command)?;
    job.schedulers = vec![default()];
    change(&mut job);
    Some(vm::run(&job, &mut Output::default(), &mut |_| {}).expect_err("this job cannot succeed"))
}

/// A job for this crate's guest program. None where guests cannot run.
fn prepare(command: &[&str]) -> Option<VmJob> {
    let mut job = VmJob::new(command.iter().map(|word| (*word).to_owned()).collect());
    job.init = env!("CARGO_BIN_EXE_tiltyard-guest").into();
    // Emulated, on a host that may be busy with other tests.
    job.boot_limit_s = 300;
    let mut missing = host::check(&job.kernel_version).vm;
    missing.extend(
        elf::find_command(command[0])
            .err()
            .map(|error| error.to_string()),
    );
    if missing.is_empty() {
        let fetched = packages::find_or_fetch(&job.kernel_version, &mut Output::default());
        missing.extend(fetched.err().map(|error| error.to_string()));
    }
    if missing.is_empty() {
        return Some(job);
    }
    // Not eprintln!, which the test harness keeps to itself when a test passes.
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "skipped {test}: {}", missing.join("; "));
    None
}

#[derive(Default)]
struct Output(String);

impl Progress for Output {
    fn step(&mut self, _what: &str) {}

    fn output(&mut self, _scheduler: &str, text: &str) {
        self.0.push_str(text);
    }
}
