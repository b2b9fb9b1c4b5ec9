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
pub fn open(chromium: &Path, dir: &Path, page: &str) -> (String, Vec<u8>) {
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
