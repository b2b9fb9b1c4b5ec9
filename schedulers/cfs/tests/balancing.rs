// SPDX-License-Identifier: GPL-2.0-or-later
//! CFS's balancing, record by record (see recorded.rs), through the handles of multicore.bpf.c.
//!
//! Everything in a record is compared but: of `det`, why a task was passed over and the load that was asked for
//! (`examined`): they show in what was detached, in the order in which the list is left, and in what remains of the
//! imbalance; of `lb`, tasks that are moved to several CPUs, whose order is compared for each CPU; of `kick`, ticks that
//! find the CPU idle, which sched_ext does not tell a scheduler.

use crate::cfs::multicore::RECORDS;
use crate::cfs::recorded::*;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;
use tiltyard_schedtest::kernel::{KICK_IDLE, KICK_PREEMPT};

/// Group statistics in the record's words.
fn stats(m: &mut Machine, busiest: bool) -> Value {
    let w = m.call("t_stats", &[busiest.into()]);
    let kind = ["other", "imbalanced", "overloaded"][(w[7] >> 16 & 0xff) as usize];
    json!({
        "avg": w[0], "load": w[1], "runnable": w[2], "per_task": w[3], "cap": w[4], "util": w[5], "nr": w[6],
        "idle": w[7] & 0xffff, "type": kind,
    })
}

#[test]
fn busiest_groups() {
    RECORDS.check("fbg", 460, &[], |m, r| {
        let (cpu, level) = (int(&r["cpu"]), m.level(r));
        m.cpus(r, "nr");
        for mask in r["imb_groups"].as_array().unwrap_or(&Vec::new()) {
            let group = m.group(cpu, level, bits(mask));
            m.call("t_set_imbalance", &[group, 1]);
        }
        m.call("t_pass", &[cpu, level, state_of(&r["idle"]), NOW_NS]);
        for out in (0..m.nr_cpus as i64).filter(|cpu| bits(&r["cpus"]) & 1 << cpu == 0) {
            m.call("t_leave_out", &[out]);
        }
        differs("local", &stats(m, false), &r["local"])?;
        let w = m.call("t_busiest", &[]);
        let groups = m.groups(cpu, level);
        let mask = |index: i64| groups.iter().find(|g| g.0 == index).map(|g| g.1);
        let given = |key: &str| r[key].as_str().map(|_| bits(&r[key]));
        differs("candidate", &mask(w[0]), &given("candidate"))?;
        if w[0] >= 0 {
            differs("its statistics", &stats(m, true), &r["cand"])?;
        }
        differs(
            "sums",
            &[w[5], w[6]],
            &[int(&r["total_load"]), int(&r["total_cap"])],
        )?;
        if let Some(average) = r["domain_avg"].as_i64().filter(|_| w[0] >= 0) {
            differs("average", &w[4], &average)?;
        }
        differs("busiest", &mask(w[1]), &given("busiest"))?;
        differs("imbalance", &w[2], &int(&r["imbalance"]))?;
        differs("queue", &w[3], &r["queue"].as_i64().unwrap_or(-1))
    });
}

#[test]
fn busiest_cpus() {
    RECORDS.check("fbq", 220, &[], |m, r| {
        let [list, nr, load, cap] = ["list", "nr_running", "load", "cap"].map(|key| ints(&r[key]));
        for n in 0..list.len() {
            m.call("t_cpu", &[list[n], nr[n], 0, load[n], 0, cap[n]]);
        }
        // The group: of whatever level and CPU.
        let mask = list.iter().map(|cpu| 1u64 << cpu).sum::<u64>();
        let mut found = None;
        for cpu in 0..m.nr_cpus as i64 {
            for level in 0..m.call("t_topology", &[cpu])[1] {
                found = found.or(m.groups(cpu, level).into_iter().find(|g| g.1 == mask));
            }
        }
        let group = found.ok_or("no such group")?.0;
        m.call("t_pass", &[0, 0, 0, NOW_NS]);
        for out in list.iter().filter(|cpu| bits(&r["cpus"]) & 1 << **cpu == 0) {
            m.call("t_leave_out", &[*out]);
        }
        let queue = m.call(
            "t_busiest_cpu",
            &[group, int(&r["imbalance"]), int(&r["pct"])],
        )[3];
        differs("queue", &queue, &r["queue"].as_i64().unwrap_or(-1))
    });
}

#[test]
fn who_balances() {
    RECORDS.check("swb", 220, &[], |m, r| {
        m.set_idle(bits(&r["idle_cpus"]));
        m.call(
            "t_pass",
            &[int(&r["cpu"]), m.level(r), state_of(&r["idle"]), NOW_NS],
        );
        for out in (0..m.nr_cpus as i64).filter(|cpu| bits(&r["cpus"]) & 1 << cpu == 0) {
            m.call("t_leave_out", &[out]);
        }
        differs(
            "balance",
            &m.call("t_should_balance", &[])[0],
            &int(&r["balance"]),
        )
    });
}

#[test]
fn pushes() {
    RECORDS.check("nab", 220, &[], |m, r| {
        let of = |key: &str| int(&r[key]);
        let level = m.level(r);
        m.call("t_cpu", &[0, 0, 0, 0, 0, of("cap_dst")]);
        m.call("t_cpu", &[1, of("src_tasks"), 0, 0, 0, of("cap_src")]);
        let w = m.call("t_level_figures", &[0, level]);
        differs("tries", &w[5], &of("tries"))?;
        m.call("t_domain", &[0, level, of("failed"), 4, 0, 0, 0]);
        m.call("t_pass", &[0, level, state_of(&r["idle"]), NOW_NS]);
        differs("active", &m.call("t_needs_push", &[1, 0])[2], &of("active"))
    });
}

#[test]
fn intervals() {
    RECORDS.check("ivl", 198, &[], |m, r| {
        let w = m.call(
            "t_interval",
            &[0, m.level(r), int(&r["balance_interval_ms"])],
        );
        let should = [int(&r["jiffies_idle"]), int(&r["jiffies_busy"])];
        differs("ticks", &[w[3], w[4]], &should)
    });
}

/// Sets up and runs one detaching.
fn detach(m: &mut Machine, r: &Value) -> [i64; 8] {
    let of = |key: &str| int(&r[key]);
    let (src, dst, level) = (of("src"), of("dst"), m.level(r));
    m.queue(src, &r["tasks"]);
    if of("running") >= 0 {
        m.call("t_run", &[of("running") + FIRST, NOW_NS]);
    }
    let buddy = |id: i64| if id < 0 { 0 } else { id + FIRST };
    let load = of("src_load_avg");
    m.call(
        "t_queue",
        &[src, load, load, 0, buddy(of("next")), buddy(of("last"))],
    );
    m.call("t_cpu", &[dst, of("dst_nr"), 0, 0, 0, m.full_capacity]);
    m.call("t_domain", &[dst, level, of("failed"), 4, 0, 0, 0]);
    m.call("t_pass", &[dst, level, state_of(&r["idle"]), NOW_NS]);
    m.call("t_detach", &[src, of("imbalance"), of("loop_max")])
}

fn detached(m: &mut Machine, nr: i64) -> Vec<i64> {
    (0..nr)
        .map(|n| m.call("t_detached", &[n])[1] - FIRST)
        .collect()
}

#[test]
fn tasks_taken() {
    RECORDS.check("det", 360, &[], |m, r| {
        let w = detach(m, r);
        differs("detached", &detached(m, w[0]), &ints(&r["detached"]))?;
        differs("imbalance left", &w[1], &int(&r["imbalance_left"]))?;
        differs("list", &m.list(int(&r["src"])), &ints(&r["list_after"]))?;
        let flags = [
            ("ALL_PINNED", w[3] != 0),
            ("DST_PINNED", w[4] >= 0),
            ("SOME_PINNED", w[2] != 0),
        ];
        let flags: Vec<&str> = flags.iter().filter(|f| f.1).map(|f| f.0).collect();
        differs("flags", &json!(flags), &r["flags"])?;
        differs("other CPU", &w[4], &r["new_dst"].as_i64().unwrap_or(-1))
    });
    RECORDS.check("det", 360, &[("newidle_one", 1)], |m, r| {
        let w = detach(m, r);
        let or = |key: &str, other: &str| {
            if r[key].is_null() {
                r[other].clone()
            } else {
                r[key].clone()
            }
        };
        let should = or("preempt_detached", "detached");
        differs("detached", &detached(m, w[0]), &ints(&should))?;
        differs(
            "imbalance left",
            &w[1],
            &int(&or("preempt_imbalance_left", "imbalance_left")),
        )
    });
}

/// `[id, to]` of all tasks that are not where the record had them, in the order of each CPU's arrivals.
fn moved(m: &mut Machine, r: &Value) -> Vec<(i64, i64)> {
    let mut moved = Vec::new();
    for cpu in 0..m.nr_cpus {
        let here = r["tasks"][cpu].as_array().expect("tasks");
        let here: Vec<i64> = here.iter().map(|t| int(&t[0])).collect();
        let now = m.list(cpu as i64);
        let came = now.into_iter().rev().filter(|id| !here.contains(id));
        moved.extend(came.map(|id| (cpu as i64, id)));
    }
    moved
}

fn recorded_moves(moved: &Value) -> Vec<(i64, i64)> {
    let moved = moved.as_array().expect("moves").iter();
    let mut moved: Vec<(i64, i64)> = moved.map(|m| (int(&m[1]), int(&m[0]))).collect();
    moved.sort_by_key(|(to, _)| *to);
    moved
}

fn parent_imbalance(m: &mut Machine, cpu: i64, level: i64) -> Option<i64> {
    (level + 1 < m.call("t_topology", &[cpu])[1])
        .then(|| m.call("t_group", &[cpu, level + 1, 0])[7])
}

#[test]
fn passes() {
    RECORDS.check("lb", 320, &[], |m, r| {
        let (cpu, level) = (int(&r["cpu"]), m.level(r));
        m.queues(r);
        for mask in r["imb_groups"].as_array().unwrap_or(&Vec::new()) {
            let group = m.group(cpu, level, bits(mask));
            m.call("t_set_imbalance", &[group, 1]);
        }
        m.call(
            "t_domain",
            &[cpu, level, int(&r["failed"]), int(&r["interval"]), 0, 0, 0],
        );
        if let Some(imbalance) = r["parent_imb"].as_i64() {
            let parent = m.call("t_group", &[cpu, level + 1, 0])[3];
            m.call("t_set_imbalance", &[parent, imbalance]);
        }
        if r["active_pending_everywhere"] == 1 {
            for at in 0..m.nr_cpus as i64 {
                m.call("t_set_push", &[at, 0]);
            }
        }
        let w = m.call("t_balance", &[cpu, level, state_of(&r["idle"]), NOW_NS]);
        differs(
            "ret, continue",
            &[w[4], w[5]],
            &[int(&r["ret"]), int(&r["continue"])],
        )?;
        differs("moved", &moved(m, r), &recorded_moves(&r["moved"]))?;
        let d = m.call("t_domain_get", &[cpu, level]);
        let should = [int(&r["failed_after"]), int(&r["interval_after"])];
        differs("failed, interval", &[d[2], d[3]], &should)?;
        if let Some(should) = r["parent_imb_after"].as_i64() {
            differs(
                "parent's mark",
                &parent_imbalance(m, cpu, level),
                &Some(should),
            )?;
        }
        let kicks = m.kernel.state().kicks.clone();
        let preempted = kicks
            .iter()
            .filter(|(at, flags)| *flags == KICK_PREEMPT && i64::from(*at) != cpu);
        let asked: Vec<i64> = (0..m.nr_cpus as i64)
            .filter(|at| m.call("t_cpu_balance_get", &[*at])[4] == cpu)
            .collect();
        if r["active_pending_everywhere"] != 1 {
            differs(
                "asked to push",
                &(asked.len() as i64),
                &int(&r["stop_calls"]),
            )?;
        }
        let Some(active) = r["active"].as_array() else {
            return Ok(());
        };
        differs("who pushes", &asked, &vec![int(&active[0])])?;
        assert!(preempted.count() > 0, "nobody was preempted to push");
        m.call("t_push", &[asked[0], NOW_NS]);
        push(m, r, int(&active[1]))
    });
}

/// What was pushed to a CPU, and the failed passes of its levels.
fn push(m: &mut Machine, r: &Value, to: i64) -> Result<(), String> {
    let pushed = (0..NR_IDS).filter(|id| {
        m.call("t_entity_get", &[id + FIRST])[5] == to && m.call("t_moving", &[id + FIRST])[1] != 0
    });
    let pushed: Vec<(i64, i64)> = pushed.map(|id| (to, id)).collect();
    let came = moved(m, r);
    let all: Vec<(i64, i64)> = came.into_iter().chain(pushed).collect();
    differs("pushed", &all, &recorded_moves(&r["active_moved"]))?;
    let failed: Vec<i64> = (0..ints(&r["failed_after_active"]).len() as i64)
        .map(|level| m.call("t_domain_get", &[to, level])[2])
        .collect();
    differs("failed after it", &failed, &ints(&r["failed_after_active"]))
}

/// Ids of tasks in records of whole passes.
const NR_IDS: i64 = 1100;

#[test]
fn newly_idle() {
    RECORDS.check("newidle", 230, &[], |m, r| {
        let cpu = int(&r["cpu"]);
        m.queues(r);
        m.set_busy(cpu);
        let (cost, max_cost) = (ints(&r["level_cost"]), ints(&r["level_max_cost"]));
        let since = ints(&r["jiffies_since_balance"]);
        for level in 0..cost.len() {
            let span = m.call("t_level", &[cpu, level as i64])[3];
            m.call(
                "t_domain",
                &[
                    cpu,
                    level as i64,
                    0,
                    span,
                    TICK - since[level],
                    i64::MAX,
                    max_cost[level],
                ],
            );
        }
        let mut reading = 0;
        for cost in &cost {
            m.kernel
                .state()
                .readings_ns
                .extend([reading, reading + *cost as u64]);
            reading += *cost as u64;
        }
        m.call("t_cpu_idle", &[cpu, 0, int(&r["avg_idle"]), 0, -1, 0]);
        m.call(
            "t_cpu_balance",
            &[
                cpu,
                int(&r["max_idle_balance_cost"]),
                TICK + int(&r["next_balance_in"]),
                0,
            ],
        );
        m.call("t_machine", &[int(&r["overload"]), 0, 0]);
        let w = m.call("t_newidle", &[cpu, NOW_NS]);
        differs("found", &w[2], &int(&r["ret"]).min(1))?;
        let tried = cost.len() as i64 - m.kernel.state().readings_ns.len() as i64 / 2;
        differs("levels tried", &tried, &int(&r["levels_tried"]))?;
        differs("moved", &moved(m, r), &recorded_moves(&r["moved"]))?;
        let after: Vec<[i64; 8]> = (0..cost.len() as i64)
            .map(|level| m.call("t_domain_get", &[cpu, level]))
            .collect();
        let of = |k: usize| after.iter().map(|d| d[k]).collect::<Vec<i64>>();
        differs("costs", &of(6), &ints(&r["level_max_cost_after"]))?;
        differs("intervals", &of(3), &ints(&r["interval_after"]))?;
        let b = m.call("t_cpu_balance_get", &[cpu]);
        let should = [
            int(&r["max_idle_balance_cost_after"]),
            TICK + int(&r["next_balance_in_after"]),
        ];
        differs("cost, next", &[b[1], b[2]], &should)?;
        let idle = m.call("t_cpu_idle_get", &[cpu])[1];
        differs(
            "idle since",
            &i64::from(idle == NOW_NS),
            &int(&r["idle_stamp_kept"]),
        )?;
        differs(
            "overload",
            &m.call("t_machine_get", &[])[0],
            &int(&r["overload_after"]),
        )
    });
}

#[test]
fn periodic() {
    RECORDS.check("rebal", 220, &[], |m, r| {
        let cpu = int(&r["cpu"]);
        let busy = bits(&r["busy_cpus"]);
        for at in 0..m.nr_cpus as i64 {
            let (nr, load) = if busy & 1 << at != 0 {
                (1, 1024)
            } else {
                (0, 0)
            };
            m.call("t_cpu", &[at, nr, 0, load, load, m.full_capacity]);
            for n in 0..5 {
                m.call("t_history", &[at, n, load]);
            }
        }
        m.set_idle(!busy);
        let levels = r["levels"].as_array().expect("levels");
        for (level, of) in levels.iter().enumerate() {
            let of = |key: &str| int(&of[key]);
            let decay = TICK + of("decay_due_in");
            let words = [
                cpu,
                level as i64,
                0,
                of("interval_ms"),
                TICK - of("since_last"),
                decay,
                of("max_cost"),
            ];
            m.call("t_domain", &words);
        }
        m.call("t_machine", &[0, int(&r["serialize_lock_taken"]), 0]);
        m.call("t_cpu_balance", &[cpu, 700_000, TICK - 100, 0]);
        m.call("t_rebalance", &[cpu, state_of(&r["idle"]), NOW_NS]);
        let after: Vec<[i64; 8]> = (0..levels.len() as i64)
            .map(|level| m.call("t_domain_get", &[cpu, level]))
            .collect();
        // Who was balanced at this tick already is not again.
        let again = |(d, of): (&[i64; 8], &Value)| i64::from(d[4] == TICK && of["since_last"] != 0);
        let balanced = after.iter().zip(levels).map(again).collect::<Vec<_>>();
        differs("balanced", &balanced, &ints(&r["balanced"]))?;
        let of = |k: usize| after.iter().map(|d| d[k]).collect::<Vec<i64>>();
        differs("intervals", &of(3), &ints(&r["interval_after"]))?;
        differs("costs", &of(6), &ints(&r["max_cost_after"]))?;
        let b = m.call("t_cpu_balance_get", &[cpu]);
        let should = [
            int(&r["rq_max_idle_cost_after"]),
            TICK + int(&r["next_balance_in"]),
        ];
        differs("cost, next", &[b[1], b[2]], &should)
    });
}

#[test]
fn ticks() {
    RECORDS.check("kick", 200, &[], |m, r| {
        let of = |key: &str| int(&r[key]);
        let cpu = of("cpu");
        if of("tick_found_idle") != 0 {
            return Ok(());
        }
        let other = of("nr_running") - of("cfs_tasks");
        m.call("t_cpu", &[cpu, of("cfs_tasks"), other, 0, 0, of("cap")]);
        // The mask of idle CPUs is that of tickless ones; some of them have got something to do.
        for at in (0..m.nr_cpus as i64).filter(|at| bits(&r["idle"]) & 1 << at == 0 && *at != cpu) {
            m.call("t_cpu", &[at, 1, 0, 0, 0, m.full_capacity]);
        }
        m.set_idle(bits(&r["tickless"]));
        let first = i64::from(bits(&r["tickless"]).trailing_zeros());
        if of("kick_already_pending_on_first") != 0 && first < 64 {
            m.call("t_cpu_balance", &[first, 0, 0, 1]);
        }
        m.call("t_machine", &[0, 0, TICK + of("nohz_next_in")]);
        m.call("t_kick", &[cpu, TICK, of("llc_busy_cpus")]);
        let kicks = m.kernel.state().kicks.clone();
        let kicked = kicks
            .iter()
            .find(|(_, flags)| *flags == KICK_IDLE)
            .map(|(at, _)| i64::from(*at));
        differs("kicked", &kicked, &r["kicked"].as_i64())?;
        let next = m.call("t_machine_get", &[])[2] - TICK;
        differs("next", &next, &of("nohz_next_in_after"))?;
        m.call("t_cpu_balance", &[cpu, 0, TICK + of("rq_next_in"), 0]);
        let due = m.call("t_due", &[cpu, TICK])[2];
        differs("softirq", &due, &of("softirq"))
    });
}

#[test]
fn averages_of_loads() {
    RECORDS.check("hist", 220, &[], |m, r| {
        for (n, old) in ints(&r["old"]).into_iter().enumerate() {
            m.call("t_history", &[0, n as i64, old]);
        }
        m.call("t_history_update", &[0, int(&r["load"]), int(&r["ticks"])]);
        let new: Vec<i64> = (0..5)
            .map(|n| m.call("t_history_get", &[0, n])[2])
            .collect();
        differs("new", &new, &ints(&r["new"]))?;
        m.call("t_cpu", &[0, 1, 0, int(&r["cpu_load_now"]), 0, 1024]);
        let loads: Vec<[i64; 8]> = (0..5).map(|index| m.call("t_loads", &[0, index])).collect();
        let of = |k: usize| loads.iter().map(|w| w[k]).collect::<Vec<i64>>();
        differs("source", &of(2), &ints(&r["source"]))?;
        differs("target", &of(3), &ints(&r["target"]))
    });
}

#[test]
fn capacities() {
    // Those of other CPUs are as earlier records of the machine have left them.
    let known = RefCell::new(HashMap::<String, Vec<(i64, i64)>>::new());
    RECORDS.check("cap", 200, &[], |m, r| {
        let of = |key: &str| int(&r[key]);
        let cpu = of("cpu");
        let mut known = known.borrow_mut();
        let known = known.entry(text_of(&r["t"])).or_default();
        for (cpu, capacity) in known.iter() {
            m.call("t_cpu", &[*cpu, 0, 0, 0, 0, *capacity]);
        }
        let capacity = m.call("t_capacity", &[cpu, of("rt_avg"), of("since_age_stamp_ns")])[3];
        differs("capacity", &capacity, &of("cpu_cap"))?;
        known.push((cpu, capacity));
        m.call("t_pass", &[cpu, 0, 0, NOW_NS]);
        for (level, should) in ints(&r["group_caps"]).into_iter().enumerate() {
            let group = m.call("t_group", &[cpu, level as i64, 0])[3];
            differs(
                "of a group",
                &m.call("t_group_capacity", &[group])[1],
                &should,
            )?;
            let span = m.call("t_level", &[cpu, level as i64])[3];
            let next = m.call("t_interval", &[cpu, level as i64, span])[3];
            differs(
                "next update",
                &next,
                &ints(&r["next_update_in_jiffies"])[level],
            )?;
        }
        Ok(())
    });
}
