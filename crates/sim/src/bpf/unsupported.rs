// SPDX-License-Identifier: GPL-2.0-or-later
//! Kernel functions and helpers that exist in a kernel and not in the simulated machine, by what
//! they belong to. Whoever binds a scheduler's calls asks here, so that the refusal says more than
//! "unknown".

/// Function names (or their beginnings, where they end in `*`) and what is missing for them.
const KFUNCS: &[(&str, &str)] = &[
    ("bpf_obj_new_impl", "objects of its own (bpf_obj_new)"),
    ("bpf_obj_drop_impl", "objects of its own (bpf_obj_drop)"),
    ("bpf_percpu_obj_*", "per-CPU objects (bpf_percpu_obj_new)"),
    (
        "bpf_refcount_acquire_impl",
        "objects of its own (bpf_refcount)",
    ),
    ("bpf_rbtree_*", "bpf_rbtree"),
    ("bpf_list_*", "bpf_list"),
    ("bpf_arena_*", "BPF_MAP_TYPE_ARENA"),
    ("bpf_dynptr_*", "dynptrs"),
    ("bpf_wq_*", "bpf_wq"),
    // It walks words at the mask's own address; here the bits lie behind a pointer.
    (
        "bpf_iter_bits_*",
        "iteration over raw bitmaps; use bpf_for and bpf_cpumask_test_cpu",
    ),
];

/// Helper numbers, names, and what is missing for them.
const HELPERS: &[(u32, &str, &str)] = &[
    (198, "bpf_ringbuf_reserve_dynptr", "dynptrs"),
    (199, "bpf_ringbuf_submit_dynptr", "dynptrs"),
    (200, "bpf_ringbuf_discard_dynptr", "dynptrs"),
    (201, "bpf_dynptr_read", "dynptrs"),
    (202, "bpf_dynptr_write", "dynptrs"),
    (203, "bpf_dynptr_data", "dynptrs"),
    (209, "bpf_user_ringbuf_drain", "BPF_MAP_TYPE_USER_RINGBUF"),
];

/// Why there is no such kernel function: `not supported: bpf_rbtree_add (bpf_rbtree)`. `None` if
/// this module does not know it.
pub fn kfunc(name: &str) -> Option<String> {
    let (_, what) = KFUNCS
        .iter()
        .find(|(pattern, _)| match pattern.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == *pattern,
        })?;
    Some(format!("not supported: {name} ({what})"))
}

/// The same for a helper by number.
pub fn helper(number: u32) -> Option<String> {
    let (_, name, what) = HELPERS.iter().find(|(n, ..)| *n == number)?;
    Some(format!("not supported: {name} ({what})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_carry_the_name() {
        let why = |name| kfunc(name).unwrap_or_default();
        assert_eq!(
            why("bpf_rbtree_add_impl"),
            "not supported: bpf_rbtree_add_impl (bpf_rbtree)"
        );
        assert!(why("bpf_obj_new_impl").contains("bpf_obj_new_impl"));
        assert!(why("bpf_list_push_front_impl").contains("bpf_list"));
        assert_eq!(kfunc("scx_bpf_kick_cpu"), None);
        assert!(helper(198).unwrap().contains("bpf_ringbuf_reserve_dynptr"));
        assert_eq!(helper(1), None);
    }
}
