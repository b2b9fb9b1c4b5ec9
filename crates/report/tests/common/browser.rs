// SPDX-License-Identifier: GPL-2.0-or-later
//! Pages in a browser, and pages that need no network.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Fails on what could load something; a comment that names a project's home loads nothing.
#[track_caller]
pub fn assert_offline(page: &str) {
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
}

pub fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let candidates = dirs.iter().flat_map(|dir| names.map(|name| dir.join(name)));
    candidates.into_iter().find(|file| file.is_file())
}

/// Opens the page; returns what the browser said and the screenshot.
#[allow(dead_code, reason = "each test file uses a part of this")]
pub fn open(chromium: &Path, dir: &Path, page: &str) -> (String, Vec<u8>) {
    let shot = dir.join("page.png");
    let flag = format!("--screenshot={}", shot.display());
    let (said, _) = headless(chromium, dir, page, &[&flag]);
    let png = std::fs::read(&shot).unwrap_or_else(|e| panic!("no screenshot ({e}): {said}"));
    (said, png)
}

/// Opens the page, does `script` when it is drawn, and returns the last element of the body: what the script left there.
pub fn after(chromium: &Path, page: &str, script: &str) -> String {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let last = "document.body.append(Object.assign(document.createElement('output'), { textContent: seen }))";
    let script = format!("<script>setTimeout(() => {{ {script}; {last}; }}, 100);</script></body>");
    let page = page.replace("</body>", &script);
    let (said, dom) = headless(
        chromium,
        dir.path(),
        &page,
        &["--dump-dom", "--virtual-time-budget=2000"],
    );
    assert!(!said.contains("CONSOLE"), "{said}");
    let told = dom
        .rsplit_once("<output>")
        .and_then(|(_, rest)| rest.split_once("</output>"));
    told.expect("the script came to its end").0.to_owned()
}

fn headless(chromium: &Path, dir: &Path, page: &str, flags: &[&str]) -> (String, String) {
    let file = dir.join("page.html");
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
        .args(flags)
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("chromium starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&out.stderr), text(&out.stdout))
}
