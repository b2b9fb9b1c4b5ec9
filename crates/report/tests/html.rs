// SPDX-License-Identifier: GPL-2.0-or-later
//! The page of a comparison: complete, offline, the same bytes again, and without a console error in a browser.

#[path = "common/browser.rs"]
mod browser;
mod common;
#[path = "common/page.rs"]
mod page;

#[test]
fn the_page_is_offline_and_has_all_its_figures() {
    let page = page::page(&common::runs(1), &page::timelines(1, 20_000));
    for id in [
        "overview",
        "runtime",
        "probes",
        "latency",
        "depth",
        "timeline",
        "switches",
        "preemptions",
        "overhead",
        "tasks",
    ] {
        assert!(
            page.contains(&format!("<section id=\"{id}\">")),
            "no section {id}"
        );
    }
    assert_eq!(
        page.matches("How large the differences are").count(),
        2,
        "of the headline, and of all figures"
    );
    browser::assert_offline(&page);
    // Every drawn diagram has an element to be drawn into.
    let data = page
        .split("id=\"data\">")
        .nth(1)
        .and_then(|rest| rest.split("</script>").next());
    let charts: Vec<serde_json::Value> = serde_json::from_str(data.expect("data")).expect("JSON");
    assert!(charts.len() >= 7, "{} diagrams", charts.len());
    for chart in &charts {
        let id = chart["id"].as_str().expect("an id");
        assert!(
            page.contains(&format!("id=\"{id}\"")),
            "nowhere to draw {id}"
        );
        for series in chart["series"].as_array().expect("series") {
            let (x, y) = (&chart["x"], &series["y"]);
            assert_eq!(
                x.as_array().map(Vec::len),
                y.as_array().map(Vec::len),
                "{id}"
            );
        }
    }
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn the_page_names_a_machine_that_is_nearly_idle() {
    let mut runs = common::runs(1);
    let said = |runs: &[_]| page::page(runs, &page::timelines(1, 2000)).contains("few decisions");
    assert!(!said(&runs));
    let summaries = runs.iter_mut().flat_map(|(_, summaries)| summaries);
    let cpus = summaries.flat_map(|summary| &mut summary.cpus);
    cpus.for_each(|cpu| cpu.busy_ns /= 100);
    assert!(said(&runs));
}

#[test]
fn the_same_runs_give_the_same_page() {
    let page = || page::page(&common::runs(2), &page::timelines(2, 2000));
    assert_eq!(page(), page());
}

/// Each diagram, each drawing of bars and each timeline can be saved.
#[test]
fn figures_can_be_saved() {
    let Some(chromium) = browser::chromium() else {
        eprintln!("SKIPPED: no chromium on PATH");
        return;
    };
    let page = page::page(&common::runs(1), &page::timelines(1, 2000));
    let click = "const saved = [];
        URL.createObjectURL = (blob) => { saved.push(blob.type); return 'data:,'; };
        const files = [];
        HTMLAnchorElement.prototype.click = function () { files.push(this.download); };
        const figures = document.querySelectorAll('template[data-figure], svg.bars').length;
        const buttons = [...document.querySelectorAll('.save button')];
        const svgs = buttons.filter((b) => b.textContent === 'SVG');
        svgs.forEach((b) => b.click());
        const seen = `${svgs.length === figures} ${saved.every((t) => t === 'image/svg+xml')} ${files.includes('cpu-time-over-time-first.svg')} `
            + `${buttons.filter((b) => b.textContent === 'PNG').length - figures}`";
    let told = browser::after(&chromium, &page, click);
    assert!(told.starts_with("true true true "), "{told}");
    assert!(
        told.ends_with(" 2"),
        "two timelines are saved as PNG only: {told}"
    );
}

/// As many slices as a report ever has.
#[test]
fn a_page_with_the_longest_timelines_stays_below_three_megabytes() {
    let one = page::timelines(4, 24_000).swap_remove(1);
    assert!(one.1.full && one.1.slices.len() >= 24_000);
    let two = [("a".to_owned(), one.1.clone()), ("b".to_owned(), one.1)];
    let page = page::page(&common::runs(4), &two);
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
}

#[test]
fn a_page_without_runs_still_is_one() {
    assert!(page::page(&[], &[]).contains("</html>"));
    assert!(page::page(&[("none".to_owned(), Vec::new())], &[]).contains("</html>"));
}

#[test]
fn a_browser_draws_it_without_a_console_message() {
    let Some(chromium) = browser::chromium() else {
        eprintln!("SKIPPED: no chromium on PATH");
        return;
    };
    let page = page::page(&common::runs(1), &page::timelines(1, 20_000));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (said, png) = browser::open(&chromium, dir.path(), &page);
    assert!(!said.contains("CONSOLE"), "{said}");
    assert!(
        png.len() > 100_000,
        "a page with diagrams makes a larger picture than {} bytes",
        png.len()
    );
    // The check itself works: a failing script is noticed.
    let broken = page.replace("drawAll();\n", "drawNothing();\n");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (said, _) = browser::open(&chromium, dir.path(), &broken);
    assert!(
        said.contains("CONSOLE"),
        "a page with an error must be noticed"
    );
}

/// Keys and the pointer, as far as a page without a user can try them.
#[test]
fn the_timeline_tells_of_the_slice_that_is_pointed_at() {
    let Some(chromium) = browser::chromium() else {
        eprintln!("SKIPPED: no chromium on PATH");
        return;
    };
    let page = page::page(&common::runs(1), &page::timelines(1, 2000));
    let keys = "const canvas = document.querySelectorAll('.timelines > canvas')[1];
        canvas.focus();
        for (const key of ['+', '+', '+', '+', '+', '+', 'ArrowRight', 'ArrowLeft', 'n', 'n', 'n', 'p'])
          canvas.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
        const tip = document.querySelector('.tip');
        let seen = tip.hidden ? 'nothing' : tip.textContent;
        canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
        seen += tip.hidden ? ' then nothing' : ' still'";
    let told = browser::after(&chromium, &page, keys);
    for word in [
        "sysbench",
        "begin",
        "length",
        "left",
        "woken by",
        "then nothing",
    ] {
        assert!(told.contains(word), "no {word} in: {told}");
    }
    let point = "const canvas = document.querySelector('.timelines > canvas'), box = canvas.getBoundingClientRect();
        const at = { bubbles: true, pointerId: 1, clientX: box.left + box.width / 2, clientY: box.top + 50 };
        canvas.dispatchEvent(new PointerEvent('pointermove', at));
        const seen = document.querySelector('.tip').textContent";
    assert!(browser::after(&chromium, &page, point).contains("woken by"));
    // By task there is a row for each, and where one waits the tip names what it waits for.
    let rows = "document.querySelector('[data-rows=tasks]').click();
        const canvas = document.querySelector('.timelines > canvas'), box = canvas.getBoundingClientRect();
        const at = { bubbles: true, pointerId: 1, clientX: box.left + box.width / 2, clientY: box.top + 30 };
        canvas.dispatchEvent(new PointerEvent('pointermove', at));
        const high = parseFloat(canvas.style.height);
        canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 't', bubbles: true }));
        const seen = document.querySelector('.tip').textContent + ' then ' + (parseFloat(canvas.style.height) < high)
            + document.querySelector('.timelines').classList.contains('by-task')";
    let told = browser::after(&chromium, &page, rows);
    assert!(
        told.contains("fibo-1") && told.contains("waits since"),
        "{told}"
    );
    assert!(
        told.ends_with("then truefalse"),
        "the key goes back to the rows of CPUs: {told}"
    );
}
