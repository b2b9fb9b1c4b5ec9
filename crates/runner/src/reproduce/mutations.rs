// SPDX-License-Identifier: GPL-2.0-or-later
//! Schedulers with a broken rule, and the effect on the claims about them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tiltyard_claims::mutation::{Edit, Mutation, Mutations, SHARED, Tried};
use tiltyard_claims::{Claim, Experiment, Verdict};

use super::files::glob;
use super::scheduler_names::{Schedulers, with_replaced};
use super::trials::{as_is, claims_with_names, with_settings};
use super::{Cache, Simulated, judge_all};
use crate::schedulers::{self, Choice, split};
use crate::{Error, Progress};
use crate::{data, objects};

/// The files of `mutations/` beside the experiments; none without that folder.
pub fn load(folder: &Path, experiments: &[Experiment]) -> Result<Vec<Mutations>, Error> {
    let folder = folder.join("mutations");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let claims = experiments.iter().flat_map(|e| &e.claims);
    let claims: BTreeSet<&str> = claims.map(|claim| claim.id.as_str()).collect();
    let mut all = Vec::new();
    for name in data::names(&folder, ".toml")? {
        let path = folder.join(format!("{name}.toml"));
        let read = Mutations::read(&data::read(&path)?, &data::shown(&path), &claims);
        all.push(read.map_err(|e| Error::input(e.to_string()))?);
    }
    Ok(all)
}

/// The ids of the claims that a mutation must turn.
pub fn named(all: &[Mutations]) -> BTreeSet<String> {
    let mutations = all.iter().flat_map(|file| &file.mutations);
    mutations
        .flat_map(|mutation| mutation.turns.clone())
        .collect()
}

/// The mutations whose `SCHEDULER.ID` or rule (`SCHEDULER.RULE`) matches the pattern.
pub fn select<'a>(
    all: &'a [Mutations],
    pattern: &str,
) -> Result<Vec<(&'a Mutations, &'a Mutation)>, Error> {
    let matches = |file: &Mutations, mutation: &Mutation| {
        let is = |id: &str| {
            glob(
                pattern.as_bytes(),
                format!("{}.{id}", file.scheduler).as_bytes(),
            )
        };
        is(&mutation.id) || is(&mutation.rule)
    };
    let each = all
        .iter()
        .flat_map(|file| file.mutations.iter().map(move |m| (file, m)));
    let chosen: Vec<_> = each.filter(|(file, m)| matches(file, m)).collect();
    if chosen.is_empty() {
        return Err(Error::Request(format!(
            "{pattern}: no mutation of experiments/mutations; write SCHEDULER.ID, SCHEDULER.RULE or a glob of one"
        )));
    }
    Ok(chosen)
}

/// Each mutation, judged by those claims of `ids` that name its scheduler.
pub fn try_all(
    chosen: &[(&Mutations, &Mutation)],
    experiments: &[Experiment],
    ids: &BTreeSet<String>,
    seeds: u64,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Vec<Tried>, Error> {
    let all = Schedulers::of(experiments)?;
    let mut claims: Vec<(&Experiment, &Claim, BTreeSet<String>)> = Vec::new();
    for experiment in experiments {
        let named = claims_with_names(experiment, ids, &all).into_iter();
        claims.extend(named.map(|(claim, named)| (experiment, claim, named)));
    }
    let concerned = claims
        .iter()
        .map(|(_, claim, _)| claim.id.clone())
        .collect();
    let before = as_is(experiments, &concerned, seeds, cache, progress)?;
    let one = |(file, mutation): &(&Mutations, &Mutation)| {
        let attempt = Attempt {
            all: &all,
            claims: &claims,
            before: &before,
            seeds,
            cache,
            progress,
        };
        let place = format!("{}: {}", file.file, mutation.id);
        attempt
            .run(&file.scheduler, mutation)
            .map_err(|failure| failure.within(&place))
    };
    chosen.iter().map(one).collect()
}

/// What all mutations have in common.
struct Attempt<'a> {
    all: &'a Schedulers,
    /// With the schedulers that each names.
    claims: &'a [(&'a Experiment, &'a Claim, BTreeSet<String>)],
    before: &'a BTreeMap<String, Verdict>,
    seeds: u64,
    cache: &'a Cache,
    progress: &'a dyn Progress,
}

impl Attempt<'_> {
    fn run(&self, scheduler: &str, mutation: &Mutation) -> Result<Tried, Error> {
        let folder =
            TempDir::new().map_err(|e| Error::Environment(format!("no temporary folder: {e}")))?;
        let mutant = Mutant::make(scheduler, mutation, folder.path())?;
        let replace = |argument: &str| {
            let choice = self.all.choice(argument)?;
            (choice.family() == scheduler).then(|| mutant.of(choice))
        };
        let mut by_experiment: BTreeMap<&str, (&Experiment, Vec<&Claim>)> = BTreeMap::new();
        for (experiment, claim, named) in self.claims {
            if named.contains(scheduler) {
                let of_experiment = by_experiment.entry(&experiment.id);
                of_experiment
                    .or_insert((experiment, Vec::new()))
                    .1
                    .push(claim);
            }
        }
        let plans = by_experiment.into_values();
        let plans = plans.map(|(experiment, claims)| with_replaced(experiment, claims, &replace));
        let plans: Vec<_> = plans.collect();
        let arena = Simulated::prepare(&plans)?;
        let (judged, _) = judge_all(&plans, self.seeds, &arena, self.cache, self.progress);
        let after = judged.iter().flat_map(|judged| &judged.verdicts);
        let pairs = after.filter_map(|after| Some((self.before.get(&after.id)?, after)));
        let pairs: Vec<(&Verdict, &Verdict)> = pairs.collect();
        Ok(Tried::new(scheduler, mutation, self.seeds, &pairs))
    }
}

/// A scheduler with one thing changed.
enum Mutant<'a> {
    /// Settings, followed by the experiment's own.
    Set(&'a str),
    /// The path of a changed source.
    Source(String),
}

impl<'a> Mutant<'a> {
    /// Copies of sources are made in `folder` and built, so that an error is attributed to this mutation.
    fn make(scheduler: &str, mutation: &'a Mutation, folder: &Path) -> Result<Mutant<'a>, Error> {
        let original = schedulers::choose(scheduler)?;
        let mutant = match mutation.edit() {
            Some(Edit::Tunable(settings)) => Mutant::Set(settings),
            Some(Edit::Source { file, from, to }) => {
                let source = &original.source;
                copy_changed(source, folder, file, from, to)?;
                let path = folder.join(source.file_name().unwrap_or_default());
                Mutant::Source(path.display().to_string())
            }
            None => {
                return Err(Error::input("neither a tunable nor a change of a file"));
            }
        };
        objects::native(&schedulers::choose(&mutant.of(&original))?, false)?;
        Ok(mutant)
    }

    /// The argument of `-s` for this variant.
    fn of(&self, choice: &Choice) -> String {
        let (name, settings) = split(&choice.argument);
        match self {
            Mutant::Set(change) => with_settings(&with_settings(name, change), settings),
            Mutant::Source(path) => {
                // A path has no preset settings.
                let all = choice
                    .tunables
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"));
                with_settings(path, &all.collect::<Vec<_>>().join(":"))
            }
        }
    }
}

/// Files that a scheduler is made of, in `folder`: those beside `source`, and the headers that it shares with others if one
/// of these is `file`. There `from` is replaced, which must occur once.
fn copy_changed(
    source: &Path,
    folder: &Path,
    file: &str,
    from: &str,
    to: &str,
) -> Result<(), Error> {
    let wrong = |path: &Path, what: String| Error::input(format!("{}: {what}", data::shown(path)));
    let copy = |from: &Path, to: &Path| {
        copy_files(from, to).map_err(|error| wrong(from, error.to_string()))
    };
    let mut home = source.parent().unwrap_or(source).to_owned();
    copy(&home, folder)?;
    if file.starts_with(SHARED) {
        home = data::folder()?.join("schedulers/lib");
        copy(&home.join(SHARED), &folder.join(SHARED))?;
    }
    let path = folder.join(file);
    let text = data::read(&home.join(file))?;
    match text.matches(from).count() {
        1 => fs::write(&path, text.replacen(from, to, 1)).map_err(|e| wrong(&path, e.to_string())),
        found => {
            let what = format!("from must be there once and is there {found} times: {from:?}");
            Err(wrong(&home.join(file), what))
        }
    }
}

fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let copy = to.join(path.file_name().unwrap_or_default());
        if path.is_file() {
            fs::copy(&path, copy)?;
        } else if path.is_dir() {
            copy_files(&path, &copy)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::files;

    #[test]
    fn a_text_to_replace_must_be_there_once() {
        let source = TempDir::new().unwrap();
        let path = source.path().join("a.bpf.c");
        fs::write(&path, "one two two").unwrap();
        let copy = TempDir::new().unwrap();
        let change = |file: &str, from: &str| copy_changed(&path, copy.path(), file, from, "three");
        change("a.bpf.c", "one").unwrap();
        let changed = fs::read_to_string(copy.path().join("a.bpf.c")).unwrap();
        assert_eq!(changed, "three two two");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one two two");
        for (file, from, expected) in [
            ("a.bpf.c", "two", "is there 2 times"),
            ("a.bpf.c", "four", "is there 0 times"),
            ("b.h", "one", "b.h"),
            ("tiltyard/b.h", "one", "tiltyard/b.h"),
        ] {
            let error = change(file, from).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// A copied source finds the changed header before the shipped one.
    #[test]
    fn shared_headers_are_copied_beside_the_source() {
        let source = TempDir::new().unwrap();
        fs::write(source.path().join("a.bpf.c"), "").unwrap();
        let copy = TempDir::new().unwrap();
        let changed = ("tiltyard/ticks.h", "+ tick_ns / 2", "+ tick_ns");
        let path = source.path().join("a.bpf.c");
        copy_changed(&path, copy.path(), changed.0, changed.1, changed.2).unwrap();
        let text = fs::read_to_string(copy.path().join(changed.0)).unwrap();
        assert!(text.contains("g->origin_ns + tick_ns)"), "{text}");
        assert!(copy.path().join("tiltyard/arith.h").is_file());
        assert!(copy.path().join("tiltyard/fair/pelt.h").is_file());
    }

    /// Whatever an experiment sets itself, a mutation's settings go with it.
    #[test]
    fn settings_of_mutations_fit_all_experiments() {
        let folder = data::folder().unwrap().join("experiments");
        let experiments = files::load(&folder).unwrap();
        let jobs = experiments.iter().flat_map(|e| e.jobs());
        let arguments: BTreeSet<String> = jobs.map(|job| job.scheduler.clone()).collect();
        let choices = arguments.iter().flat_map(|a| schedulers::choose(a));
        let choices: Vec<Choice> = choices.collect();
        let mut tried = 0;
        for file in load(&folder, &experiments).unwrap() {
            for mutation in &file.mutations {
                let Some(Edit::Tunable(settings)) = mutation.edit() else {
                    continue;
                };
                for choice in choices.iter().filter(|c| c.family() == file.scheduler) {
                    let argument = Mutant::Set(settings).of(choice);
                    assert!(schedulers::choose(&argument).is_ok(), "{argument}");
                    tried += 1;
                }
            }
        }
        assert!(tried > 0);
    }
}
