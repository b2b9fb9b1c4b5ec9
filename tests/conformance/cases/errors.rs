// SPDX-License-Identifier: GPL-2.0-or-later
//! How schedulers end, on purpose and not.

use crate::arm::{Arm, Case, EndKind, MS};

/// X sleeps once, so that it passes through every callback.
const X: &str = r#""X": { "loop": 1, "run": 1500, "sleep": 1000, "run1": 1500 }"#;

/// scx_bpf_exit() works in every callback and carries its code.
pub fn exits_by_the_scheduler(arm: &impl Arm) {
    for define in [
        "EXIT_FROM=IN_SELECT_CPU",
        "EXIT_FROM=IN_ENQUEUE",
        "EXIT_FROM=IN_DISPATCH",
        "EXIT_FROM=IN_INIT_TASK",
        "EXIT_FROM=IN_ENABLE",
        "EXIT_FROM=IN_INIT",
        "EXIT_FROM=IN_RUNNING",
    ] {
        let log = arm.run(&Case::new("exits", X).define(define).on("core:2 pu:1"));
        assert_eq!(
            log.end.kind,
            EndKind::ByScheduler,
            "{define}: {}",
            log.end.message
        );
        assert_eq!(log.end.code, 0xcafe, "{define}");
        assert!(
            log.end.message.starts_with("from "),
            "{define}: {}",
            log.end.message
        );
    }
}

/// Each ends the scheduler with an error that says what was wrong.
pub fn mistakes_end_the_scheduler(arm: &impl Arm) {
    for (define, message) in [
        ("MISTAKE=DOUBLE_INSERT", "already direct-dispatched"),
        ("MISTAKE=BOGUS_INSERT", "non-existent DSQ 0xbeef"),
        ("MISTAKE=BOGUS_VTIME_INSERT", "non-existent DSQ 0xbeef"),
        (
            "MISTAKE=VTIME_INTO_LOCAL",
            "vtime ordering for built-in DSQs",
        ),
        ("MISTAKE=MIXED_ORDER", "already had FIFO-enqueued tasks"),
        ("MISTAKE=OTHER_TASK", "but trying to direct-dispatch"),
        ("MISTAKE=BOGUS_MOVE", "invalid DSQ ID 0x000000000000beef"),
        ("MISTAKE=BAD_KICK", "9999"),
        ("MISTAKE=BAD_CPU", "invalid CPU 9999 from ops.select_cpu()"),
        ("MISTAKE=INSERT_IN_TICK", "called from an operation"),
        ("MISTAKE=KICK_IDLE_PREEMPT", "SCX_KICK_IDLE"),
    ] {
        // A waits in the shared queue when X comes.
        let tasks = format!(r#""A": {{ "instance": 4, "loop": 1, "run": 20000 }}, {X}"#);
        let log = arm.run(
            &Case::new("mistakes", tasks)
                .define(define)
                .on("core:2 pu:1"),
        );
        assert_eq!(
            log.end.kind,
            EndKind::Error,
            "{define}: {}",
            log.end.message
        );
        assert!(
            log.end.message.contains(message),
            "{define}: {}",
            log.end.message
        );
    }
}

/// SCX_OPS_ENQ_LAST means nothing without ops.enqueue, and such a scheduler is not loaded.
pub fn enq_last_needs_enqueue(arm: &impl Arm) {
    let case = Case::new("shared", X)
        .define("WITHOUT_ENQUEUE")
        .define("OPS_FLAGS=SCX_OPS_ENQ_LAST");
    let log = arm.run(&case);
    assert_eq!(log.end.kind, EndKind::Refused);
    assert!(
        log.end.message.contains("SCX_OPS_ENQ_LAST"),
        "{}",
        log.end.message
    );
    assert!(log.calls().is_empty());
}

/// The scheduler's own timeout, not the longest that the kernel allows.
pub fn stall_after_timeout_ms(arm: &impl Arm) {
    for (define, timeout_ms) in [("TIMEOUT_MS=2000", 2000), ("TIMEOUT_MS=6000", 6000)] {
        let log = arm.run(
            &Case::new("never", X)
                .define(define)
                .for_ms(60_000)
                .watched(),
        );
        assert_eq!(log.end.kind, EndKind::Stall, "{}", log.end.message);
        let at_ms = log.end.time_ns / MS;
        // Looked for every half timeout.
        assert!(
            (timeout_ms..=timeout_ms * 3 / 2).contains(&at_ms),
            "{define}: {at_ms} ms"
        );
        assert!(
            log.end.message.contains("failed to run for"),
            "{}",
            log.end.message
        );
    }
}

pub fn timeout_ms_has_a_limit(arm: &impl Arm) {
    let log = arm.run(&Case::new("never", X).define("TIMEOUT_MS=30001").for_ms(1));
    assert_eq!(log.end.kind, EndKind::Refused);
    assert!(log.end.message.contains("30001"), "{}", log.end.message);
}
