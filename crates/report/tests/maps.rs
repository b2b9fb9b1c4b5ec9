// SPDX-License-Identifier: GPL-2.0-or-later
//! The maps of a page: their rows and values, their size, and what a browser makes of them.

#![allow(
    clippy::single_range_in_vec_init,
    reason = "a set of CPUs is a list of ranges, often of one"
)]

#[path = "common/browser.rs"]
mod browser;

use serde_json::{Value, json};
use tiltyard_measure::testing::{Call, Stream, random_stream};
use tiltyard_measure::{Comparison, Recorder, RecorderSpec, Summary, compare};
use tiltyard_report::timeline::{Recorded, Timeline, Window};
use tiltyard_report::{ReportInput, html};

const MS: u64 = 1_000_000;
const END_NS: u64 = 4 * MS;

/// Three hogs on CPU 0 of four; at 2 ms one of them goes to CPU 3.
fn hogs() -> Stream {
    let mut s = Stream::new();
    s.cpu_set(0, &[0..4]);
    for tid in 1..=3 {
        s.task(0, tid, "hog").wake_new(0, 0, tid);
    }
    s.start(0, 0, 1);
    s.migrate(2 * MS, 3, 0, 3).start(2 * MS, 3, 3);
    s
}

fn summary(stream: &Stream, nr_cpus: usize, end_ns: u64) -> Summary {
    let mut recorder = Recorder::new(RecorderSpec {
        nr_cpus,
        origin_ns: 0,
        starvation_ns: RecorderSpec::STARVATION_NS,
    });
    stream.play(&mut recorder);
    recorder.finish(end_ns)
}

/// `hogs` as the run of two schedulers; of the second, affinities are unknown.
fn runs() -> Vec<(String, Vec<Summary>)> {
    let mut bare = hogs();
    bare.calls.retain(|call| !matches!(call, Call::CpuSet(..)));
    [("known", hogs()), ("bare", bare)]
        .map(|(name, stream)| (name.to_owned(), vec![summary(&stream, 4, END_NS)]))
        .into()
}

fn timelines() -> Vec<(String, Recorded)> {
    let window = Window {
        from_ns: MS,
        to_ns: None,
        max_slices: 100,
    };
    let mut timeline = Timeline::new(4, 0, window);
    hogs().play(&mut timeline);
    vec![("known".to_owned(), timeline.finish(END_NS))]
}

fn input<'a>(
    runs: &'a [(String, Vec<Summary>)],
    comparison: &'a Comparison,
    timelines: &'a [(String, Recorded)],
) -> ReportInput<'a> {
    ReportInput {
        title: "hogs",
        about: "",
        machine: "",
        command: "tiltyard run",
        shown: "seed 1",
        comparison,
        runs,
        timelines,
        nodes: &[0, 1, 0, 1],
    }
}

fn page(runs: &[(String, Vec<Summary>)]) -> String {
    html::render(&input(runs, &compare(runs), &timelines()))
}

fn map_data(page: &str) -> Option<Value> {
    let (_, rest) = page.split_once("id=\"map-data\">")?;
    let (data, _) = rest.split_once("</script>")?;
    let places: Vec<Value> = serde_json::from_str(data).expect("JSON");
    assert_eq!(places.len(), 1);
    places.into_iter().next()
}

#[test]
fn rows_are_cpus_by_node_and_have_their_values() {
    let page = page(&runs());
    browser::assert_offline(&page);
    let data = map_data(&page).expect("maps");
    assert_eq!(data["cpus"], json!([0, 2, 1, 3]));
    assert_eq!(data["nodes"], json!([[0, 0], [2, 1]]));
    assert_eq!(data["most_threads"], 3.0);
    let known = &data["runs"][0];
    assert_eq!(known["width_ns"], MS);
    assert_eq!(
        known["threads"],
        json!(["3*2 2*2", "0*4", "0*4", "0*2 1*2"])
    );
    // Two wait, later one: the idle CPUs with the lowest numbers could have had them.
    assert_eq!(known["wasted"], json!(["0*4", "100*2 0*2", "100*4", "0*4"]));
    assert_eq!(data["runs"][1]["wasted"], Value::Null);
    assert!(page.contains("Wasted CPU time is unknown for bare:"));
}

#[test]
fn one_cpu_has_no_map() {
    let mut s = Stream::new();
    s.cpu_set(0, &[0..1]).task(0, 1, "hog").wake_new(0, 0, 1);
    let runs = [("s".to_owned(), vec![summary(&s, 1, END_NS)])];
    assert!(map_data(&page(&runs)).is_none());
}

#[test]
fn maps_of_many_cpus_stay_small() {
    let words: Vec<u32> = (0..200_000u32)
        .map(|i| i.wrapping_mul(2_654_435_761))
        .collect();
    let (stream, end_ns) = random_stream(512, 2000, &words);
    let run = summary(&stream, 512, end_ns);
    let data = map_data(&page(&[("s".to_owned(), vec![run])])).expect("maps");
    let bytes = data.to_string().len();
    assert!(bytes > 50_000, "it has values: {bytes}");
    assert!(bytes < 500_000, "{bytes}");
}

#[test]
fn figures_have_each_map() {
    let runs = runs();
    let figures = html::figures(&input(&runs, &compare(&runs), &[]));
    let names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
    for name in [
        "threads-per-cpu-known",
        "threads-per-cpu-bare",
        "idle-while-tasks-wait-known",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(!names.contains(&"idle-while-tasks-wait-bare"));
    let (_, svg) = figures
        .iter()
        .find(|(name, _)| name == "threads-per-cpu-known")
        .expect("it");
    assert!(!svg.contains("NaN") && svg.contains("CPU, 2 nodes"));
    // Of four rows, each 73.5 high: the first half of the first with 3 threads, the second half of the last with 1.
    for cells in [
        "fill=\"#081d58\" d=\"M70.00 58.00H386.00v73.50H70.00z\"",
        "fill=\"#41b6c4\" d=\"M386.00 278.50H702.00v73.50H386.00z\"",
    ] {
        assert!(svg.contains(cells), "{svg}");
    }
}

#[test]
fn a_browser_tells_of_a_point_and_the_timeline_follows() {
    let Some(chromium) = browser::chromium() else {
        eprintln!("SKIPPED: no chromium on PATH");
        return;
    };
    let script = "const canvas = document.querySelectorAll('.maps canvas')[1], box = canvas.getBoundingClientRect();
        let seen = document.querySelectorAll('.maps canvas').length + ' maps; ';
        const at = (x, y) => ({ bubbles: true, pointerId: 1, clientX: box.left + x, clientY: box.top + y });
        canvas.dispatchEvent(new PointerEvent('pointermove', at(60, 34 + 26 * 1.5)));
        seen += document.querySelector('.tip:not([hidden])').innerText.replaceAll('\\n', ' ');
        const times = [];
        addEventListener('timeview', ({ detail }) => { if (detail.by === 'timeline') times.push(`${detail.from} to ${detail.to}`); });
        canvas.focus();
        canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'End', bubbles: true }));
        canvas.dispatchEvent(new PointerEvent('pointerleave', at(0, 0)));
        seen += '; ' + times.join(', ') + (document.querySelector('.tip:not([hidden])') ? ' still' : ' gone')";
    let told = browser::after(&chromium, &page(&runs()), script);
    assert_eq!(
        told,
        "3 maps; CPU 2 node 0, known from 0 s for 1 ms had 0 threads (mean) \
         idle: could have worked 100 % of the time, 1 ms; 1000000 to 4000000 gone"
    );
}
