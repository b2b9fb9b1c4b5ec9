// SPDX-License-Identifier: GPL-2.0-or-later
//! Commands whose work the simulated machine does, or nobody: one program, so that what they share is linked once.

mod campaign;
mod choices;
mod claims;
mod cli;
mod compare;
mod events;
mod exec;
mod explain;
mod failing_schedulers;
mod how_to;
mod races;
mod reports;
mod reproduce;
mod sabotage;
#[path = "../sample/mod.rs"]
mod sample;
mod sensitivity;
mod stuck;
mod suite37;
mod tables;
mod teach;
mod user;

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use tiltyard_build::BuilderOptions;

/// The signal ends the command also where children ignore it: under nohup, in the background of a script.
fn heed(command: &mut std::process::Command, signal: libc::c_int) {
    // SAFETY: signal() may be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::signal(signal, libc::SIG_DFL);
            Ok(())
        })
    };
}

/// The command keeps runs in this folder. Built schedulers are those of the usual cache, by a link: compilers would take most of
/// the tests' time.
fn own_cache(command: &mut assert_cmd::Command, folder: &Path) {
    let usual = BuilderOptions::default().cache_dir.unwrap();
    fs::create_dir_all(folder.join("tiltyard")).unwrap();
    for kept in ["objects", "headers"] {
        let (built, link) = (
            usual.with_file_name(kept),
            folder.join("tiltyard").join(kept),
        );
        if !link.exists() {
            fs::create_dir_all(&built).unwrap();
            symlink(&built, &link).unwrap();
        }
    }
    command.env("XDG_CACHE_HOME", folder);
}
