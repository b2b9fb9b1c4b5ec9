// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard teach`: lessons about schedulers as interactive pages.

use std::path::{Path, PathBuf};

use tiltyard_runner::{lesson, output};

use crate::failure::{Code, Failure};
use crate::progress::Bar;

/// Make interactive pages for teaching: a scheduler's rule, a run with its own quantities, and questions that readers answer
/// by changing a number in a command.
///
/// A lesson is a file with texts, a run, and questions. Its page, one HTML file that needs no network, is written beside it;
/// all numbers in answers come from runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard teach docs/teaching/*.toml
      The shipped lessons, which link to each other.
  tiltyard teach mine.toml -o pages
      A lesson of your own, for example about your own scheduler: docs/teaching/README.md explains the file.")]
pub struct Args {
    /// Lessons.
    #[arg(required = true, value_name = "LESSON.toml")]
    lessons: Vec<PathBuf>,
    /// Write the pages into this folder [default: beside each lesson].
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let pages: Vec<PathBuf> = args.lessons.iter().map(|file| args.page(file)).collect();
    for (i, page) in pages.iter().enumerate() {
        if let Some(first) = pages[..i].iter().position(|other| other == page) {
            let line = format!(
                "{} and {} would both be written to {}: rename one, or use different folders",
                args.lessons[first].display(),
                args.lessons[i].display(),
                page.display()
            );
            return Err(Failure::usage(line));
        }
    }
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder)
            .map_err(|e| Failure::io(Code::Other, folder, "create", &e))?;
    }
    for (file, path) in args.lessons.iter().zip(&pages) {
        let page = lesson::page(file, &Bar::new())?;
        output::write(path, page.as_bytes())?;
        super::print(&format!("Page    {}\n", path.display()))?;
    }
    Ok(())
}

impl Args {
    /// The path of a lesson's page.
    fn page(&self, lesson: &Path) -> PathBuf {
        let path = lesson.with_extension("html");
        match (&self.out, path.file_name()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => path,
        }
    }
}
