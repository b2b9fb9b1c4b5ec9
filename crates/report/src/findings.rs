// SPDX-License-Identifier: GPL-2.0-or-later
//! Statements that were checked and the figures that belong to them: what a page about them shows.
//!
//! Nothing here knows who stated what, or how it was checked.

use crate::timeline::Recorded;

/// A page. Nothing in it says when or where it was made: the same input gives the same bytes.
pub struct Findings {
    pub title: String,
    /// What was checked, and how, in a sentence or two.
    pub about: String,
    /// The command line that makes this page again.
    pub command: String,
    pub sources: Vec<Source>,
    pub chapters: Vec<Chapter>,
}

/// Who states something.
pub struct Source {
    pub name: String,
    pub sections: Vec<Section>,
}

/// A part of a source.
pub struct Section {
    pub id: String,
    /// Where in the source it stands.
    pub place: String,
    pub statements: Vec<Statement>,
}

/// The verdict on a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatementOutcome {
    Reproduced,
    NotReproduced,
    NotRun,
}

impl StatementOutcome {
    pub const ALL: [StatementOutcome; 3] = [
        StatementOutcome::Reproduced,
        StatementOutcome::NotReproduced,
        StatementOutcome::NotRun,
    ];

    pub fn name(self) -> &'static str {
        match self {
            StatementOutcome::Reproduced => "reproduced",
            StatementOutcome::NotReproduced => "not reproduced",
            StatementOutcome::NotRun => "not run",
        }
    }
}

/// One statement and its verdict. Empty fields are not shown.
pub struct Statement {
    pub id: String,
    pub text: String,
    /// Where in the source it stands.
    pub place: String,
    /// Its importance, in a word.
    pub weight: String,
    pub outcome: StatementOutcome,
    pub expected: String,
    pub tolerance: String,
    pub check: String,
    /// Names with medians over the runs and their intervals.
    pub measured: Vec<String>,
    /// With how many seeds the check holds, or that all runs are identical; empty where nothing was run.
    pub agreement: String,
    /// Why it was not run.
    pub reason: String,
    pub explanation: String,
    /// A command that shows the explanation.
    pub shown_by: String,
    /// Where the source contradicts itself.
    pub note: String,
    /// The command that checks it again.
    pub command: String,
    /// The chapter with its figures.
    pub chapter: Option<String>,
}

/// Figures that belong together.
pub struct Chapter {
    /// As [`Statement::chapter`] calls it.
    pub id: String,
    pub title: String,
    pub command: String,
    pub plots: Vec<Plot>,
    /// Windows of runs, each with what it is called.
    pub timelines: Vec<(String, Recorded)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotKind {
    Line,
    /// A value holds until the next.
    Steps,
    Points,
    Bars,
}

/// A figure from its points.
pub struct Plot {
    /// "Figure 1(a)".
    pub name: String,
    pub title: String,
    /// What the source says about it.
    pub says: String,
    pub kind: PlotKind,
    pub x: String,
    pub y: String,
    /// Whose run it shows.
    pub shows: String,
    pub points: Vec<PlotPoint>,
}

/// A point of a curve, or a bar with its interval.
pub struct PlotPoint {
    pub series: String,
    /// Where a bar stands.
    pub label: String,
    pub x: f64,
    pub y: f64,
    pub span: Option<[f64; 2]>,
}
