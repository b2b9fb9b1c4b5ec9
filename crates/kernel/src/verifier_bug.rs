// SPDX-License-Identifier: GPL-2.0-or-later
//! A bug of the kernel's verifier that can end the whole machine while it checks a correct scheduler.
//!
//! Where an iterator loop (`bpf_for`) comes round again, `widen_imprecise_scalars()` walks the stack of the state that it
//! remembers, and takes for granted that the stack of the current state is as deep. It is not if the loop is in a function
//! of its own that is called in another loop, for the second call starts with an empty stack: the verifier then reads and
//! writes beyond an allocation. Linux 6.16.12 dies so while it checks `cfs`; 6.17.13 and 6.18.15 check it without harm.
//!
//! `can_loop` and `bpf_loop()` can do the same and are not looked for: functions of scx's headers contain them, which every
//! object has and no kernel loads unless they are called.

use object::read::{Object, ObjectSection, ObjectSymbol, RelocationTarget};

/// Series of Linux with sched_ext, and the first release of each that compares the depths.
const MENDED: [((u32, u32), u32); 2] = [((6, 12), 59), ((6, 17), 9)];

/// Whether this kernel (`uname -r`) may be damaged by its verifier when this BPF object is loaded.
pub fn threatens(release: &str, object: &[u8]) -> bool {
    is_in(release) && has_loop_in_function(object)
}

fn is_in(release: &str) -> bool {
    let [major, minor, ref rest @ ..] = crate::release::numbers(release)[..] else {
        return false;
    };
    let (series, patch) = ((major, minor), rest.first().copied().unwrap_or(0));
    match MENDED.iter().find(|(mended, _)| *mended == series) {
        Some((_, first)) => patch < *first,
        None => ((6, 12)..(6, 17)).contains(&series),
    }
}

/// Functions are in `.text`; what the kernel calls itself has a section of its own.
fn has_loop_in_function(bytes: &[u8]) -> bool {
    let Ok(object) = object::File::parse(bytes) else {
        return false; // libbpf says what is wrong with it
    };
    let Some(text) = object.section_by_name(".text") else {
        return false;
    };
    text.relocations().any(|(_, relocation)| {
        let RelocationTarget::Symbol(index) = relocation.target() else {
            return false;
        };
        let symbol = object.symbol_by_index(index);
        let name = symbol.and_then(|symbol| symbol.name()).unwrap_or("");
        name.starts_with("bpf_iter_") && name.ends_with("_next")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_without_the_mend() {
        for release in [
            "6.12.58",
            "6.13.0-rc1",
            "6.16.12+deb13-cloud-amd64",
            "6.17.8",
        ] {
            assert!(is_in(release), "{release}");
        }
        for release in [
            "6.12.59",
            "6.17.9",
            "6.17.13+deb13-cloud-amd64",
            "6.18.0",
            "7.0.1",
            "6.6.2",
            "",
        ] {
            assert!(!is_in(release), "{release}");
        }
    }
}
