// SPDX-License-Identifier: GPL-2.0-or-later
//! What a user expects besides the figures: other views of them, other formats, names completed, pages, nothing left behind.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn tiltyard() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("tiltyard"));
    command.env_remove("TILTYARD_DATA");
    command
}

/// Standard output of a command that succeeds.
#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// A short run, with these flags.
#[track_caller]
fn short_run(flags: &[&str]) -> String {
    let short = ["run", "-s", "fifo,rr", "--duration", "500ms"];
    output(tiltyard().args(short).args(flags))
}

fn groups(document: &serde_json::Value) -> Vec<String> {
    let rows = document["comparison"]["rows"].as_array().unwrap().iter();
    let mut groups: Vec<String> = rows
        .map(|r| r["group"].as_str().unwrap().to_owned())
        .collect();
    groups.dedup();
    groups
}

#[test]
fn rows_are_of_tasks_apps_or_cgroups() {
    let by = |workload: &str, by: &str| {
        let text = short_run(&["-w", workload, "--by", by, "--format", "json"]);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["by"], by);
        assert_eq!(document["tiltyard"], env!("CARGO_PKG_VERSION"));
        // Each run keeps its figures by app, whatever is compared.
        let apps = document["runs"][0]["summary"]["apps"].as_array().unwrap();
        (groups(&document), apps.len())
    };
    let (tasks, apps) = by("mix-hog-sleepers", "task");
    assert!(tasks.contains(&"hog".to_owned()) && tasks.contains(&"sleeper-9".to_owned()));
    assert_eq!(apps, 1);
    let (apps, _) = by("mix-hog-sleepers", "app");
    assert!(apps.contains(&"rt-app".to_owned()) && !apps.contains(&"hog".to_owned()));
    let (groups, _) = by("probe/micro-groups", "group");
    assert!(groups.contains(&"/single".to_owned()) && groups.contains(&"/crowd".to_owned()));
}

#[test]
fn the_round_trip_of_a_ping_pong_and_the_completion_of_a_job_are_metrics() {
    let pingpong = short_run(&["-w", "pingpong", "-m", "smp2"]);
    assert!(pingpong.contains("round trip p50"), "{pingpong}");
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job.json");
    let text =
        r#"{ "tasks": { "job": { "loop": 1, "run": 100000 }, "more": { "loop": -1, "run": 9 } } }"#;
    std::fs::write(&job, text).unwrap();
    let by_task = short_run(&["-w", job.to_str().unwrap(), "--by", "task"]);
    let line = by_task.lines().find(|line| line.contains("completion"));
    assert!(
        line.is_some_and(|line| line.starts_with("job ")),
        "{by_task}"
    );
}

/// Else schedulers under which a class has no result would have other metrics than the others.
#[test]
fn requests_are_named_by_their_class_if_the_workload_has_several() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, put_us: u32| {
        let file = folder.path().join(name);
        let request = |class: &str, us: u32| {
            format!(
                r#"{{ "loop": -1, "tiltyard": {{ "begin": "{class}", "run": {us}, "end": "{class}" }} }}"#
            )
        };
        let (get, put) = (request("get", 100), request("put", put_us));
        let text = format!(r#"{{ "tasks": {{ "get": {get}, "put": {put} }} }}"#);
        fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    for (name, put_us) in [("ends.json", 1000), ("never.json", 5_000_000)] {
        let workload = write(name, put_us);
        let text = short_run(&["-w", &workload, "--format", "csv"]);
        assert!(text.contains("get.latency_us_p50"), "{text}");
        assert!(!text.contains(",latency_us_p50"), "{text}");
        assert_eq!(
            text.contains("put.latency_us_p50"),
            put_us == 1000,
            "{text}"
        );
        let text = short_run(&["-w", &workload]);
        let unserved = text.contains("no \"put\" of rt-app ended");
        assert_eq!(unserved, put_us != 1000, "{text}");
    }
}

#[test]
fn tables_are_csv_when_asked_for() {
    let text = short_run(&["-w", "mix-hog-sleepers", "--format", "csv"]);
    let mut lines = text.lines();
    let header = lines.next().unwrap();
    assert!(header.starts_with("scheduler,group,metric,unit,better,median,low,high,runs,change"));
    let columns = header.split(',').count();
    let lines: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(
        lines.len() > 20 && lines.iter().all(|line| line.len() == columns),
        "{text}"
    );
    let share = lines
        .iter()
        .find(|l| l[0] == "rr" && l[2] == "cpu_share_percent")
        .unwrap();
    assert_eq!((share[1], share[3]), ("rt-app", "percent"));
    let value: f64 = share[5].parse().unwrap();
    assert!((1.0..=100.0).contains(&value), "a percentage: {value}");
    let machines = output(tiltyard().args(["list", "machines", "--format", "csv"]));
    assert!(machines.starts_with("name,about\n") && machines.contains("\nopteron1,"));
}

#[test]
fn there_is_a_manual_page_of_each_subcommand() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    output(tiltyard().args(["man", "--dir"]).arg(&pages));
    for name in [
        "tiltyard",
        "tiltyard-run",
        "tiltyard-kernel",
        "tiltyard-schema",
    ] {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(
            page.contains(".TH ") && page.contains(".SH SYNOPSIS"),
            "{name}"
        );
    }
    let run = output(tiltyard().args(["man", "run"]));
    assert!(run.contains("\\-\\-seeds"), "{run}");
    assert!(
        !tiltyard()
            .args(["man", "runn"])
            .output()
            .unwrap()
            .status
            .success()
    );
}

#[test]
fn the_schema_of_workloads_is_json() {
    let text = output(tiltyard().args(["schema", "workload"]));
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(schema["required"][0], "tasks");
    assert!(schema["$defs"]["task"]["properties"]["instance"].is_object());
}

/// What bash would offer after these words, the last of which is being typed.
fn offered(words: &[&str]) -> String {
    let folder = assert_cmd::cargo::cargo_bin("tiltyard");
    let folder = folder.parent().unwrap().display().to_string();
    let script = format!(
        "PATH={folder}:$PATH; . <(tiltyard completions bash); COMP_WORDS=({}); COMP_CWORD={}; \
         _tiltyard_or_names tiltyard '' ''; echo \"${{COMPREPLY[@]}}\"",
        words
            .iter()
            .map(|w| format!("'{w}'"))
            .collect::<Vec<_>>()
            .join(" "),
        words.len() - 1
    );
    let mut bash = Command::new("bash");
    output(
        bash.args(["-c", &script])
            .current_dir("/")
            .env_remove("TILTYARD_DATA"),
    )
}

#[test]
fn names_are_completed() {
    let after = |words: &[&str]| offered(&[&["tiltyard"], words].concat());
    assert!(after(&["run", "-s", "ule_2"]).contains("ule_2011 ule_2013"));
    assert!(
        after(&["run", "-s", "fifo,ule_2"]).contains("fifo,ule_2011"),
        "lists go on"
    );
    assert!(after(&["run", "-w", "pingp"]).contains("pingpong"));
    assert!(after(&["run", "-m", "opteron1"]).contains("opteron1"));
    // Files of the right kind, and folders, in which such files may be.
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.bpf.c", "a.json", "a.toml", "a.xml", "a.txt"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    fs::create_dir(folder.path().join("a-folder")).unwrap();
    let begin = format!("{}/a", folder.path().display());
    for (flag, files) in [
        ("-s", "a.bpf.c a-folder/"),
        ("-w", "a.json a-folder/"),
        ("-m", "a.toml a.xml a-folder/"),
    ] {
        let offered = after(&["run", flag, &begin]);
        let offered = offered.replace(&format!("{}/", folder.path().display()), "");
        assert_eq!(offered.trim(), files, "{flag}");
    }
    assert!(after(&["show", "machines", "v8"]).contains("v890"));
    assert!(after(&["reproduce", "atc18.fig6."]).contains("atc18.fig6.cfs-never-perfect"));
    assert!(!after(&["reproduce", "--seeds", ""]).contains("atc18."));
    for (words, own) in [
        (["campaign", "league", "-w", "game"], "game-60 game-144"),
        (["campaign", "league", "-m", "tod"], "today"),
        (["campaign", "league", "-s", "ule_"], "ule_freebsd"),
        (
            ["campaign", "league", "--with", "ule_20"],
            "ule_2011 ule_2013",
        ),
    ] {
        let offered = after(&words);
        assert!(offered.contains(own), "{words:?}: {offered}");
    }
    assert_eq!(after(&["league", "-m", "2018,to"]).trim(), "2018,today");
    assert_eq!(after(&["league", "-w", "web"]).trim(), "web");
    assert!(
        after(&["run", "--se"]).contains("--seeds"),
        "flags are clap's"
    );
}

fn left_in(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().unwrap();
    entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Folders of this test's own for temporary files, for caches and for results.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        for name in ["tmp", "home", "out"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Home { folder }
    }

    fn tiltyard(&self) -> Command {
        let at = |name: &str| self.folder.path().join(name);
        let mut command = tiltyard();
        command.env("TMPDIR", at("tmp")).env("HOME", at("home"));
        command
            .env("XDG_CACHE_HOME", at("home/cache"))
            .current_dir(at("out"));
        command
    }

    #[track_caller]
    fn check(&self, what: &str, results: &[&str]) {
        let tmp = left_in(&self.folder.path().join("tmp"));
        assert!(tmp.is_empty(), "{what} left {tmp:?}");
        let mut out = left_in(&self.folder.path().join("out"));
        out.sort();
        assert_eq!(out, results, "after {what}");
    }
}

/// For the user's own schedulers, workloads and machines.
#[test]
fn a_file_without_its_ending_is_found() {
    let home = Home::new();
    let out = home.folder.path().join("out");
    for file in [
        "mine.bpf.c",
        "burst.json",
        "box.toml",
        "host1.xml",
        "lab/lab.bpf.c",
    ] {
        std::fs::create_dir_all(out.join(file).parent().unwrap()).unwrap();
        std::fs::write(out.join(file), "").unwrap();
    }
    for (flag, typed, meant) in [
        ("-s", "mine", "mine.bpf.c"),
        ("-s", "./mine", "./mine.bpf.c"),
        ("-s", "lab", "lab/lab.bpf.c"),
        ("-s", "lab/", "lab/lab.bpf.c"),
        ("-w", "burst", "burst.json"),
        ("-w", "./burst", "./burst.json"),
        ("-m", "box", "box.toml"),
        ("-m", "host1", "host1.xml"),
    ] {
        let mut words = [("-s", "fifo"), ("-w", "pingpong"), ("-m", "ideal1")];
        words.iter_mut().find(|(f, _)| *f == flag).unwrap().1 = typed;
        let words = words.map(|(f, value)| [f, value]).concat();
        let output = home.tiltyard().arg("run").args(words).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let words = format!("did you mean the file {meant}?");
        assert!(stderr.contains(&words), "{flag} {typed}: {stderr}");
    }
    // A file of another kind, of which only the name says that it should be XML.
    let toml =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/smp4.toml"));
    std::fs::write(out.join("host1.xml"), toml.unwrap()).unwrap();
    let words = ["-s", "fifo", "-w", "pingpong", "-m", "host1.xml"];
    let output = home.tiltyard().arg("run").args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("host1.xml:1") && stderr.contains("lstopo"),
        "{stderr}"
    );
}

/// A path that is given for two outputs is refused before the run, and nothing is left.
#[test]
fn a_folder_for_figures_is_no_file() {
    let home = Home::new();
    let both = home.folder.path().join("out/both");
    for flag in ["--report", "--trace"] {
        let words = ["run", "-w", "pingpong", "-s", "fifo", "--figures"];
        let mut command = home.tiltyard();
        command.args(words).arg(&both).arg(flag).arg(&both);
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("both: is a folder"), "{stderr}");
        assert!(!both.exists());
    }
}

#[test]
fn no_temporary_files_are_left() {
    let home = Home::new();
    let short = [
        "run",
        "-w",
        "mix-hog-sleepers",
        "-s",
        "fifo",
        "--duration",
        "100ms",
    ];
    output(
        home.tiltyard()
            .args(short)
            .args(["--report", "r.html", "--out", "tables"]),
    );
    home.check("run", &["r.html", "tables"]);
    output(home.tiltyard().args(["build", "rr"]));
    home.check("build", &["r.html", "tables"]);
    output(home.tiltyard().args(["show", "schedulers", "ule"]));
    home.check("show", &["r.html", "tables"]);
    // A run that fails has no results, and none half-written.
    let failed = home
        .tiltyard()
        .args(["run", "-w", "pingpong", "-s", "fifo", "-m", "nowhere"])
        .args(["--report", "x.html"])
        .output();
    assert!(!failed.unwrap().status.success());
    home.check("a failure", &["r.html", "tables"]);
}

/// Interrupted in the middle of a build and in the middle of a run.
#[test]
fn nothing_is_left_after_an_interrupt() {
    let home = Home::new();
    let long = [
        "run",
        "-w",
        "fibo-sysbench-1c",
        "-s",
        "cfs",
        "--seeds",
        "100",
    ];
    let kept = home.folder.path().join("out/kept");
    for (signal, wait_ms, figures) in [
        (libc::SIGINT, 150, "new"),
        (libc::SIGINT, 4000, "new"),
        (libc::SIGHUP, 2000, "kept"),
    ] {
        let left: &[&str] = match figures {
            "kept" => &["kept"],
            _ => &[],
        };
        if !left.is_empty() {
            fs::create_dir(&kept).unwrap();
        }
        let mut command = home.tiltyard();
        command
            .args(long)
            .args(["--report", "r.html", "--out", "tables"])
            .args(["--figures", figures]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        crate::heed(&mut command, signal);
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        // SAFETY: the child has not been waited for, so its number is its own.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        let begun = Instant::now();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(130), "after {:?}", begun.elapsed());
        home.check("an interrupt", left);
    }
}

/// The machine at hand: as many CPUs as its kernel has online at least, and the costs that were kept, if any.
#[test]
fn the_machine_at_hand_has_its_own_cpus_and_the_costs_that_were_kept() {
    let settings = tempfile::tempdir().unwrap();
    let show = || {
        let mut command = tiltyard();
        command.env("XDG_CONFIG_HOME", settings.path());
        output(command.args(["show", "machines", "host"]))
    };
    let cpus = |page: &str| -> usize {
        let line = page.lines().find(|l| l.contains(" CPUs, ")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    let own = show();
    let available = std::thread::available_parallelism().unwrap().get();
    assert!(cpus(&own) >= available, "{own}");
    assert!(own.contains("switch_ns                2000"), "{own}");
    let folder = settings.path().join("tiltyard");
    std::fs::create_dir(&folder).unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/opteron32.toml");
    let costs = std::fs::read_to_string(file).unwrap();
    let costs = costs.replace("switch_ns = 2_000", "switch_ns = 4321");
    std::fs::write(folder.join("host.toml"), costs).unwrap();
    let kept = show();
    assert!(kept.contains("switch_ns                4321"), "{kept}");
    assert_eq!(cpus(&kept), cpus(&own));
    std::fs::write(folder.join("host.toml"), "topology = 3").unwrap();
    let mut command = tiltyard();
    let broken = command.env("XDG_CONFIG_HOME", settings.path());
    let broken = broken.args(["show", "machines", "host"]).output().unwrap();
    let error = String::from_utf8_lossy(&broken.stderr).into_owned();
    assert!(error.contains("host.toml"), "{error}");
    assert_ne!(broken.status.code(), Some(0));
}

/// Its shell gets too little to start a task, so there is no task to have waited.
#[test]
fn an_app_that_never_begins_is_starved() {
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    let text = r#"{ "tiltyard": {
            "apps": { "back": { "group": "/g/h" }, "front": { "group": "/f" } },
            "groups": { "/g": { "weight": 1 }, "/g/h": { "weight": 1 }, "/f": { "weight": 10000 } } },
        "tasks": {
            "b": { "instance": 4, "loop": -1, "run": 1000, "tiltyard": { "app": "back" } },
            "f": { "instance": 8, "loop": -1, "run": 1000, "tiltyard": { "app": "front" } } } }"#;
    std::fs::write(file.path(), text).unwrap();
    let run = ["run", "-m", "uni", "-s", "eevdf", "--duration", "3s", "-w"];
    let mut command = tiltyard();
    command
        .args(run)
        .arg(file.path())
        .args(["--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&output(&mut command)).unwrap();
    let rows = document["comparison"]["rows"].as_array().unwrap();
    for name in ["back.starved_us", "back.longest_wait_us"] {
        let row = rows.iter().find(|row| row["name"] == name);
        assert_eq!(row.unwrap()["headline"], true, "{name}");
    }
    let apps = document["runs"][0]["summary"]["apps"].as_array().unwrap();
    let back = apps.iter().find(|app| app["app"] == "back").unwrap();
    assert_eq!(back["tasks"], 0);
    assert!(back["starved_ns"].as_u64().unwrap() > 1_000_000_000);
}
