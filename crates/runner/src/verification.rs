// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks schedulers with a real kernel's verifier: the simulated machine runs what it would reject.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use tiltyard_build::{content_hash, default_cache_dir};
use tiltyard_kernel::verify::{Folder, Request, guest, server, verify};

use crate::Error;
use crate::data;
use crate::error::Role;
use crate::objects::{self, Built};
use crate::{Progress, program, shell};

/// The kernel whose verifier is used: the reference kernel of the simulated machine.
const KERNEL: &str = "6.18";

/// How the names of servers' folders in the cache begin.
const PREFIX: &str = "verifier-";

/// How long the guest waits for the next request, s. A variable of this name changes it.
const IDLE_S: u64 = 180;
const IDLE_VARIABLE: &str = "TILTYARD_VERIFY_IDLE_S";

/// The hidden subcommands of the verifier's server and its guest, if `words`, the program's arguments, name one of them:
/// how it ended.
pub fn hidden(words: &[&str]) -> Option<std::io::Result<()>> {
    let ended = match *words {
        [guest::ARGUMENT, folder] => guest::main(&Folder::new(folder)),
        [server::ARGUMENT, folder, kernel, idle_s] => {
            let idle = Duration::from_secs(idle_s.parse().unwrap_or(IDLE_S));
            sweep(Path::new(folder));
            server::main(&Folder::new(folder), kernel, idle)
        }
        _ => return None,
    };
    Some(ended)
}

/// Asks the verifier about a scheduler with the values that it gets in a kernel, and remembers if it accepts it.
/// Returns the release of that kernel.
pub fn require(built: &Built, progress: &dyn Progress) -> Result<String, Error> {
    let argument = &built.choice.argument;
    let job = objects::job(argument)?;
    let request = Request {
        object: job.object.ok_or_else(|| no_object(argument))?,
        tunables: job.tunables,
        environment: job.environment,
    };
    let idle_s = env::var(IDLE_VARIABLE).ok().and_then(|s| s.parse().ok());
    let idle_s = idle_s.unwrap_or(IDLE_S);
    let mut waiting = Waiting(progress);
    let verdict = verify(&folder()?, KERNEL, idle_s, &request, &mut waiting);
    let verdict = verdict.map_err(|source| Error::Verifier {
        argument: argument.clone(),
        source,
    })?;
    match verdict.refusal {
        Some(fault) if verdict.is_input => {
            let file = data::shown(&built.choice.source.with_file_name("presets.toml"));
            Err(Error::input(format!("{file}: {fault}")))
        }
        Some(refusal) => Err(Error::Refused(described(
            &built.choice.source,
            &verdict.kernel_release,
            &refusal,
        ))),
        None => {
            remember(&built.object.key, &verdict.kernel_release);
            Ok(verdict.kernel_release)
        }
    }
}

/// One line for a user's own scheduler that no verifier has accepted so far.
pub fn hint(built: &Built) -> Option<String> {
    let shipped = data::folder()
        .ok()?
        .join("schedulers")
        .canonicalize()
        .ok()?;
    let source = built.choice.source.canonicalize().ok()?;
    if source.starts_with(shipped) || mark(&built.object.key)?.is_file() {
        return None;
    }
    let source = data::shown(&built.choice.source);
    Some(format!(
        "{source}: never verified by a kernel, which may refuse it; {}",
        shell::line(&["tiltyard", "build", "--verify", source.as_str()])
    ))
}

fn no_object(argument: &str) -> Error {
    Error::argument("verify", argument, "has no object to verify")
}

/// The meaning of a rejection, its place first. The kernel's full message follows.
fn described(source: &Path, release: &str, refusal: &str) -> String {
    let place = source_line(refusal);
    let own = source.file_name().and_then(|name| name.to_str());
    let (file, code) = match &place {
        Some((file, line, code)) if Some(*file) == own => {
            (format!("{}:{line}", data::shown(source)), *code)
        }
        Some((file, line, code)) => (format!("{}: {file}:{line}", data::shown(source)), *code),
        None => (data::shown(source), ""),
    };
    let mut text = format!("{file}: Linux {release} refuses it: {}", word(refusal));
    if let Some(advice) = advice(refusal) {
        text += &format!("; {advice}");
    }
    if !code.is_empty() {
        text += &format!("\n    {code}");
    }
    for line in refusal.lines() {
        text += &format!("\n  | {line}");
    }
    text
}

/// The verifier's verdict: its last line. For some stores it only says what they are.
fn word(refusal: &str) -> &str {
    // What follows these words are the states of the two visits.
    let endless = refusal
        .lines()
        .find(|line| line.starts_with("infinite loop detected"));
    let last = endless.or(refusal.lines().last()).unwrap_or_default();
    let instruction = last.split_once(": (").map(|(_, rest)| rest);
    match instruction.and_then(|rest| rest.split_once(") ")) {
        Some((_, store)) if store.starts_with("*(") => STORE,
        _ => last,
    }
}

const READ_ONLY: &str =
    "a kernel's structs are read only, but for a task's scx.slice, scx.dsq_vtime and scx.disallow";

const STORE: &str = "may not write here";

/// The last line of source that the verifier quotes, `; code @ file.c:12`: file, number, code.
fn source_line(refusal: &str) -> Option<(&str, u32, &str)> {
    refusal.lines().rev().find_map(|line| {
        let (code, place) = line.strip_prefix("; ")?.rsplit_once(" @ ")?;
        let (file, number) = place.rsplit_once(':')?;
        Some((file, number.trim().parse().ok()?, code.trim()))
    })
}

/// What to do about the most common rejections.
fn advice(refusal: &str) -> Option<&'static str> {
    if word(refusal) == STORE {
        return Some(READ_ONLY);
    }
    let known = [
        (
            "pointer and register with unbounded",
            "the index may lie outside: limit it first",
        ),
        ("or_null", "it may be NULL there: test it first"),
        ("license", "add char _license[] SEC(\"license\") = \"GPL\";"),
        ("non-GPL", "add char _license[] SEC(\"license\") = \"GPL\";"),
        (
            "invalid access to map value",
            "the offset may lie outside of the map's value: limit it first",
        ),
        (
            "unbounded memory access",
            "the offset may lie outside of its memory: limit it first",
        ),
        (
            "outside of the allowed memory range",
            "the offset may lie outside of its memory: limit it first",
        ),
        ("cannot write into", READ_ONLY),
        ("only read is supported", READ_ONLY),
        ("Cannot write to", READ_ONLY),
        (
            "infinite loop",
            "bound the loop: bpf_for, bpf_repeat or can_loop",
        ),
        (
            "BPF program is too large",
            "bound loops by bpf_for, bpf_repeat or can_loop",
        ),
        ("Unreleased reference", "release what was acquired"),
    ];
    // Its last words count: above them, it shows all that it knows of each register.
    let word = word(refusal);
    let advice_for = |text: &str| known.iter().find(|(words, _)| text.contains(words));
    advice_for(word).map(|(_, advice)| *advice)
}

/// Where the verifier's server and its clients meet: one folder for each kernel and each build of this program.
fn folder() -> Result<Folder, Error> {
    let program = program::path()?;
    let about = fs::metadata(&program);
    let about = about.map_err(|e| Error::file(Role::Own, &program, "find", e))?;
    let identity = format!("{program:?} {:?} {KERNEL}", about.modified().ok());
    let name = &content_hash([identity.as_bytes()])[..16];
    Ok(Folder::new(cache()?.join(format!("{PREFIX}{name}"))))
}

/// Takes away what servers of other builds left that were killed.
fn sweep(own: &Path) {
    let beside = own.parent().and_then(|cache| fs::read_dir(cache).ok());
    for entry in beside.into_iter().flatten().flatten() {
        let is_server = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_server && entry.path() != own {
            server::sweep(&Folder::new(entry.path()));
        }
    }
}

fn cache() -> Result<PathBuf, Error> {
    default_cache_dir().ok_or_else(|| {
        Error::Environment("no folder for the cache: set HOME or XDG_CACHE_HOME".to_owned())
    })
}

/// The file that exists if a verifier has accepted the object with this key.
fn mark(key: &str) -> Option<PathBuf> {
    Some(default_cache_dir()?.join(format!("{key}.verified")))
}

/// A mark that cannot be written only costs a hint.
fn remember(key: &str, release: &str) {
    if let Some(mark) = mark(key) {
        let _ = fs::write(mark, format!("{release}\n"));
    }
}

struct Waiting<'a>(&'a dyn Progress);

impl tiltyard_kernel::Progress for Waiting<'_> {
    fn step(&mut self, what: &str) {
        self.0.step(what);
    }

    fn output(&mut self, _scheduler: &str, _text: &str) {}

    fn stop(&mut self) -> Option<String> {
        self.0.stop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSAL: &str = "the verifier refuses my_dispatch:\n\
        ; void BPF_STRUCT_OPS(my_dispatch, s32 cpu, struct task_struct *p) @ my.bpf.c:16\n\
        0: (79) r1 = *(u64 *)(r1 +8)          ; R1_w=trusted_ptr_or_null_task_struct(id=1)\n\
        ; vtime = p->scx.dsq_vtime; @ my.bpf.c:18\n\
        1: (79) r1 = *(u64 *)(r1 +760)\n\
        R1 invalid mem access 'trusted_ptr_or_null_'";

    #[test]
    fn the_last_line_of_source_is_the_place() {
        assert_eq!(
            source_line(REFUSAL),
            Some(("my.bpf.c", 18, "vtime = p->scx.dsq_vtime;"))
        );
        let text = described(Path::new("./my.bpf.c"), "6.18.15", REFUSAL);
        assert!(
            text.starts_with(
                "./my.bpf.c:18: Linux 6.18.15 refuses it: R1 invalid mem access 'trusted_ptr_or_null_'; it may be NULL \
                 there: test it first\n    vtime = p->scx.dsq_vtime;\n"
            ),
            "{text}"
        );
        assert!(
            text.contains("\n  | 1: (79) r1"),
            "the kernel's words: {text}"
        );
    }

    #[test]
    fn a_store_is_refused_without_a_word() {
        let refusal =
            "the verifier refuses my_enqueue:\n; x->y = 3; @ my.h:4\n3: (62) *(u32 *)(r1 +108) = 3";
        let text = described(Path::new("my.bpf.c"), "6.18.15", refusal);
        assert!(
            text.starts_with(
                "my.bpf.c: my.h:4: Linux 6.18.15 refuses it: may not write here; a kernel's structs are read only"
            ),
            "{text}"
        );
        assert_eq!(
            word("2: (85) call x#1\nR1 must not be NULL"),
            "R1 must not be NULL"
        );
    }

    #[test]
    fn what_it_knows_of_registers_is_no_reason() {
        let held = "the verifier refuses my_enqueue:\n\
            5: (85) call bpf_map_lookup_elem#1 ; R0_w=map_value_or_null(id=1)\n\
            BPF_EXIT instruction in main prog cannot be used inside bpf_spin_lock-ed region";
        assert_eq!(advice(held), None);
        let endless = "the verifier refuses my_running:\n\
            infinite loop detected at insn 4\n\
            cur state: R1=map_value(ks=4)\n\
            old state: R1=map_value(ks=4)";
        assert_eq!(word(endless), "infinite loop detected at insn 4");
        assert!(advice(endless).is_some_and(|words| words.contains("bpf_for")));
    }

    #[test]
    fn a_refusal_without_a_place_names_the_file() {
        let text = described(
            Path::new("my.bpf.c"),
            "6.18.15",
            "struct ops programs must have a GPL compatible license",
        );
        assert_eq!(
            text.lines().next(),
            Some(
                "my.bpf.c: Linux 6.18.15 refuses it: struct ops programs must have a GPL compatible license; add char \
                 _license[] SEC(\"license\") = \"GPL\";"
            )
        );
    }
}
