// SPDX-License-Identifier: GPL-2.0-or-later
//! Pictures of an experiment that are kept in the tree.

use serde::Deserialize;

/// A picture that the page of claims shows above the experiment's table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Picture {
    /// Below `docs/`.
    pub file: String,
    pub shows: String,
    /// The commands that make it.
    pub made_by: String,
}

impl Picture {
    /// Its paragraph on a page in `docs/`.
    pub(crate) fn paragraph(&self) -> String {
        let Picture {
            file,
            shows,
            made_by,
        } = self;
        format!("![{shows}]({file})\n\n{shows} Made by `{made_by}`.\n\n")
    }
}

#[cfg(test)]
mod tests {
    use crate::Experiment;

    #[test]
    fn a_picture_says_what_it_shows_and_how_it_was_made() {
        let text = "title = 't'\n[[picture]]\nfile = 'images/a.png'\nshows = 'Threads.'\nmade_by = 'make a'\n";
        let experiment = Experiment::read(text, "e", "e.toml").unwrap();
        let shown = experiment.pictures[0].paragraph();
        assert_eq!(
            shown,
            "![Threads.](images/a.png)\n\nThreads. Made by `make a`.\n\n"
        );
    }
}
