// SPDX-License-Identifier: GPL-2.0-or-later
//! What BPF defines and C does not: division, shifts, reads through null pointers. Each at -O0 and -O2, where results
//! and counted work must be the same.

use crate::common::{Engine, build_both, call, load, read, task};

/// Runs `init` of a scheduler and returns its global `out` and the work done, which must not depend on the level.
fn outcome<const N: usize>(body: &str) -> [u64; N] {
    let results = build_both(body, ".init = (void *)test_init,").map(|object| {
        let engine = Engine::default();
        let instance = load(&object, &[], &engine);
        call(&instance, &object, "init", &[]).expect("init returns");
        (read::<[u64; N]>(&instance, "out"), instance.work_insns())
    });
    assert_eq!(results[0], results[1], "-O0 and -O2 differ");
    results[0].0
}

#[test]
fn division_by_zero_and_overflow() {
    let out = outcome::<16>(
        "const volatile u64 zero; const volatile s64 minus = -1; const volatile u64 ten = 10;
         const volatile s64 lowest = (s64)(1ull << 63); const volatile s32 lowest32 = (s32)(1u << 31);
         u64 out[16];
         s32 BPF_STRUCT_OPS_SLEEPABLE(test_init) {
             out[0] = ten / zero; out[1] = ten % zero;
             out[2] = (u32)ten / (u32)zero; out[3] = (u32)ten % (u32)zero;
             out[4] = (s64)ten / (s64)zero; out[5] = (s64)ten % (s64)zero;
             out[6] = lowest / minus; out[7] = lowest % minus;
             out[8] = (u32)(lowest32 / (s32)minus); out[9] = (u32)(lowest32 % (s32)minus);
             out[10] = (s64)ten / minus; out[11] = ten / 3; out[12] = (s64)-7 / (s64)(ten - 8);
             /* The front end deletes the check, in the BPF object as well. */
             u64 d = zero, q = ten / d; if (!d) q = 42; out[13] = q;
             out[14] = (u16)ten / (u16)zero; out[15] = (u8)ten % (u8)zero;
             return 0; }",
    );
    let low = 1u64 << 63;
    let expected = [
        0,
        10,
        0,
        10,
        0,
        10,
        low,
        0,
        1 << 31,
        0,
        -10i64 as u64,
        3,
        -3i64 as u64,
        0,
        0,
        10,
    ];
    assert_eq!(out, expected);
}

#[test]
fn shift_counts_are_masked() {
    let out = outcome::<6>(
        "const volatile u64 n = 97; const volatile u64 x = 3; const volatile s64 y = -8;
         u64 out[6];
         s32 BPF_STRUCT_OPS_SLEEPABLE(test_init) {
             out[0] = x << n; out[1] = x >> n; out[2] = y >> n;
             out[3] = (u32)x << (u32)n; out[4] = (u32)x >> (u32)n; out[5] = (u32)((s32)y >> (u32)n);
             return 0; }",
    );
    assert_eq!(out, [3 << 33, 0, u64::MAX, 6, 1, -4i32 as u32 as u64]);
}

#[test]
fn stack_memory_that_nobody_wrote_reads_as_zero() {
    let out = outcome::<3>(
        "u64 out[3]; struct pair { u8 a; u64 b; }; const volatile u32 n = 1;
         static __noinline void write(volatile u8 *a) {
             barrier_var(a); for (int i = 0; i < 200; i++) a[i] = 0xee; }
         static __noinline int soil(int n) { volatile u8 a[200]; write(a); return a[n]; }
         static __noinline u64 look(u32 i) { volatile u64 q[4]; q[i & 3] = 1; return q[(i + 1) & 3]; }
         static __noinline int fill(struct pair *p) { barrier_var(p); p->a = 1; return 0; }
         s32 BPF_STRUCT_OPS_SLEEPABLE(test_init) {
             soil(3); struct pair p; fill(&p); out[0] = p.a; out[1] = *((volatile u64 *)&p.b);
             out[2] = look(n); return 0; }",
    );
    assert_eq!(out, [1, 0, 0]);
}

#[test]
fn bounded_member_access() {
    let out = outcome::<3>(
        "u64 out[3]; u64 table[4] = { 10, 11, 12, 13 }; const volatile u32 inside = 2, outside = 4;
         static u64 get(u32 i) { u64 *p = MEMBER_VPTR(table, [i]); return p ? *p : 99; }
         s32 BPF_STRUCT_OPS_SLEEPABLE(test_init) {
             out[0] = get(inside); out[1] = get(outside); return 0; }",
    );
    assert_eq!(out, [12, 99, 0]);
}

#[test]
fn may_goto_loops_end_when_their_budget_does() {
    let out = outcome::<1>(
        "u64 out[1];
         s32 BPF_STRUCT_OPS_SLEEPABLE(test_init) { while (can_loop) out[0]++; return 0; }",
    );
    assert_eq!(out, [8 * 1024 * 1024]);
}

#[test]
fn reads_through_null_kernel_pointers_are_zero_and_writes_fault() {
    let body = "u64 out; u32 pid;
        void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {
            pid = p->real_parent->pid; out = p->scx.dsq_vtime; }
        void BPF_STRUCT_OPS(test_dispatch, s32 cpu, struct task_struct *prev) { prev->scx.slice = 5; }";
    for object in build_both(
        body,
        ".enqueue = (void *)test_enqueue, .dispatch = (void *)test_dispatch,",
    ) {
        let engine = Engine::default();
        let instance = load(&object, &[], &engine);
        let mut p = task();
        p.scx.dsq_vtime = 77;
        let p = &raw mut *p as u64;
        call(&instance, &object, "enqueue", &[p, 0]).expect("parent is null, yet readable");
        assert_eq!(
            (read::<u64>(&instance, "out"), read::<u32>(&instance, "pid")),
            (77, 0)
        );
        call(&instance, &object, "dispatch", &[0, p]).expect("a task may be written");
        let crash = call(&instance, &object, "dispatch", &[0, 0]).expect_err("null may not");
        assert!(
            matches!(crash, tiltyard_native::Crash::Fault { address } if address < 65536),
            "{crash}"
        );
    }
}

#[test]
fn answers_are_those_of_the_reference_kernel() {
    let out = outcome::<8>(
        "u64 out[8]; extern int CONFIG_HZ __kconfig; extern int LINUX_KERNEL_VERSION __kconfig;
         struct task_struct___gone { long state; } __attribute__((preserve_access_index));
         struct task_struct___here { int pid; } __attribute__((preserve_access_index));
         s32 BPF_STRUCT_OPS_SLEEPABLE(test_init) {
             struct task_struct *p = (void *)bpf_get_current_task_btf();
             out[0] = SCX_ENQ_HEAD; out[1] = SCX_SLICE_DFL; out[2] = SCX_ENQ_IMMED;
             out[3] = LINUX_KERNEL_VERSION; out[4] = CONFIG_HZ;
             out[5] = bpf_core_field_exists(((struct task_struct___gone *)p)->state);
             out[6] = bpf_core_field_exists(((struct task_struct___here *)p)->pid);
             out[7] = bpf_core_type_exists(struct scx_cmask);
             return 0; }",
    );
    assert_eq!(
        out,
        [0x10, 20_000_000, 0, (6 << 16) | (18 << 8), 1000, 0, 1, 0]
    );
}

/// Elements of an array member, first and later ones, are found where the simulated kernel has the array.
#[test]
fn elements_of_an_array_member() {
    let results = build_both(
        "u64 out[2];
         void BPF_STRUCT_OPS(test_running, struct task_struct *p) {
             out[0] = p->comm[0]; out[1] = p->comm[3]; }",
        ".running = (void *)test_running,",
    )
    .map(|object| {
        let engine = Engine::default();
        let instance = load(&object, &[], &engine);
        let mut task = task();
        task.comm[0] = b'h' as _;
        task.comm[3] = b'k' as _;
        call(&instance, &object, "running", &[&raw const *task as u64]).expect("running returns");
        read::<[u64; 2]>(&instance, "out")
    });
    assert_eq!(results, [[u64::from(b'h'), u64::from(b'k')]; 2]);
}

#[test]
fn numbers_to_loop_over() {
    let out = outcome::<12>(
        "const volatile s32 low = -2, high = 3, big = 1 << 23; u64 out[12];
         s32 BPF_STRUCT_OPS_SLEEPABLE(test_init) {
             struct bpf_iter_num it; s32 i, *p;
             bpf_for(i, low, high) { out[0]++; out[1] += i; }
             bpf_for(i, high, high) out[2]++;
             bpf_for(i, high, low) out[3]++;
             bpf_for(i, low, high) { if (i == 1) break; out[4]++; }
             out[5] = (s64)bpf_iter_num_new(&it, high, low);
             out[6] = !bpf_iter_num_next(&it);
             out[7] = (s64)bpf_iter_num_new(&it, 0, big);
             p = bpf_iter_num_next(&it); out[8] = p ? *p : 99;
             out[9] = (s64)bpf_iter_num_new(&it, -1, big);
             bpf_iter_num_new(&it, (s32)(1u << 31), (s32)(1u << 31) + 1);
             p = bpf_iter_num_next(&it); out[10] = p ? *p : 99;
             out[11] = !bpf_iter_num_next(&it) + !bpf_iter_num_next(&it);
             return 0; }",
    );
    let lowest = i64::from(i32::MIN) as u64;
    let expected = [
        5,
        0,
        0,
        0,
        3,
        -22i64 as u64,
        1,
        0,
        0,
        -7i64 as u64,
        lowest,
        2,
    ];
    assert_eq!(out, expected);
}
