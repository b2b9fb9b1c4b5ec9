// SPDX-License-Identifier: GPL-2.0-or-later
//! What a campaign says of schedulers and workloads that fail, and of tasks that wait.

use std::fs;

use serde_json::Value;

use super::{Bench, CAMPAIGN, WORKLOAD, contest, entry, stdout};

/// How schedulers fail is a result: it is shown, wins nothing, and the others go on.
#[test]
fn failures_are_results() {
    let mine = "#include <scx/common.bpf.h>\nchar _license[] SEC(\"license\") = \"GPL\";\nUEI_DEFINE(uei);\nstatic u64 count;\n\
        void BPF_STRUCT_OPS(mine_enqueue, struct task_struct *p, u64 enq_flags)\n{\n\tif (++count > 50)\n\t\tscx_bpf_error(\"fifty\");\n\
        \tscx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);\n}\n\
        void BPF_STRUCT_OPS(mine_exit, struct scx_exit_info *ei)\n{\n\tUEI_RECORD(uei, ei);\n}\n\
        SCX_OPS_DEFINE(mine_ops, .enqueue = (void *)mine_enqueue, .exit = (void *)mine_exit, .name = \"mine\");\n";
    let bench =
        Bench::with(&CAMPAIGN.replace("fifo:slice_ms=40:slice_ms2=0", "fifo:slice_ms=1200"));
    fs::write(bench.path("mine.bpf.c"), mine).unwrap();
    let args = ["-w", "clicks", "-m", "uni", "--with", "./mine.bpf.c"];
    let document = bench.json(&args);
    let contest = contest(&document, "clicks", "uni");
    assert_eq!(
        contest["decision"]["who"],
        serde_json::json!(["fifo:slice_ms=10"])
    );
    let ejected = entry(contest, "mine");
    assert_eq!(
        (&ejected["place"], &ejected["failure"]["how"]),
        (&"failed".into(), &"ejected".into())
    );
    assert_eq!(
        (&ejected["failure"]["seeds"], &ejected["value"]),
        (&6.into(), &Value::Null)
    );
    let what = ejected["failure"]["what"].as_str().unwrap();
    assert!(what.contains("fifty"), "{what}");
    // Slices of 1.2 s let the sleeper wait for longer than a second.
    let starved = entry(contest, "fifo:slice_ms=1200");
    assert_eq!(starved["place"], "failed");
    let how = starved["failure"]["how"].as_str().unwrap();
    assert!(how.starts_with("starved "), "{how}");
    let output = bench.run(&[&args[..], &["--report", "p.html"]].concat());
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "failures are results");
    assert!(
        text.contains(
            "mine failed: clicks on uni, with all 6 seeds: seed 1: scheduler mine ejected"
        ),
        "{text}"
    );
    let page = fs::read_to_string(bench.path("p.html")).unwrap();
    assert!(page.contains("\u{2717} ejected") && page.contains("\u{2717} starved "));
    // Where the campaign allows it, waiting is no failure.
    let text = fs::read_to_string(bench.path("c.toml")).unwrap();
    let text = text.replace(
        "reason = \"The",
        "starved_after = \"never\"\nreason = \"The",
    );
    fs::write(bench.path("c.toml"), text).unwrap();
    let document = bench.json(&args);
    let waited = entry(
        super::contest(&document, "clicks", "uni"),
        "fifo:slice_ms=1200",
    );
    assert_eq!(
        (&waited["place"], &waited["failure"]),
        (&"beaten".into(), &Value::Null)
    );
}

/// A deadlock is the workload's own; it counts as no scheduler's failure. The command of a contest gives its verdict.
#[test]
fn a_workload_that_fails_is_nobodys_failure() {
    let bench = Bench::new();
    let workload = bench.path("w.json");
    let deadlock = "\"job\" : { \"tiltyard\" : { \"app\" : \"hog\" }, \"delay\" : 100000, \"lock\" : \"m\", \"sleep\" : 1000, \"lock1\" : \"n\", \"unlock1\" : \"n\", \"unlock\" : \"m\" },\n\
        \"bot\" : { \"tiltyard\" : { \"app\" : \"hog\" }, \"delay\" : 100000, \"lock\" : \"n\", \"sleep\" : 1000, \"lock1\" : \"m\", \"unlock1\" : \"m\", \"unlock\" : \"n\" },\n\"rest\" : {";
    fs::write(&workload, WORKLOAD.replace("\"job\" : {", deadlock)).unwrap();
    let document = bench.json(&["-w", "clicks", "-m", "uni"]);
    let contest = contest(&document, "clicks", "uni");
    assert_eq!(
        contest["repeat"],
        "tiltyard campaign c.toml -w clicks -m uni"
    );
    for scheduler in ["fifo:slice_ms=40", "fifo:slice_ms=10"] {
        let entry = entry(contest, scheduler);
        assert_eq!(
            (&entry["place"], &entry["failure"]["how"]),
            (&"undecided".into(), &"workload failed".into())
        );
        assert_eq!(entry["failure"]["is_schedulers"], false);
    }
    assert_eq!(document["tallies"][0]["failed"], 0);
    let text = stdout(&bench.run(&["-w", "clicks", "-m", "uni", "--report", "p.html"]));
    assert!(
        text.contains("No scheduler fails.") && text.contains("undecided\n"),
        "{text}"
    );
    assert!(
        text.contains("fifo:slice_ms=10 has no result: clicks on uni, with all 6 seeds: seed 1: workload: deadlock"),
        "{text}"
    );
    let page = fs::read_to_string(bench.path("p.html")).unwrap();
    assert!(page.contains("\u{2717} 2 without a result") && page.contains("class=\"undecided\""));
}

/// Tasks that wait forever are in the document and on the page; a wait that the end of the run cut is a lower bound.
#[test]
fn what_the_end_of_the_run_hides_is_said() {
    let bench =
        Bench::with(&CAMPAIGN.replace("fifo:slice_ms=40:slice_ms2=0", "fifo:slice_ms=20000"));
    let lost = "\"lost\" : { \"loop\" : -1, \"run\" : 100, \"tiltyard\" : { \"app\" : \"hog\", \"sem_wait\" : \"never\" } },\n\"job\" : {";
    fs::write(bench.path("w.json"), WORKLOAD.replace("\"job\" : {", lost)).unwrap();
    let args = ["-w", "clicks", "-m", "uni", "--seeds", "1"];
    let document = bench.json(&args);
    let warning = document["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("clicks on uni: Under fifo:slice_ms=")
            && warning.contains("waits forever"),
        "{warning}"
    );
    let contest = contest(&document, "clicks", "uni");
    let cut = |scheduler| &entry(contest, scheduler)["longest_wait_cut"];
    assert_eq!(
        [cut("fifo:slice_ms=10"), cut("fifo:slice_ms=20000")],
        [false, true]
    );
    let starved = entry(contest, "fifo:slice_ms=20000")["failure"]["what"]
        .as_str()
        .unwrap();
    assert!(
        starved.contains(" waited at least ") && starved.ends_with("the limit is 1.00 s"),
        "{starved}"
    );
    bench.run(&[&args[..], &["--report", "p.html"]].concat());
    let page = fs::read_to_string(bench.path("p.html")).unwrap();
    assert!(
        page.contains("waits forever") && page.contains("<td>at least "),
        "{page}"
    );
}

/// A metric that only some runs have is no win for anybody who lacks it, however few rivals remain.
#[test]
fn work_that_is_not_done_wins_nothing() {
    let campaign = CAMPAIGN
        .replace(", \"fifo:slice_ms=40:slice_ms2=0\"", "")
        .replace("ui.wakeup_latency_us_p99", "hog.latency_us_mean")
        .replace(
            "reason = \"The",
            "duration = \"700ms\"\nstarved_after = \"never\"\nreason = \"The",
        )
        .replace("slice_ms=40", "slice_ms=500");
    let bench = Bench::with(&campaign);
    let document = bench.json(&["-w", "clicks", "-m", "uni"]);
    let contest = contest(&document, "clicks", "uni");
    // The job is behind two slices of 500 ms, so it has not run once after 700 ms; nobody's request has ended.
    for scheduler in ["fifo:slice_ms=500", "fifo:slice_ms=10"] {
        let entry = entry(contest, scheduler);
        assert_eq!(
            (&entry["place"], &entry["failure"]["how"]),
            (&"failed".into(), &"no value".into())
        );
    }
    assert_eq!(contest["decision"]["kind"], "nobody");
    assert_eq!(document["tallies"][0]["won"], 0);
}

/// A query's fault is the campaign's, with its line, whichever run shows it. What can be written or shown is.
#[test]
fn faults_of_the_campaigns_own() {
    let two = CAMPAIGN.replace(", \"fifo:slice_ms=40:slice_ms2=0\"", "");
    let bench = Bench::with(&two.replace("SELECT 100.0 * avg(dur > 25e6)", "SELECT dur"));
    let words = ["c.toml:", "sql: several rows", "on two under "];
    bench.refuses(&["-w", "slow", "--seeds", "1"], 3, &words);
    let bench = Bench::new();
    let full = bench.run(&["-w", "clicks", "-m", "uni", "--report", "/dev/full"]);
    let text = stdout(&full);
    assert!(!full.status.success());
    assert!(
        text.contains("clicks on uni: ") && !text.contains("Report "),
        "{text}"
    );
}

/// Names that differ only in signs give as many files as charts.
#[test]
fn each_chart_has_its_file() {
    let two = CAMPAIGN
        .replace("name = \"clicks\"", "name = \"a/b\"")
        .replace("name = \"slow\"", "name = \"a b\"");
    let bench = Bench::with(&two.replace(", \"fifo:slice_ms=40:slice_ms2=0\"", ""));
    let output = bench.run(&["-m", "two", "--seeds", "1", "--figures", "charts"]);
    assert!(output.status.success());
    assert_eq!(bench.path("charts").read_dir().unwrap().count(), 2);
}

/// What would only show in a run is refused before the first.
#[test]
fn what_cannot_run_is_refused_with_the_line() {
    let bench = Bench::new();
    let pinned = "\"job\" : { \"cpus\" : [9],";
    fs::write(
        bench.path("w.json"),
        WORKLOAD.replace("\"job\" : {", pinned),
    )
    .unwrap();
    bench.refuses(
        &["-w", "clicks", "-m", "uni"],
        3,
        &["c.toml:14: workload = ", "w.json", "[9]"],
    );
    let endless = WORKLOAD.replace("\"duration\" : 8", "\"duration\" : -1");
    fs::write(bench.path("w.json"), endless).unwrap();
    bench.refuses(
        &["-w", "clicks", "-m", "uni"],
        3,
        &["c.toml:14: workload = ", "give it a duration"],
    );
}
