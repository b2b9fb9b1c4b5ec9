// SPDX-License-Identifier: GPL-2.0-or-later
//! A bug of the kernel's verifier that can end the whole machine while it checks a correct scheduler.
//!
//! Where a loop that the verifier does not count (`bpf_for`, `can_loop`, `bpf_loop()`) comes round again, `widen_imprecise_scalars()` walks the stack of the state that it
//! remembers, and takes for granted that the stack of the current state is as deep. It is not if the loop is in a function
//! of its own that is called in another loop, for the second call starts with an empty stack: the verifier then reads and
//! writes beyond an allocation. Linux 6.16.12 dies so while it checks `cfs`; 6.17.13 and 6.18.15 check it without harm.

use object::read::{Object, ObjectSection, ObjectSymbol, RelocationTarget};

/// Series of Linux with sched_ext, and the first release of each that compares the depths.
const MENDED: [((u32, u32), u32); 2] = [((6, 12), 59), ((6, 17), 9)];

/// Whether this kernel (`uname -r`) may be damaged by its verifier when this BPF object is loaded.
pub fn threatens(release: &str, object: &[u8]) -> bool {
    is_in(release) && has_loop_in_function(object)
}

fn is_in(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    let (series, patch) = ((next(), next()), next());
    match MENDED.iter().find(|(mended, _)| *mended == series) {
        Some((_, first)) => patch < *first,
        None => ((6, 12)..(6, 17)).contains(&series),
    }
}

/// Opcodes and numbers of include/uapi/linux/bpf.h.
const LOAD_IMMEDIATE_64: u8 = 0x18;
const MAY_GOTO: u8 = 0xe5;
const CALL: u8 = 0x85;
const FOR_EACH_MAP_ELEM: u32 = 164;
const LOOP: u32 = 181;

/// A loop whose passes the verifier does not count: an iterator, may_goto, or a helper that calls back. Functions are in
/// `.text`; what the kernel calls itself has a section of its own.
fn has_loop_in_function(bytes: &[u8]) -> bool {
    let Ok(object) = object::File::parse(bytes) else {
        return false; // libbpf says what is wrong with it
    };
    let Some(text) = object.section_by_name(".text") else {
        return false;
    };
    has_loop(text.data().unwrap_or(&[]))
        || text.relocations().any(|(_, relocation)| {
            let RelocationTarget::Symbol(index) = relocation.target() else {
                return false;
            };
            let symbol = object.symbol_by_index(index);
            let name = symbol.and_then(|symbol| symbol.name()).unwrap_or("");
            name.starts_with("bpf_iter_") && name.ends_with("_next")
        })
}

/// Of the kinds that are no kernel functions.
fn has_loop(text: &[u8]) -> bool {
    let mut insns = text.chunks_exact(8);
    while let Some(insn) = insns.next() {
        let immediate = u32::from_le_bytes([insn[4], insn[5], insn[6], insn[7]]);
        let is_helper = insn[1] >> 4 == 0;
        match insn[0] {
            // The other half of its number comes next.
            LOAD_IMMEDIATE_64 => drop(insns.next()),
            MAY_GOTO => return true,
            CALL if is_helper && [FOR_EACH_MAP_ELEM, LOOP].contains(&immediate) => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_of_all_kinds() {
        let insn = |opcode, registers, immediate: u32| {
            let mut insn = [opcode, registers, 0, 0, 0, 0, 0, 0];
            insn[4..].copy_from_slice(&immediate.to_le_bytes());
            insn
        };
        let exit = insn(0x95, 0, 0);
        for looping in [
            insn(MAY_GOTO, 0, 0),
            insn(CALL, 0, LOOP),
            insn(CALL, 0, FOR_EACH_MAP_ELEM),
        ] {
            assert!(has_loop(&[exit, looping].concat()));
            // Within a number.
            assert!(!has_loop(
                &[insn(LOAD_IMMEDIATE_64, 1, 5), looping, exit].concat()
            ));
        }
        // A function of the program's own, and another helper.
        assert!(!has_loop(
            &[insn(CALL, 0x10, LOOP), insn(CALL, 0, 1), exit].concat()
        ));
    }

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
