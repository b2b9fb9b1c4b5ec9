// SPDX-License-Identifier: GPL-2.0-or-later
//! The page: complete, offline, the same bytes again, and without a console error in a browser.

mod common;
#[path = "common/page.rs"]
mod page;

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn the_page_is_offline_and_has_all_its_figures() {
    let page = page::page(&common::runs(1));
    for id in [
        "overview",
        "runtime",
        "probes",
        "latency",
        "depth",
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
    // What could load something; a comment that names a project's home loads nothing.
    for remote in [
        "src=",
        "href=\"http",
        "<link",
        "@import",
        "url(",
        "fetch(",
        "XMLHttpRequest",
    ] {
        assert!(!page.contains(remote), "the page reaches out: {remote}");
    }
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
fn the_same_runs_give_the_same_page() {
    assert_eq!(page::page(&common::runs(2)), page::page(&common::runs(2)));
}

#[test]
fn a_page_without_runs_still_is_one() {
    assert!(page::page(&[]).contains("</html>"));
    assert!(page::page(&[("none".to_owned(), Vec::new())]).contains("</html>"));
}

fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let candidates = dirs.iter().flat_map(|dir| names.map(|name| dir.join(name)));
    candidates.into_iter().find(|file| file.is_file())
}

/// Opens the page; returns what the browser said and the screenshot.
fn open(chromium: &Path, dir: &Path, page: &str) -> (String, Vec<u8>) {
    let (file, shot) = (dir.join("page.html"), dir.join("page.png"));
    std::fs::write(&file, page).expect("a temporary file");
    let out = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args([
            "--enable-logging=stderr",
            "--v=0",
            "--window-size=1200,3000",
            "--hide-scrollbars",
        ])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("--screenshot={}", shot.display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("chromium starts");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    let png = std::fs::read(&shot).unwrap_or_else(|e| panic!("no screenshot ({e}): {said}"));
    (said, png)
}

#[test]
fn a_browser_draws_it_without_a_console_message() {
    let Some(chromium) = chromium() else {
        eprintln!("SKIPPED: no chromium on PATH");
        return;
    };
    let page = page::page(&common::runs(1));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (said, png) = open(&chromium, dir.path(), &page);
    assert!(!said.contains("CONSOLE"), "{said}");
    assert!(
        png.len() > 100_000,
        "a page with diagrams makes a larger picture than {} bytes",
        png.len()
    );
    // The check itself works: a script that fails is heard.
    let broken = page.replace("drawAll();\n", "drawNothing();\n");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (said, _) = open(&chromium, dir.path(), &broken);
    assert!(
        said.contains("CONSOLE"),
        "a page with an error must be noticed"
    );
}
