// SPDX-License-Identifier: GPL-2.0-or-later
//! Mistakes that only a kernel's verifier refuses: `--verify` names them with their line, from one guest that stays and
//! then goes without leaving anything. Says so and passes where no guest can be booted.

use super::gates;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Each mistake: what is put at which place of the smallest scheduler, the line that is refused, and the words.
const MISTAKES: [(&str, &str, &str, &str, &str); 4] = [
    (
        "NULL prev",
        DISPATCH,
        "\tif (prev->scx.slice)\n\t\treturn;\n",
        "if (prev->scx.slice)",
        "it may be NULL there",
    ),
    (
        "NULL task",
        ENQUEUE,
        "\tstruct task_struct *q = bpf_task_from_pid(1);\n\tbool on = q->scx.slice;\n\tbpf_task_release(q);\n\tif (on)\n\t\treturn;\n",
        "bool on = q->scx.slice;",
        "it may be NULL there",
    ),
    (
        "out of bounds",
        ENQUEUE,
        "\tcounts[p->pid]++;\n",
        "counts[p->pid]++;",
        "limit it first",
    ),
    (
        "write to task_struct",
        ENQUEUE,
        "\tp->prio = 3;\n",
        "p->prio = 3;",
        "read only",
    ),
];

const DISPATCH: &str = "\tscx_bpf_dsq_move_to_local(0, 0);\n";
const ENQUEUE: &str = "\tscx_bpf_dsq_insert(p, 0, SCX_SLICE_DFL, enq_flags);\n";

const SOURCE: &str = r#"// SPDX-License-Identifier: GPL-2.0-or-later
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";
UEI_DEFINE(uei);
u64 counts[16];

void BPF_STRUCT_OPS(my_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, 0, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(my_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(0, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(my_init)
{
	return scx_bpf_create_dsq(0, -1);
}

SCX_OPS_DEFINE(my_ops, .enqueue = (void *)my_enqueue, .dispatch = (void *)my_dispatch,
	       .init = (void *)my_init, .name = "my");
"#;

/// How long the guest stays in these tests, s.
const IDLE_S: u64 = 20;

struct Verifier {
    folder: tempfile::TempDir,
}

impl Verifier {
    fn tiltyard(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiltyard"));
        command.current_dir(self.folder.path()).args(arguments);
        command.env("TILTYARD_VERIFY_IDLE_S", IDLE_S.to_string());
        command.output().expect("tiltyard starts")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.folder.path().join("my.bpf.c"), text).unwrap();
    }

    fn run(&self, more: &[&str]) -> Output {
        let run = ["run", "-w", "pingpong", "-s", "./my.bpf.c", "-m", "smp2"];
        self.tiltyard(&[&run[..], &["--duration", "100ms"], more].concat())
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The processes of the verifier's server and its guest that belong to this build of the program.
fn servers() -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let command_lines = processes.filter_map(|p| std::fs::read(p.path().join("cmdline")).ok());
    let own = env!("CARGO_BIN_EXE_tiltyard").as_bytes();
    let is_server = |line: &Vec<u8>| {
        let mut words = line.split(|byte| *byte == 0);
        words.next() == Some(own) && words.next() == Some(b"verify-server")
    };
    command_lines.filter(is_server).count()
}

#[test]
fn only_a_verifier_refuses_them() {
    let verifier = Verifier {
        folder: tempfile::tempdir().unwrap(),
    };
    verifier.write(SOURCE);
    killed_before();
    let good = verifier.tiltyard(&["build", "--verify", "./my.bpf.c"]);
    if good.status.code() == Some(7) {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED only_a_verifier_refuses_them: {}",
            said(&good)
        );
        return;
    }
    assert!(good.status.success(), "{}", said(&good));
    let page = String::from_utf8_lossy(&good.stdout).into_owned();
    assert!(page.contains("verifier  Linux 6.18"), "{page}");
    let run = verifier.run(&[]);
    assert!(!said(&run).contains("never verified"), "{}", said(&run));
    for (mistake, place, text, line, words) in MISTAKES {
        let source = SOURCE.replace(place, &format!("{text}{place}"));
        verifier.write(&source);
        let refused = verifier.tiltyard(&["build", "--verify", "./my.bpf.c"]);
        let error = said(&refused);
        assert_eq!(refused.status.code(), Some(5), "{mistake}: {error}");
        assert!(error.contains(words), "{mistake}: {error}");
        let number = source.lines().position(|l| l.trim() == line).unwrap() + 1;
        let first = format!("tiltyard: ./my.bpf.c:{number}: Linux 6.18");
        assert!(error.starts_with(&first), "{mistake}: {first}: {error}");
        assert!(error.contains(&format!("\n    {line}\n")), "{error}");
    }
    assert_eq!(verifier.run(&["--verify"]).status.code(), Some(5));
    for shipped in gates::sampled("verify server", gates::schedulers(), 11) {
        let good = verifier.tiltyard(&["build", "--verify", &shipped]);
        assert!(good.status.success(), "{shipped}: {}", said(&good));
    }
    leaves_nothing();
}

/// What a server of another build leaves that is killed.
fn killed_before() {
    let cache = tiltyard_build::default_cache_dir().unwrap();
    let folder = cache.join("verifier-of-another-build");
    std::fs::create_dir_all(folder.join("answers")).unwrap();
    for name in ["lock", "log"] {
        std::fs::write(folder.join(name), "").unwrap();
    }
}

/// The guest goes when nobody asks, and so do its server and its files.
fn leaves_nothing() {
    assert_eq!(servers(), 1, "one guest for all of it");
    let end = Instant::now() + Duration::from_secs(IDLE_S + 60);
    while servers() > 0 {
        assert!(Instant::now() < end, "its server is still there");
        std::thread::sleep(Duration::from_millis(200));
    }
    let cache = tiltyard_build::default_cache_dir().unwrap();
    let folders = std::fs::read_dir(cache).unwrap().flatten();
    let left = folders.filter(|f| {
        let served = |name: &str| Path::new(&f.path()).join(name).exists();
        f.file_name().to_string_lossy().starts_with("verifier-")
            && (served("lock") || served("log"))
    });
    assert_eq!(left.count(), 0, "files of a verifier that has ended");
}

/// A source of the user's own that no kernel has seen gets a line on stderr; shipped ones do not.
#[test]
fn what_was_never_verified_gets_a_hint() {
    let verifier = Verifier {
        folder: tempfile::tempdir().unwrap(),
    };
    verifier.write(&format!("{SOURCE}/* {:?} */\n", Instant::now()));
    let run = verifier.run(&[]);
    assert!(run.status.success(), "{}", said(&run));
    let hint = "tiltyard: ./my.bpf.c: never verified by a kernel, which may refuse it; tiltyard build --verify ./my.bpf.c";
    assert!(
        said(&run).lines().any(|line| line == hint),
        "{}",
        said(&run)
    );
    let shipped = verifier.tiltyard(&[
        "run",
        "-w",
        "pingpong",
        "-s",
        "fifo",
        "-m",
        "smp2",
        "--duration",
        "100ms",
    ]);
    assert!(!said(&shipped).contains("never verified"));
}
