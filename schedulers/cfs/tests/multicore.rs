// SPDX-License-Identifier: GPL-2.0-or-later
//! CFS's decisions on several CPUs, record by record (see recorded.rs), through the handles of multicore.bpf.c.
//!
//! Everything in a record is compared but: of `det`, why a task was passed over and the load that it was asked for
//! (`examined`), which show in what was detached, in which order the list is left, and in what remains of the
//! imbalance; of `lb` and `newidle`, in which order tasks come (`moved` is sorted).

use crate::cfs::recorded::*;
use serde_json::{Value, json};
use std::sync::LazyLock;

pub static RECORDS: LazyLock<Records> = LazyLock::new(Records::read);

/// Flags of the levels as CFS has them: all balance, also when newly idle; NUMA levels are serialized and overlap.
#[test]
fn levels() {
    RECORDS.check("topo", 8, &[], |m, r| {
        let levels = r["levels"].as_array().expect("levels");
        let of = m.call("t_topology", &[0]);
        differs("levels", &of[1], &(levels.len() as i64))?;
        differs("CPUs of the cache", &of[2], &int(&r["llc_size"]))?;
        differs("capacity", &of[4], &int(&r["cap_orig"]))?;
        for (level, should) in levels.iter().enumerate() {
            let (w, f) = (
                m.call("t_level", &[0, level as i64]),
                m.call("t_level_figures", &[0, level as i64]),
            );
            let flag = |name: &str| {
                i64::from(
                    should["flags"]
                        .as_array()
                        .expect("flags")
                        .contains(&json!(name)),
                )
            };
            let kind = match should["name"].as_str() {
                Some("SMT") => 0,
                Some("MC") => 1,
                Some("DIE") => 2,
                _ => 3,
            };
            let places = [flag("EXEC"), flag("FORK"), flag("WAKE_AFFINE")];
            assert!(places.iter().all(|place| *place == places[0]));
            assert_eq!([flag("LOAD_BALANCE"), flag("NEWIDLE")], [1, 1]);
            assert_eq!(
                [flag("SERIALIZE"), flag("OVERLAP")],
                [i64::from(kind == 3); 2]
            );
            let is = [w[2], w[3], w[5], w[6], w[7], f[2], f[3], f[4], f[5], f[6]];
            let of = |key: &str| int(&should[key]);
            let should = [
                kind,
                of("span_weight"),
                flag("PREFER_SIBLING"),
                places[0],
                of("imbalance_pct"),
                of("busy_idx"),
                of("idle_idx"),
                of("newidle_idx"),
                of("cache_nice_tries"),
                of("max_interval"),
            ];
            differs("level", &is, &should)?;
        }
        Ok(())
    });
}

#[test]
fn domains() {
    RECORDS.check("dom", 164, &[], |m, r| {
        let cpu = int(&r["cpu"]);
        let levels = r["levels"].as_array().expect("levels");
        let of = m.call("t_topology", &[cpu]);
        differs(
            "levels, cache",
            &[of[1], of[3]],
            &[levels.len() as i64, int(&r["llc_id"])],
        )?;
        for (level, should) in levels.iter().enumerate() {
            let groups = m.groups(cpu, level as i64);
            let span = groups.iter().fold(0, |span, g| span | g.1);
            differs("span", &span, &bits(&should["span"]))?;
            let should: Vec<(u64, u64, i64)> = should["groups"]
                .as_array()
                .expect("groups")
                .iter()
                .map(|g| (bits(&g[0]), bits(&g[0]) & bits(&g[1]), int(&g[2])))
                .collect();
            let is = groups
                .iter()
                .map(|g| (g.1, g.1 & cpus_of_nodes(m, g.2), g.3));
            differs("groups", &is.collect::<Vec<_>>(), &should)?;
        }
        Ok(())
    });
}

/// CPUs of nodes: those of the machines of the records are blocks.
fn cpus_of_nodes(m: &Machine, nodes: u64) -> u64 {
    let per_node = m.nr_cpus / m.nodes;
    let of = |cpu: &usize| nodes & 1 << (cpu / per_node) != 0;
    (0..m.nr_cpus).filter(of).map(|cpu| 1u64 << cpu).sum()
}

#[test]
fn wakers_of_many() {
    RECORDS.check("wide", 260, &[], |m, r| {
        let of = |key: &str| int(&r[key]);
        let size = m.call("t_topology", &[of("cpu")])[2];
        differs("CPUs of the cache", &size, &of("llc_size"))?;
        let wide = m.call("t_wide", &[of("waker_flips"), of("wakee_flips"), size])[3];
        differs("wide", &wide, &of("wide"))
    });
    RECORDS.check("record", 200, &[], |m, r| {
        let of = |key: &str| int(&r[key]);
        let (waker, wakee) = (1, 2);
        let last = if of("same_wakee") != 0 { wakee } else { 3 };
        m.call(
            "t_entity",
            &[
                waker,
                0,
                of("flips"),
                last,
                TICK - of("jiffies_since_decay"),
            ],
        );
        m.call("t_record", &[waker, wakee, TICK]);
        let w = m.call("t_entity_get", &[waker]);
        differs("last wakee", &w[3], &wakee)?;
        differs("flips", &w[2], &of("flips_after"))?;
        differs("decay", &i64::from(w[4] == TICK), &of("decay_stamp_reset"))
    });
}

#[test]
fn pulls_to_the_waker() {
    RECORDS.check("affine", 320, &[], |m, r| {
        let of = |key: &str| int(&r[key]);
        let (waker, wakee) = (1, 2);
        m.call(
            "t_cpu",
            &[of("cpu"), 1, 0, of("load_cpu"), 0, of("cap_cpu")],
        );
        m.call(
            "t_cpu",
            &[of("prev"), 1, 0, of("load_prev"), 0, of("cap_prev")],
        );
        m.call("t_entity", &[waker, of("waker_load"), 0, 0, 0]);
        m.call("t_entity", &[wakee, of("wakee_load"), 0, 0, 0]);
        let pulled = m.call(
            "t_affine",
            &[wakee, waker, of("prev"), of("cpu"), of("sync")],
        )[5];
        differs("affine", &pulled, &of("affine"))
    });
}

/// Groups below the root as a record lists them; the number of the last.
fn task_groups(m: &mut Machine, groups: &Value) -> i64 {
    let mut last = 0;
    for of in groups.as_array().expect("groups") {
        let or = |key: &str| of[key].as_i64().unwrap_or(0);
        let words = [
            last + 1,
            last,
            0,
            or("shares"),
            or("tg_load_avg"),
            or("contrib"),
            or("cfs_load_avg"),
            or("se_load_avg"),
        ];
        m.call("t_task_group", &words);
        last += 1;
    }
    last
}

#[test]
fn loads_of_groups() {
    RECORDS.check("eff", 240, &[], |m, r| {
        let group = task_groups(m, &r["groups_top_down"]);
        let load = m.call("t_effective", &[group, 0, int(&r["wl"]), int(&r["wg"])])[4];
        differs("effective", &load, &int(&r["effective"]))
    });
    RECORDS.check("hload", 220, &[], |m, r| {
        let group = task_groups(m, &r["groups_top_down"]);
        m.call("t_queue", &[0, int(&r["root_cfs_load_avg"]), 0, 0, 0, 0]);
        let load = m.call("t_h_load", &[1, group, 0, int(&r["task_load"]), TICK])[5];
        differs("h_load", &load, &int(&r["h_load"]))
    });
}

#[test]
fn idle_cpus() {
    RECORDS.check("idle", 8, &[], |m, r| {
        // A wakeup that is on its way is a task that is queued.
        let nr = int(&r["nr_running"]) + int(&r["wake_list_pending"]);
        m.call("t_cpu", &[1, nr, 0, 0, 0, 1024]);
        m.set_idle(u64::from(r["curr_is_idle_task"] == 1) << 1);
        differs("idle", &m.call("t_is_idle", &[1])[1], &int(&r["idle"]))
    });
    RECORDS.check("idlecore", 60, &[], |m, r| {
        let cpu = int(&r["cpu"]);
        m.set_idle(bits(&r["idle"]));
        m.call("t_cpu_idle", &[cpu, 0, 0, 0, 0, int(&r["has_idle_cores"])]);
        m.call("t_note_idle_core", &[cpu]);
        differs(
            "has_idle_cores",
            &m.call("t_cpu_idle_get", &[cpu])[5],
            &int(&r["after"]),
        )
    });
    RECORDS.check("sis", 460, &[], |m, r| {
        let of = |key: &str| int(&r[key]);
        let p = m.task(1, bits(&r["allowed"]));
        m.set_idle(bits(&r["idle"]));
        m.call(
            "t_cpu_idle",
            &[of("cpu"), 0, of("avg_idle"), of("scan_cost"), -1, 0],
        );
        let target = m.call("t_cpu_idle_get", &[of("target")]);
        m.call(
            "t_cpu_idle",
            &[
                of("target"),
                target[1],
                target[2],
                target[3],
                -1,
                of("has_idle_cores"),
            ],
        );
        m.kernel.state().cpu = of("cpu") as u32;
        m.kernel.state().readings_ns = [0, of("scan_ns") as u64].into();
        let chosen = m.call("t_idle_sibling", &[p, of("target"), of("prev")])[3];
        differs("chosen", &chosen, &of("chosen"))?;
        let scanned = i64::from(m.kernel.state().readings_ns.is_empty());
        differs("scanned", &scanned, &of("scanned"))?;
        let cost = m.call("t_cpu_idle_get", &[of("cpu")])[3];
        differs("cost", &cost, &of("scan_cost_after"))?;
        let cores = m.call("t_cpu_idle_get", &[of("target")])[5];
        differs("has_idle_cores", &cores, &of("has_idle_cores_after"))
    });
}

#[test]
fn idlest_groups_and_cpus() {
    RECORDS.check("fig", 300, &[], |m, r| {
        let (cpu, level) = (int(&r["cpu"]), m.level(r));
        m.cpus(r, "");
        let p = m.task(1, bits(&r["allowed"]));
        let index = m.call("t_idlest_group", &[p, cpu, level])[3];
        let group = m
            .groups(cpu, level)
            .into_iter()
            .find(|g| g.0 == index)
            .map(|g| g.1);
        differs(
            "group",
            &group,
            &r["group"].as_str().map(|_| bits(&r["group"])),
        )
    });
    RECORDS.check("fic", 300, &[], |m, r| {
        let cpu = int(&r["cpu"]);
        let p = m.task(1, bits(&r["allowed"]));
        let [cpus, load, since, latency] =
            ["cpus", "load", "idle_stamp", "exit_latency"].map(|key| ints(&r[key]));
        m.set_idle(bits(&r["idle"]));
        for (n, at) in cpus.into_iter().enumerate() {
            m.call("t_cpu", &[at, 0, 0, load[n], 0, 1024]);
            m.call("t_cpu_idle", &[at, since[n], 0, 0, latency[n], 0]);
        }
        let nr_levels = m.call("t_topology", &[cpu])[1];
        let groups = (0..nr_levels)
            .flat_map(|level| m.groups(cpu, level))
            .collect::<Vec<_>>();
        let group = groups
            .into_iter()
            .find(|g| g.1 == bits(&r["group"]))
            .expect("a group")
            .0;
        differs(
            "chosen",
            &m.call("t_idlest_cpu", &[p, group, cpu])[3],
            &int(&r["chosen"]),
        )
    });
}

#[test]
fn placements() {
    RECORDS.check("sel", 620, &[], |m, r| {
        let of = |key: &str| int(&r[key]);
        let (waker, wakee) = (1, 2);
        m.cpus(r, "");
        m.set_idle(bits(&r["idle"]));
        for (cpu, since) in ints(&r["idle_stamp"]).into_iter().enumerate() {
            m.call("t_cpu_idle", &[cpu as i64, since, 0, 0, -1, 0]);
        }
        let cpu = of("cpu");
        let since = m.call("t_cpu_idle_get", &[cpu])[1];
        m.call(
            "t_cpu_idle",
            &[cpu, since, of("avg_idle"), of("scan_cost"), -1, 0],
        );
        if let Some(cores) = r["has_idle_cores"].as_i64() {
            // Of every cache.
            for at in 0..m.nr_cpus as i64 {
                let w = m.call("t_cpu_idle_get", &[at]);
                m.call("t_cpu_idle", &[at, w[1], w[2], w[3], -1, cores]);
            }
        }
        let last = if of("same_wakee") != 0 { wakee } else { 3 };
        m.call(
            "t_entity",
            &[waker, of("waker_load"), of("waker_flips"), last, TICK],
        );
        m.call(
            "t_entity",
            &[wakee, of("wakee_load"), of("wakee_flips"), 0, TICK],
        );
        let p = m.task(wakee, bits(&r["allowed"]));
        m.kernel.state().cpu = cpu as u32;
        let who = if r["why"] == "wake" { waker } else { -1 };
        let chosen = m.call("t_place", &[p, wakee, who, of("prev"), of("sync"), TICK])[6];
        differs("chosen", &chosen, &of("chosen"))
    });
}

/// Without the bug the wakee goes to another cache if its own is busy: of the idle CPUs there to the one that idles for
/// longest, wherever it comes in the order of their numbers.
#[test]
fn the_cpu_that_idles_for_longest() {
    let mut m = RECORDS.machine("pkg2x4", &[("overload_on_wakeup_bug", 0)]);
    for cpu in 0..4 {
        m.call("t_cpu", &[cpu, 1, 0, 1024, 1024, m.full_capacity]);
    }
    m.set_idle(0xf0);
    let (waker, wakee) = (1, 2);
    let p = m.task(wakee, u64::MAX);
    for longest in 4..8 {
        for cpu in 4..8 {
            let since_ns = NOW_NS - 1_000_000 * if cpu == longest { 9 } else { 1 + cpu % 3 };
            m.call("t_cpu_idle", &[cpu, since_ns, 0, 0, -1, 0]);
        }
        let chosen = m.call("t_place", &[p, wakee, waker, 0, 0, TICK])[6];
        assert_eq!(chosen, longest);
    }
    // Where it may run: CPU 7 is the longest of all, 5 of these.
    let p = m.task(wakee, 0b0110_1111);
    m.call("t_cpu_idle", &[5, NOW_NS - 8_000_000, 0, 0, -1, 0]);
    let chosen = m.call("t_place", &[p, wakee, waker, 0, 0, TICK])[6];
    assert_eq!(chosen, 5);
}
