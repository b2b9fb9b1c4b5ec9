// SPDX-License-Identifier: GPL-2.0-or-later
//! Wrong files: each gets one line that names place, key, value and the way out. Never a panic.

use proptest::prelude::*;
use tiltyard_workload::read;

/// Reads a wrong file and gives its errors, one a line.
fn errors(text: &str) -> String {
    match read(text, "f.json") {
        Ok(_) => "no error".into(),
        Err(errors) => errors
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

/// One task `a` with these members.
fn task(members: &str) -> String {
    errors(&format!("{{ \"tasks\": {{ \"a\": {{ {members} }} }} }}"))
}

/// The same with these members under `tiltyard` at the top.
fn with(extension: &str, members: &str) -> String {
    errors(&format!(
        "{{ \"tiltyard\": {{ {extension} }},\n\"tasks\": {{ \"a\": {{ {members} }} }} }}"
    ))
}

#[test]
fn places_are_lines_and_columns() {
    let text = "{\n\t\"tasks\" : {\n\t\t\"a\" : {\n\t\t\t\"run\" : -5,\n\t\t\t\"pirority\" : 3\n\t\t}\n\t}\n}\n";
    insta::assert_snapshot!(errors(text), @"f.json:4:12: run: -5 is negative; write 0 or more
f.json:5:4: pirority: unknown key; did you mean priority?");
}

#[test]
fn names_that_a_terminal_would_obey() {
    insta::assert_snapshot!(errors("{ \"tasks\": { \"\\u001b[31mred\": { \"run\": 1 } } }"), @"f.json:1:14: tasks: the name has a control character; give it another name");
}

#[test]
fn text_that_is_no_json() {
    insta::assert_snapshot!(errors("{\n\"tasks\": {\n"), @r#"f.json:3:1: found the end of the file where a key or } belongs (opened in line 2); close the object with } or write a "key""#);
    insta::assert_snapshot!(errors("{ \"tasks\" { } }"), @"f.json:1:11: found '{' where , or } belongs (opened in line 1); separate keys by commas and close the object with }");
    insta::assert_snapshot!(errors(""), @"f.json:1:1: found the end of the file where a value belongs; write a number, a string, true, false, a list or an object");
    insta::assert_snapshot!(errors("[]"), @r#"f.json:1:1: found a list where the workload belongs; write { "tasks": { ... } }"#);
}

#[test]
fn workloads_without_tasks() {
    insta::assert_snapshot!(errors("{}"), @r#"f.json:1:1: tasks: missing; add "tasks": { ... }"#);
    insta::assert_snapshot!(errors("{ \"tasks\": {} }"), @r#"f.json:1:3: tasks: no task starts; give one of them "instance": 1"#);
    insta::assert_snapshot!(errors("{ \"tasks\": 5 }"), @"f.json:1:12: tasks: found a number where an object { ... } belongs; write an object { ... }");
    insta::assert_snapshot!(task(""), @r#"f.json:1:14: a: does nothing; add an event, for instance "run": 1000"#);
    insta::assert_snapshot!(task("\"phases\": {}"), @"f.json:1:31: phases: {} holds no phase; add a phase, or put events into the task");
    insta::assert_snapshot!(task("\"phases\": { \"p\": { \"loop\": 2 } }"), @r#"f.json:1:33: p: does nothing; add an event, for instance "run": 1000"#);
}

#[test]
fn unknown_keys_name_the_nearest() {
    insta::assert_snapshot!(errors("{ \"task\": {} }"), @"f.json:1:3: task: unknown key; did you mean tasks?");
    insta::assert_snapshot!(errors("{ \"global\": { \"duraton\": 1 }, \"tasks\": { \"a\": { \"run\": 1 } } }"), @"f.json:1:15: duraton: unknown key; did you mean duration?");
    insta::assert_snapshot!(task("\"nice\": 1"), @"f.json:1:21: nice: unknown key; did you mean priority?");
    assert!(
        !errors("{ \"global\": { \"nice\": 1 }, \"tasks\": { \"a\": { \"run\": 1 } } }")
            .contains("priority")
    );
    insta::assert_snapshot!(task("\"slep\": 1"), @"f.json:1:21: slep: unknown key; did you mean sleep?");
    insta::assert_snapshot!(task("\"runtme\": 1"), @"f.json:1:21: runtme: unknown key; did you mean runtime? a suffix is digits, or _ and a name: run1, run_a");
    insta::assert_snapshot!(task("\"exec\": 1"), @"f.json:1:21: exec: unknown key; known here: barrier, broad, cpus, deadline, delay, dl-deadline, dl-period, dl-runtime, fork, instance, iorun, lock, loop, mem, memrun, nodes_membind, period, phases, policy, priority, resume, run, runtime, sem_post, sem_wait, signal, sleep, suspend, sync, taskgroup, tiltyard, timer, unlock, util_max, util_min, wait, yield");
    insta::assert_snapshot!(task("\"repeat\": { \"count\": 2, \"do\": { \"run\": 1 } }"), @r#"f.json:1:21: repeat: rt-app knows no such event; write "tiltyard": { "repeat": ... }"#);
    insta::assert_snapshot!(with("\"groups\": { \"/\": { \"weight\": 5 } }", "\"run\": 1"), @"f.json:1:36: weight: the machine's root group has no weight; leave it out, or give the group a name");
    insta::assert_snapshot!(with("\"sems\": {}", "\"run\": 1"), @"f.json:1:17: sems: unknown key; known here: apps, barriers, buffers, conditions, counters, description, devices, duration, groups, metric, mutexes, name, pipes, places, requests, semaphores, timers");
    insta::assert_snapshot!(task("\"tiltyard\": { \"rn\": 1 }"), @"f.json:1:35: rn: unknown key; did you mean run?");
    insta::assert_snapshot!(task("\"run\": 1, \"tiltyard\": { \"deamon\": true }"), @"f.json:1:45: deamon: unknown key; did you mean daemon?");
}

#[test]
fn suffixes_that_are_none() {
    insta::assert_snapshot!(task("\"runn\": 1"), @"f.json:1:21: runn: unknown key; did you mean run? a suffix is digits, or _ and a name: run1, run_a");
    insta::assert_snapshot!(task("\"sleepy\": 1"), @"f.json:1:21: sleepy: unknown key; did you mean sleep? a suffix is digits, or _ and a name: sleep1, sleep_a");
    insta::assert_snapshot!(task("\"run-a\": 1"), @"f.json:1:21: run-a: unknown key; did you mean run? a suffix is digits, or _ and a name: run1, run_a");
    insta::assert_snapshot!(task("\"run\": 1, \"sleep_ms\": 10"), @r#"f.json:1:31: sleep_ms: sleep is in microseconds, whatever its suffix; write "sleep": 10000"#);
    insta::assert_snapshot!(task("\"run\": 1, \"sleep_ms\": 0.5"), @r#"f.json:1:31: sleep_ms: sleep is in microseconds, whatever its suffix; write "sleep": 500"#);
    insta::assert_snapshot!(task("\"runtime_us\": 10"), @r#"f.json:1:21: runtime_us: runtime is in microseconds, whatever its suffix; write "runtime": 10"#);
    insta::assert_snapshot!(task("\"timer_ms\": { \"ref\": \"t\", \"period\": 1 }"), @r#"f.json:1:21: timer_ms: timer is in microseconds, whatever its suffix; write "timer", with its value in microseconds"#);
    insta::assert_snapshot!(task("\"mem_kb\": 4"), @r#"f.json:1:21: mem_kb: mem is in bytes, whatever its suffix; write "mem", with its value in bytes"#);
    insta::assert_snapshot!(task("\"yield_us\": \"\""), @r#"f.json:1:21: yield_us: yield has no unit; write "yield", or another suffix"#);
    insta::assert_snapshot!(task("\"tiltyard\": { \"run_ms\": { \"exp\": 5 } }"), @r#"f.json:1:35: run_ms: run is in microseconds, whatever its suffix; write "run", with its value in microseconds"#);
    insta::assert_snapshot!(task("\"tiltyard\": { \"spawns\": \"a\" }"), @"f.json:1:35: spawns: unknown key; did you mean spawn? a suffix is digits, or _ and a name: spawn1, spawn_a");
    insta::assert_snapshot!(task("\"run1\": 1, \"run_a\": 1, \"run2_after_sleep\": 1"), @"no error");
}

#[test]
fn wrong_types_and_numbers() {
    insta::assert_snapshot!(task("\"run\": \"5\""), @"f.json:1:28: run: found a string where a number of microseconds belongs; write a number of microseconds");
    insta::assert_snapshot!(task("\"run\": 1.5"), @"f.json:1:28: run: 1.5 is no whole number; write a whole number");
    insta::assert_snapshot!(task("\"run\": { \"exp\": 5 }"), @r#"f.json:1:28: run: rt-app knows no distributions; move the event into "tiltyard": { ... }"#);
    insta::assert_snapshot!(task("\"sleep\": 18446744073709551615"), @"f.json:1:30: sleep: 18446744073709551615 is too large; write less");
    insta::assert_snapshot!(task("\"run\": 1, \"instance\": -1"), @"f.json:1:43: instance: -1 is out of range; write a whole number from 0 to 1000000");
    insta::assert_snapshot!(task("\"run\": 1, \"loop\": 0"), @"f.json:1:39: loop: 0 means nothing here; write 1 or more (or -1: forever)");
    insta::assert_snapshot!(task("\"run\": 1, \"loop\": 1, \"loop\": 2"), @"f.json:1:42: loop: given twice; keep one");
    insta::assert_snapshot!(task("\"run\": 1, \"delay\": -1"), @"f.json:1:40: delay: -1 is negative; write 0 or more");
    insta::assert_snapshot!(task("\"lock\": 3"), @"f.json:1:29: lock: found a number where a string belongs; write a string");
    insta::assert_snapshot!(task("\"wait\": { \"ref\": \"c\" }"), @r#"f.json:1:29: wait: mutex is missing; add "mutex""#);
    insta::assert_snapshot!(task("\"timer\": { \"ref\": \"t\", \"period\": 5, \"mode\": \"abs\" }"), @r#"f.json:1:65: mode: "abs" is no mode; write "relative" or "absolute""#);
    insta::assert_snapshot!(task("\"memrun\": { \"type\": \"chase\", \"size\": 64, \"count\": 1 }"), @"f.json:1:58: size: 64 holds no two pointers; write at least twice the stride");
    insta::assert_snapshot!(task("\"tiltyard\": { \"run\": 0.0001 }"), @"f.json:1:42: run: 0.0001 is too fine; write at most 3 decimals");
    insta::assert_snapshot!(task("\"tiltyard\": { \"run\": { \"uniform\": [5, 1] } }"), @"f.json:1:55: uniform: [5, 1] ends before it begins; write [low, high]");
    insta::assert_snapshot!(task("\"tiltyard\": { \"chance\": { \"p\": 1.5, \"do\": { \"run\": 1 } } }"), @"f.json:1:52: p: 1.5 is more than certain; write 0 to 1");
    insta::assert_snapshot!(task("\"tiltyard\": { \"repeat\": { \"count\": 0, \"do\": { \"run\": 1 } } }"), @"f.json:1:56: count: 0 means nothing here; write 1 or more passes");
}

#[test]
fn metrics_are_named() {
    insta::assert_snapshot!(with("\"metric\": \" \"", "\"run\": 1"), @r#"f.json:1:27: metric: " " is not the name of a metric; tiltyard compare FILE --list-metrics lists the names"#);
    insta::assert_snapshot!(with("\"metric\": 3", "\"run\": 1"), @"f.json:1:27: metric: found a number where a string belongs; write a string");
}

#[test]
fn tasks_have_names() {
    let text = r#"{ "tasks": { "": { "run": 1 } } }"#;
    assert_eq!(
        errors(text).trim(),
        "f.json:1:14: tasks: a task has no name; give it one"
    );
}

#[test]
fn tasks_are_not_called_like_instances_of_others() {
    let text = |name: &str| {
        format!(
            r#"{{ "tasks": {{ "a": {{ "instance": 2, "run": 1 }}, "b": {{ "run": 1 }}, "{name}": {{ "run": 1 }} }} }}"#
        )
    };
    assert_eq!(
        errors(&text("a-1")).trim(),
        "f.json:1:67: a-1: this is the name of instance 1 of task a; give the task another name"
    );
    for name in ["a-01", "b-1", "c-1", "a-x"] {
        assert_eq!(errors(&text(name)), "no error", "{name}");
    }
}

#[test]
fn apps_are_not_called_like_rows_of_the_machine() {
    let text = r#"{ "tasks": { "a": { "tiltyard": { "app": "kernel" }, "run": 1 } }, "tiltyard": { "apps": { "kernel": {} } } }"#;
    assert_eq!(
        errors(text).trim(),
        "f.json:1:92: kernel: results have rows of this name for the machine's own threads, and for all of it; give the app \
         another name"
    );
}

#[test]
fn tasks_are_not_called_like_shells() {
    let text = r#"{ "tasks": { "sh-rt-app": { "run": 1 }, "sh-hog": { "run": 1 } } }"#;
    assert_eq!(
        errors(text).trim(),
        "f.json:1:14: sh-rt-app: this is the name of the shell of app rt-app; give the task another name"
    );
}

#[test]
fn attributes_that_make_no_sense() {
    insta::assert_snapshot!(task("\"run\": 1, \"cpus\": []"), @"f.json:1:39: cpus: [] allows no CPU at all; name a CPU, or leave the key out");
    insta::assert_snapshot!(task("\"run\": 1, \"cpus\": [-1]"), @"f.json:1:40: cpus: -1 is negative; write 0 or more");
    insta::assert_snapshot!(task("\"run\": 1, \"priority\": 20"), @"f.json:1:43: priority: 20 is out of range; write a whole number from -20 to 19");
    insta::assert_snapshot!(task("\"run\": 1, \"policy\": \"SCHED_FIFO\", \"priority\": 0"), @"f.json:1:67: priority: 0 is out of range; write a whole number from 1 to 99");
    insta::assert_snapshot!(task("\"run\": 1, \"policy\": \"FIFO\""), @r#"f.json:1:41: policy: "FIFO" is no policy; write one of SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO, SCHED_RR, SCHED_DEADLINE"#);
    insta::assert_snapshot!(task("\"run\": 1, \"policy\": \"SCHED_DEADLINE\""), @"f.json:1:31: policy: SCHED_DEADLINE without a budget; add dl-runtime and dl-period");
    insta::assert_snapshot!(task("\"run\": 1, \"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 5, \"dl-period\": 4"), @"f.json:1:73: dl-runtime: 5 does not fit deadline and period; keep 0 < dl-runtime <= dl-deadline <= dl-period, as the kernel asks");
    insta::assert_snapshot!(task("\"run\": 1, \"period\": 5"), @"f.json:1:31: period: is the old name of a parameter of SCHED_DEADLINE; set the policy, or use timer for a period");
    insta::assert_snapshot!(task("\"run\": 1, \"util_min\": 600, \"util_max\": 500"), @"f.json:1:43: util_min: 600 is above util_max; write util_min <= util_max");
    insta::assert_snapshot!(task("\"run\": 1, \"taskgroup\": \"g\""), @r#"f.json:1:44: taskgroup: "g" is no path of a group; write "/name" or "/name/name""#);
    insta::assert_snapshot!(task("\"run\": 1, \"taskgroup\": \"/g\", \"policy\": \"SCHED_RR\""), @"f.json:1:14: a: a taskgroup needs SCHED_OTHER, SCHED_BATCH or SCHED_IDLE; change the policy, or leave the group out");
    insta::assert_snapshot!(with("\"apps\": { \"b\": {}, \"c\": {} }", "\"run\": 1, \"tiltyard\": { \"app\": \"b\" }, \"tiltyard2\": { \"app\": \"c\" }"), @"f.json:2:72: app: given twice; keep one");
    let phases = "\"phases\": { \"p\": { \"run\": 1, \"priority\": 5 }, \"q\": { \"run\": 1, \"policy\": \"SCHED_RR\" } }";
    insta::assert_snapshot!(task(phases), @"f.json:1:50: priority: its meaning depends on which phase ran before; give the policy in this phase too");
}

#[test]
fn things_that_are_not_there() {
    insta::assert_snapshot!(task("\"fork\": \"b\""), @r#"f.json:1:29: fork: there is no task "b"; did you mean a?"#);
    insta::assert_snapshot!(task("\"tiltyard\": { \"write\": { \"pipe\": \"p\", \"bytes\": 1 } }"), @r#"f.json:1:54: pipe: "p" is not among pipes; declare it: "tiltyard": { "pipes": { "p": ... } }"#);
    insta::assert_snapshot!(with("\"semaphores\": { \"req\": { \"count\": 4 } }", "\"tiltyard\": { \"sem_wait\": \"req[4]\" }"), @"f.json:2:45: sem_wait: req[4] does not exist; members are req[0] to req[3]");
    insta::assert_snapshot!(with("\"semaphores\": { \"req\": { \"initial\": 2147483648 } }", "\"run\": 1"), @"f.json:1:53: initial: 2147483648 is out of range; write a whole number from 0 to 2147483647");
    insta::assert_snapshot!(with("\"semaphores\": { \"req\": { \"count\": 4 } }", "\"tiltyard\": { \"sem_wait\": \"req\" }"), @"f.json:2:45: sem_wait: req has 4 members; say which: req[index]");
    insta::assert_snapshot!(with("\"semaphores\": { \"req\": { \"count\": 4 } }", "\"tiltyard\": { \"sem_wait\": \"req[j]\" }"), @"f.json:2:45: sem_wait: `j` needs 1 enclosing repeat(s), here are 0; write + - * / % ( ) over numbers, i and the counters j, k, l, m");
    insta::assert_snapshot!(task("\"lock\": \"m[i]\""), @r#"f.json:1:29: lock: "m[i]" is no name; write a name without [ and ]; an index goes under "tiltyard""#);
    insta::assert_snapshot!(with("\"apps\": { \"web\": {} }", "\"run\": 1, \"tiltyard\": { \"app\": \"wed\" }"), @r#"f.json:2:50: app: there is no app "wed"; did you mean web?"#);
    insta::assert_snapshot!(with("\"apps\": { \"b\": {}, \"c\": {} }", "\"run\": 1"), @r#"f.json:2:12: a: belongs to no app; add "tiltyard": { "app": one of b, c }"#);
}

#[test]
fn what_can_be_seen_not_to_work() {
    insta::assert_snapshot!(task("\"run\": 1, \"instance\": 0"), @r#"f.json:1:3: tasks: no task starts; give one of them "instance": 1"#);
    insta::assert_snapshot!(task("\"run\": 1, \"fork\": \"a\""), @"f.json:1:31: fork: every a starts another a: the number of tasks grows without bound; break the circle, or make it depend on chance or countdown");
    let circle = "{ \"tasks\": { \"a\": { \"fork\": \"b\" }, \"b\": { \"instance\": 0, \"fork\": \"a\" } } }";
    insta::assert_snapshot!(errors(circle), @"f.json:1:21: fork: every a starts another a: the number of tasks grows without bound; break the circle, or make it depend on chance or countdown");
    insta::assert_snapshot!(with("\"barriers\": { \"b\": { \"parties\": 3 } }", "\"barrier\": \"b\", \"instance\": 2"), @"f.json:2:19: barrier: b waits for 3 tasks, but only 2 can be there at once: it never opens; use a name of its own for each meeting, or fewer parties");
    insta::assert_snapshot!(task("\"barrier\": \"b\", \"run\": 1, \"barrier1\": \"b\""), @"f.json:1:21: barrier: b waits for 2 tasks, but only 1 can be there at once: it never opens; use a name of its own for each meeting, or fewer parties");
    let forked = "{ \"tasks\": { \"a\": { \"fork\": \"b\" }, \"b\": { \"barrier\": \"x\" } } }";
    insta::assert_snapshot!(errors(forked), @r#"f.json:1:43: barrier: x: users that are forked or spawned cannot be counted; declare "tiltyard": { "barriers": { "x": { "parties": ... } } }"#);
    insta::assert_snapshot!(task("\"phases\": { \"p\": { \"run\": 1 } }, \"sleep\": 1"), @"f.json:1:54: sleep: an event beside phases would never run; move it into a phase");
    let buffers = "\"memrun\": { \"type\": \"read\", \"size\": 8, \"count\": 1, \"ref\": \"b\" }, \"memrun1\": { \"type\": \"read\", \"size\": 9, \"count\": 1, \"ref\": \"b\" }";
    insta::assert_snapshot!(task(buffers), @"f.json:1:86: memrun1: shares a buffer with a memrun of another shape; give size, stride and pattern the same values, or use another ref");
}

/// A fork that happens only sometimes, or a bounded number of times, may lead back.
#[test]
fn bounded_circles_of_births_are_allowed() {
    for block in [
        "\"chance\": { \"p\": 0.5, ",
        "\"countdown\": { \"counter\": \"c\", ",
        "\"until\": { \"time\": 9, ",
    ] {
        let members =
            format!("\"tiltyard\": {{ \"run\": 1, {block} \"do\": {{ \"spawn\": \"a\" }} }} }}");
        assert_eq!(
            with("\"counters\": { \"c\": { \"start\": 9 } }", &members),
            "no error",
            "{block}"
        );
    }
}

#[test]
fn many_mistakes_are_told_first_first_and_not_without_end() {
    let members: Vec<String> = (0..500).map(|at| format!("\"x{at}\": 1")).collect();
    let text = task(&members.join(", "));
    assert_eq!(text.lines().count(), 50);
    assert!(
        text.lines().next().is_some_and(|line| line.contains("x0:")),
        "{text}"
    );
}

/// Sections are read in a fixed order; errors are reported in the order of the file.
#[test]
fn errors_come_in_the_order_of_the_file() {
    let text = "{\"tasks\": {\"a\": {\"run\": -1}},\n\"tiltyard\": {\"nam\": 1},\n\"global\": {\"duration\": 0}}";
    let lines: Vec<_> = read(text, "f.json")
        .unwrap_err()
        .iter()
        .map(|e| e.line)
        .collect();
    assert_eq!(lines, [1, 2, 3]);
}

#[test]
fn the_span_is_the_place_in_the_text() {
    let text = "{ \"tasks\": { \"a\": { \"run\": -5 } } }";
    let errors = read(text, "f.json").unwrap_err();
    assert_eq!(&text[errors[0].span.clone()], "-5");
}

/// A task that may be held up before it forks need not grow without bound either.
#[test]
fn circles_of_births_behind_a_wait_are_allowed() {
    assert_eq!(
        task("\"sem_wait\": \"tokens\", \"fork\": \"a\""),
        "no error"
    );
    let members = "\"phases\": { \"p\": { \"loop\": -1, \"run\": 1 }, \"q\": { \"fork\": \"a\" } }";
    assert_eq!(task(members), "no error");
}

/// Each event that may hold a task up forever, or end it.
#[test]
fn circles_of_births_behind_any_wait_are_allowed() {
    let shared = "\"pipes\": { \"p\": {} }, \"barriers\": { \"b\": { \"parties\": 9 } }";
    for event in [
        "\"lock\": \"m\"",
        "\"wait\": { \"ref\": \"c\", \"mutex\": \"m\" }",
        "\"sync\": { \"ref\": \"c\", \"mutex\": \"m\" }",
        "\"barrier\": \"b\"",
        "\"suspend\": \"x\"",
        "\"sem_wait\": \"s\"",
        "\"write\": { \"pipe\": \"p\", \"bytes\": 1 }",
        "\"read\": { \"pipe\": \"p\", \"bytes\": 1 }",
        "\"join\": true",
        "\"exit\": true",
    ] {
        let members = |event: &str| format!("\"tiltyard\": {{ {event}, \"fork\": \"a\" }}");
        assert_eq!(with(shared, &members(event)), "no error", "{event}");
    }
    let grows = with(shared, "\"tiltyard\": { \"run\": 1, \"fork\": \"a\" }");
    assert!(grows.contains("grows without bound"), "{grows}");
}

/// Counts that would fill the memory are refused before they do.
#[test]
fn huge_counts_are_refused() {
    assert!(
        with(
            "\"pipes\": { \"p\": { \"count\": 18446744073709551615 } }",
            "\"run\": 1"
        )
        .contains("too many")
    );
    assert!(task("\"run\": 1, \"instance\": 4000000000").contains("out of range"));
}

/// Words of the dialect and of JSON, so that random text gets past the first character.
fn token() -> impl Strategy<Value = String> {
    let words = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"tasks\"",
        "\"a\"",
        "\"tiltyard\"",
        "\"global\"",
        "\"duration\"",
        "\"phases\"",
        "\"run\"",
        "\"fork\"",
        "\"loop\"",
        "\"instance\"",
        "\"timer\"",
        "\"ref\"",
        "\"do\"",
        "\"repeat\"",
        "\"count\"",
        "\"apps\"",
        "\"groups\"",
        "\"semaphores\"",
        "\"sem_wait\"",
        "\"a[i]\"",
        "\"cpus\"",
        "\"policy\"",
        "\"SCHED_FIFO\"",
        "\"set\"",
        "\"memrun\"",
        "0",
        "1",
        "-1",
        "1e99",
        "0.5",
        "true",
        "null",
        "/*",
        "*/",
        "//",
        "\n",
        "\\",
        "\"",
        "\u{fc}",
    ];
    prop_oneof![9 => proptest::sample::select(words.to_vec()).prop_map(str::to_string), 1 => ".{0,3}"]
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        let _ = read(&text, "f.json");
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&String::from_utf8_lossy(&bytes), "f.json");
    }

    #[test]
    fn any_words_are_read_or_refused(tokens in proptest::collection::vec(token(), 0..60)) {
        let text = tokens.concat();
        if let Err(errors) = read(&text, "f.json") {
            prop_assert!(!errors.is_empty());
            prop_assert!(errors.iter().all(|e| e.to_string().lines().count() == 1 && text.get(e.span.clone()).is_some()));
        }
    }

    /// A good file with one character changed.
    #[test]
    fn any_damage_is_read_or_refused(at in 0usize..2000, c in any::<char>()) {
        let good = include_str!("../../../workloads/fibo-sysbench-1c.json");
        let damaged: String = good.chars().enumerate().map(|(i, old)| if i == at { c } else { old }).collect();
        let _ = read(&damaged, "f.json");
    }
}
