// SPDX-License-Identifier: GPL-2.0-or-later
//! Single decisions: a made-up queue, one thing that happens, and all that the kernel answered.

use super::machine::*;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A recorded queue, set up; entity n of the record is task `tasks[n]`.
struct Queue<'a> {
    eevdf: &'a Eevdf,
    tasks: Vec<i64>,
    current: Option<i64>,
}

impl Queue<'_> {
    fn set_up<'a>(eevdf: &'a Eevdf, record: &Value) -> Queue<'a> {
        let mut tasks = Vec::new();
        for e in record["e"].as_array().expect("entities") {
            let [nice, v, deadline, slice, custom, delayed] =
                [0, 1, 2, 3, 4, 5].map(|n| int(&e[n]));
            let task = eevdf.call("t_task", &[nice, slice, custom]);
            let place = [task, eevdf.origin + v, eevdf.origin + deadline, delayed];
            eevdf.call("t_waits", &place);
            tasks.push(task);
        }
        let current = usize::try_from(int(&record["cur"])).ok().map(|n| tasks[n]);
        if let Some(task) = current {
            let since = NOW - record["ran"].as_i64().unwrap_or(0);
            let protected = record["vprot"].as_i64().unwrap_or(0);
            eevdf.call("t_runs", &[task, since, eevdf.origin + protected]);
        }
        Queue {
            eevdf,
            tasks,
            current,
        }
    }

    fn call(&self, program: &str, words: &[i64]) -> i64 {
        self.eevdf.call(program, words)
    }

    /// The number that a task has in the record.
    fn number_of(&self, task: i64) -> i64 {
        let at = self.tasks.iter().position(|t| *t == task);
        at.map_or(-1, |n| n as i64)
    }

    fn virtual_time(&self) -> i64 {
        self.call("t_virtual_time", &[]) - self.eevdf.origin
    }

    fn v(&self, task: i64) -> i64 {
        self.eevdf.read(task).v - self.eevdf.origin
    }

    fn deadline(&self, task: i64) -> i64 {
        self.eevdf.read(task).deadline - self.eevdf.origin
    }

    fn protected_until(&self, task: i64) -> i64 {
        self.eevdf.read(task).lag - self.eevdf.origin
    }

    fn over(&self) -> i64 {
        self.call("t_over", &[0])
    }

    /// Who runs next, once those that are delayed have left.
    fn next(&self) -> i64 {
        self.number_of(self.call("t_pick", &[NOW, 0]))
    }

    /// The task of a record, which is new to the queue.
    fn joiner(&mut self, record: &Value, policy: i64) -> i64 {
        let words = ["nice", "slice", "custom"].map(|key| int(&record[key]));
        let task = self.call("t_task", &[words[0], words[1], words[2], 0, policy]);
        if record["how"] != "new" {
            let relative = i64::from(record["how"] == "restore");
            let deadline = record["rel_d"].as_i64().unwrap_or(0);
            self.call("t_left", &[task, int(&record["vlag"]), relative, deadline]);
        }
        self.tasks.push(task);
        task
    }
}

type Answer = BTreeMap<&'static str, i64>;

/// Has `act` answer each record of a kind, and compares all that the kernel answered.
fn check(kind: &str, count: usize, act: impl Fn(&mut Queue, &Value) -> Answer) {
    let all = records(kind);
    assert_eq!(all.len(), count);
    let mut machines: BTreeMap<i64, Eevdf> = BTreeMap::new();
    let mut wrong = Vec::new();
    for record in &all {
        let (tick, base) = (int(&record["tick"]), int(&record["base"]));
        let eevdf = machines
            .entry(tick)
            .or_insert_with(|| Eevdf::new(tick, base, &[]));
        eevdf.empty(base);
        let mut queue = Queue::set_up(eevdf, record);
        let answer = act(&mut queue, record);
        let mut expected = record["out"].as_object().expect("out").clone();
        if let Some(exact) = record["exact"].as_object() {
            expected.extend(exact.clone());
        }
        for (field, right) in differences(&expected, &answer) {
            let (id, got) = (&record["id"], answer.get(field.as_str()));
            wrong.push(format!("{kind} {id}: {field} is {got:?}, not {right}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}

fn differences<'a>(
    expected: &'a Map<String, Value>,
    answer: &'a Answer,
) -> impl Iterator<Item = (&'a String, i64)> {
    expected.iter().filter_map(|(field, value)| {
        let right = value.as_i64()?;
        (answer.get(field.as_str()) != Some(&right)).then_some((field, right))
    })
}

#[test]
pub fn times_in_vruntime() {
    let all = records("delta");
    let eevdf = Eevdf::new(4_000_000, 700_000, &[]);
    let (inputs, outputs) = (all[0]["in"].as_array(), all[0]["out"].as_array());
    let pairs: Vec<_> = inputs
        .expect("in")
        .iter()
        .zip(outputs.expect("out"))
        .collect();
    assert_eq!(pairs.len(), 280);
    for (input, output) in pairs {
        let delta = eevdf.call("t_delta", &[int(&input[1]), int(&input[0])]);
        assert_eq!(delta, int(output), "{input}");
    }
}

/// By the logarithm of their number, 8 at most; not, or by their number, if scaling says so.
#[test]
pub fn requests_grow_with_the_cpus() {
    for (scaling, factors) in [
        (0, [1, 1, 1, 1, 1, 1]),
        (1, [1, 2, 2, 3, 4, 4]),
        (2, [1, 2, 3, 4, 8, 8]),
    ] {
        let eevdf = Eevdf::new(4_000_000, 700_000, &[("scaling", scaling)]);
        let requests = [1, 2, 3, 4, 8, 16].map(|cpus| eevdf.call("t_request", &[cpus]));
        assert_eq!(requests, factors.map(|n| n * 700_000), "scaling {scaling}");
    }
}

#[test]
pub fn eligibility_and_pick() {
    let all = records("queue");
    for record in &all {
        let eevdf = Eevdf::new(int(&record["tick"]), int(&record["base"]), &[]);
        let queue = Queue::set_up(&eevdf, record);
        let (id, out) = (&record["id"], &record["out"]);
        assert_eq!(queue.virtual_time(), int(&out["V"]), "V, queue {id}");
        for (task, eligible) in queue
            .tasks
            .iter()
            .zip(out["elig"].as_array().expect("elig"))
        {
            assert_eq!(
                queue.call("t_is_eligible", &[*task]),
                int(eligible),
                "queue {id}"
            );
        }
        for (protection, key) in [(1, "pick"), (0, "pick_unprot")] {
            let pick = queue.call("t_earliest", &[protection]);
            assert_eq!(queue.number_of(pick), int(&out[key]), "{key}, queue {id}");
        }
    }
    assert_eq!(all.len(), 420);
}

#[test]
pub fn leaving() {
    check("dequeue", 360, |queue, record| {
        let who = queue.tasks[int(&record["who"]) as usize];
        let how = match record["how"].as_str() {
            Some("sleep") => SLEEP,
            Some("sleep_special") => SLEEP | FOREVER,
            _ => 0,
        };
        let left = queue.call("t_leave", &[who, NOW, how]);
        let now = queue.eevdf.read(who);
        let mut answer = Answer::from([
            ("delayed", 1 - left),
            ("resched", queue.over()),
            ("V", queue.virtual_time()),
        ]);
        if left == 1 {
            let from = if now.relative == 1 {
                0
            } else {
                queue.eevdf.origin
            };
            answer.extend([
                ("vlag", now.lag),
                ("rel", now.relative),
                ("d", now.deadline - from),
            ]);
        }
        if let Some(current) = queue.current {
            answer.extend([("cv", queue.v(current)), ("cd", queue.deadline(current))]);
            // Relative, but written down as a point in time.
            if current == who && now.relative == 1 {
                answer.insert("cd", now.deadline - queue.eevdf.origin);
            }
        }
        answer
    });
}

#[test]
pub fn joining() {
    check("place", 360, |queue, record| {
        let who = queue.joiner(record, 0);
        queue.call("t_enqueue", &[who, NOW]);
        let now = queue.virtual_time();
        Answer::from([
            ("v", queue.v(who)),
            ("d", queue.deadline(who)),
            ("V", now),
            ("vlag_after", now - queue.v(who)),
            ("slice", queue.eevdf.read(who).slice),
            ("resched", queue.over()),
        ])
    });
}

#[test]
pub fn waking() {
    check("wake", 650, |queue, record| {
        let who = if record["how"] == "wake_delayed" {
            let who = queue.tasks[int(&record["who"]) as usize];
            queue.call("t_rejoin", &[who, NOW]);
            who
        } else {
            let who = queue.joiner(record, int(&record["policy"]));
            queue.call("t_enqueue", &[who, NOW]);
            who
        };
        let current = queue.current.expect("current");
        let asked = queue.call("t_over", &[1]);
        let preempt = queue.call("t_wakeup_test", &[who, current, NOW]);
        // A charge in the test counts as asking.
        let charged = if record["how"] == "wake_delayed" {
            queue.over()
        } else {
            asked
        };
        let mut answer = Answer::from([
            ("v", queue.v(who)),
            ("d", queue.deadline(who)),
            ("resched_upd", charged),
            ("preempt", preempt),
            ("vprot", queue.protected_until(current)),
            ("cv", queue.v(current)),
            ("cd", queue.deadline(current)),
            ("prot", queue.call("t_is_protected", &[current])),
        ]);
        answer.insert("next", queue.next());
        answer
    });
}

#[test]
pub fn changes_of_a_groups_weight() {
    check("reweight", 180, |queue, record| {
        let who = queue.tasks[int(&record["who"]) as usize];
        queue.call("t_reweight", &[who, int(&record["weight"]), NOW]);
        Answer::from([
            ("v", queue.v(who)),
            ("d", queue.deadline(who)),
            ("V", queue.virtual_time()),
            ("resched", queue.over()),
            ("prot", queue.call("t_is_protected", &[who])),
        ])
    });
}

/// A session may end while its group is delayed, and another group gets its place.
#[test]
pub fn a_group_that_goes_leaves_its_queue() {
    const SLICE_NS: i64 = 3_000_000;
    let mut eevdf = Eevdf::new(4_000_000, SLICE_NS, &[]);
    eevdf.empty(SLICE_NS);
    eevdf.call("t_group", &[1, 0, 1024]);
    let [stays, goes] = [0, 1].map(|group| eevdf.call("t_task", &[0, SLICE_NS, 0, group]));
    for task in [stays, goes] {
        eevdf.call("t_enqueue", &[task, NOW]);
    }
    eevdf.call("t_set_current", &[goes, NOW]);
    eevdf.call("t_dequeue", &[goes, NOW + SLICE_NS, SLEEP | FOREVER]);
    let group = eevdf.call("t_entity", &[1]);
    let left = eevdf.read(group);
    assert_eq!((left.delayed, left.queued), (1, 1));

    eevdf.call("t_gone", &[1]);
    assert_eq!(eevdf.read(group).queued, 0);
    assert_eq!(eevdf.call("t_nr_queued", &[]), 1);
    assert_eq!(eevdf.call("t_pick", &[NOW + SLICE_NS, 0]), stays);
}

/// Who is delayed and has to leave before it has paid, still owes the rest.
#[test]
pub fn who_leaves_in_debt_keeps_it() {
    const SLICE_NS: i64 = 3_000_000;
    let mut eevdf = Eevdf::new(4_000_000, SLICE_NS, &[]);
    eevdf.empty(SLICE_NS);
    let [stays, owes] = [0, 1].map(|_| eevdf.call("t_task", &[0, SLICE_NS]));
    for task in [stays, owes] {
        eevdf.call("t_enqueue", &[task, NOW]);
    }
    eevdf.call("t_set_current", &[owes, NOW]);
    eevdf.call("t_dequeue", &[owes, NOW + SLICE_NS, SLEEP]);
    assert_eq!(eevdf.read(owes).delayed, 1);
    eevdf.call("t_dequeue", &[owes, NOW + SLICE_NS, 0]);
    let left = eevdf.read(owes);
    assert_eq!((left.queued, left.delayed), (0, 0));
    assert_eq!(left.lag, -SLICE_NS / 2);
}

/// Leaves, is changed, joins, and has the turn again if it had it.
fn change(queue: &Queue, who: i64, value: i64, is_slice: bool) {
    let runs = queue.current == Some(who);
    if queue.eevdf.read(who).delayed == 0 {
        queue.call("t_dequeue", &[who, NOW, BRIEFLY]);
        queue.call("t_change", &[who, value, NOW, is_slice.into()]);
        queue.call("t_enqueue", &[who, NOW]);
    } else {
        queue.call("t_change", &[who, value, NOW, is_slice.into()]);
    }
    if runs {
        queue.call("t_set_current", &[who, NOW]);
    }
}

#[test]
pub fn renicing() {
    check("renice", 180, |queue, record| {
        let number = int(&record["who"]) as usize;
        let (who, nice) = (queue.tasks[number], int(&record["nice"]));
        let current = queue.current.expect("current");
        change(queue, who, nice, false);
        let mut asked = queue.call("t_over", &[1]);
        // prio_changed_fair(): nothing if there is nobody else.
        if queue.tasks.len() == 1 {
        } else if who == current {
            asked |= i64::from(nice > int(&record["e"][number][0]));
        } else {
            asked |= queue.call("t_wakeup_test", &[who, current, NOW]);
            asked |= queue.over();
        }
        let mut answer = Answer::from([
            ("v", queue.v(who)),
            ("d", queue.deadline(who)),
            ("V", queue.virtual_time()),
            ("resched", asked),
            ("vprot", queue.protected_until(who)),
        ]);
        answer.insert("next", queue.next());
        answer
    });
}

#[test]
pub fn asking_for_a_slice() {
    check("setslice", 100, |queue, record| {
        let who = queue.tasks[int(&record["who"]) as usize];
        let asked = match int(&record["runtime"]) {
            0 => 0,
            ns => ns.clamp(100_000, 100_000_000),
        };
        change(queue, who, asked, true);
        let now = queue.eevdf.read(who);
        let mut answer = Answer::from([
            ("v", queue.v(who)),
            ("d", queue.deadline(who)),
            ("slice", now.slice),
            ("custom", now.custom),
            ("resched", queue.over()),
            ("vprot", queue.protected_until(who)),
        ]);
        answer.insert("next", queue.next());
        answer
    });
}

#[test]
pub fn yielding() {
    check("yield", 120, |queue, _| {
        let current = queue.current.expect("current");
        queue.call("t_yield", &[current, NOW]);
        let mut answer = Answer::from([("v", queue.v(current)), ("d", queue.deadline(current))]);
        answer.insert("next", queue.next());
        answer
    });
}

#[test]
pub fn ticks() {
    check("tick", 300, |queue, record| {
        let current = queue.current.expect("current");
        let over = queue.call("t_tick", &[current, NOW]);
        let mut answer = Answer::from([
            ("v", queue.v(current)),
            ("d", queue.deadline(current)),
            ("resched", over),
            ("prot", queue.call("t_is_protected", &[current])),
        ]);
        let stays = int(&record["cur"]);
        answer.insert("next", if over == 1 { queue.next() } else { stays });
        answer
    });
}

#[test]
pub fn protection_of_who_gets_the_turn() {
    check("setnext", 120, |queue, record| {
        let who = queue.tasks[int(&record["who"]) as usize];
        queue.call("t_set_current", &[who, NOW]);
        Answer::from([("vprot", queue.protected_until(who))])
    });
}

/// A wakee is favoured over an earlier deadline, unless its policy is SCHED_IDLE (nice 100 here).
#[test]
pub fn idle_tasks_are_not_favoured() {
    for (nice, favoured) in [(0, true), (100, false)] {
        let eevdf = Eevdf::new(4_000_000, 700_000, &[("next_buddy", 1)]);
        let [first, wakee] = [(0, 500_000), (nice, 900_000)].map(|(nice, deadline)| {
            let task = eevdf.call("t_task", &[nice, 700_000, 0]);
            let place = [task, eevdf.origin, eevdf.origin + deadline, 0];
            eevdf.call("t_waits", &place);
            task
        });
        eevdf.call("t_runs", &[first, NOW, eevdf.origin]);
        eevdf.call("t_preempts", &[wakee, NOW, 1]);
        let next = eevdf.call("t_pick", &[NOW, 0]);
        assert_eq!(next == wakee, favoured, "nice {nice}");
    }
}
