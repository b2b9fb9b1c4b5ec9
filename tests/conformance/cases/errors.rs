// SPDX-License-Identifier: GPL-2.0-or-later
//! How schedulers end, on purpose and not.

use crate::arm::{Arm, Case, EndKind, MS};

/// X sleeps once, so that it passes through every callback.
const X: &str = r#""X": { "loop": 1, "run": 1500, "sleep": 1000, "run1": 1500 }"#;

/// scx_bpf_exit() works in every callback and carries its code.
pub fn exits_by_the_scheduler(arm: &impl Arm) {
    let defines = [
        "EXIT_FROM=IN_SELECT_CPU",
        "EXIT_FROM=IN_ENQUEUE",
        "EXIT_FROM=IN_DISPATCH",
        "EXIT_FROM=IN_INIT_TASK",
        "EXIT_FROM=IN_ENABLE",
        "EXIT_FROM=IN_INIT",
        "EXIT_FROM=IN_RUNNING",
    ];
    let case = Case::new("exits", X).on("core:2 pu:1");
    let cases = defines.map(|define| case.clone().define(define));
    for (log, define) in arm.run_all(&cases).iter().zip(defines) {
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
    let mistakes = [
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
    ];
    // A waits in the shared queue when X comes.
    let tasks = format!(r#""A": {{ "instance": 4, "loop": 1, "run": 20000 }}, {X}"#);
    let case = Case::new("mistakes", tasks).on("core:2 pu:1");
    let cases = mistakes.map(|(define, _)| case.clone().define(define));
    for (log, (define, message)) in arm.run_all(&cases).iter().zip(mistakes) {
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
    // It is initialised before it is looked at so closely, but no task is its.
    assert!(
        log.calls()
            .iter()
            .all(|(_, call)| call.starts_with("init "))
    );
}

/// The scheduler's own timeout, not the longest that the kernel allows.
pub fn stall_after_timeout_ms(arm: &impl Arm) {
    let timeouts = [("TIMEOUT_MS=2000", 2000), ("TIMEOUT_MS=6000", 6000)];
    let case = Case::new("never", X).for_ms(60_000).watched();
    let cases = timeouts.map(|(define, _)| case.clone().define(define));
    for (log, (define, timeout_ms)) in arm.run_all(&cases).iter().zip(timeouts) {
        assert_eq!(log.end.kind, EndKind::Stall, "{}", log.end.message);
        let at_ms = log.end.time_ns / MS;
        // Looked for every half timeout; then it takes a kernel a moment.
        let late_ms = if log.is_exact { 0 } else { timeout_ms / 50 };
        assert!(
            (timeout_ms..=timeout_ms * 3 / 2 + late_ms).contains(&at_ms),
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
    // The kernel says no more than E2BIG, and where it is asked to say more, nothing.
    let says_why = log.end.message.contains("30001");
    assert!(says_why || !log.is_exact, "{}", log.end.message);
}
