// SPDX-License-Identifier: GPL-2.0-or-later
//! The existing experiments, and the requested claims.

use std::collections::BTreeSet;
use std::path::Path;

use tiltyard_claims::parameter::{FITTED_FILE, Fitted, check_names, read_fitted};
use tiltyard_claims::{Claim, Experiment, FileError, Tier, check_unique};

use crate::Error;
use crate::data;
use crate::nearest;

/// All experiment files of `folder`, by name.
pub fn load(folder: &Path) -> Result<Vec<Experiment>, Error> {
    if !folder.is_dir() {
        let line = format!("{}: no such folder; name one with *.toml", folder.display());
        return Err(Error::input(line));
    }
    let mut experiments = Vec::new();
    let names = data::names(folder, ".toml")?;
    if names.is_empty() {
        let line = format!("{}: holds no experiment (*.toml)", folder.display());
        return Err(Error::input(line));
    }
    for name in names {
        if name == FITTED_FILE {
            continue;
        }
        let path = folder.join(format!("{name}.toml"));
        let read = Experiment::read(&data::read(&path)?, &name, &data::shown(&path));
        experiments.push(read.map_err(|e| Error::input(e.to_string()))?);
    }
    check_unique(&experiments).map_err(|e| Error::input(e.to_string()))?;
    Ok(experiments)
}

/// What was fitted, from the file in `folder`; nothing if there is no such file.
pub fn load_fitted(folder: &Path, experiments: &[Experiment]) -> Result<Fitted, Error> {
    let path = folder.join(format!("{FITTED_FILE}.toml"));
    if !path.is_file() {
        return Ok(Fitted::default());
    }
    let wrong = |e: FileError| Error::input(e.to_string());
    let fitted = read_fitted(&data::read(&path)?, &data::shown(&path)).map_err(wrong)?;
    check_names(experiments, &fitted.parameters).map_err(wrong)?;
    Ok(fitted)
}

/// The ids of the claims that `patterns` (ids, globs, sources, names of experiments; none: all) and `tier` select.
pub fn select(
    experiments: &[Experiment],
    patterns: &[String],
    tier: Option<Tier>,
) -> Result<BTreeSet<String>, Error> {
    let all: Vec<(&Experiment, &Claim)> = experiments
        .iter()
        .flat_map(|e| e.claims.iter().map(move |c| (e, c)))
        .collect();
    let mut selected = BTreeSet::new();
    for pattern in patterns {
        let hits: Vec<&str> = all
            .iter()
            .filter(|(e, c)| matches(pattern, e, c))
            .map(|(_, c)| c.id.as_str())
            .collect();
        if hits.is_empty() {
            return Err(unknown(pattern, &all));
        }
        selected.extend(hits.into_iter().map(str::to_owned));
    }
    if patterns.is_empty() {
        selected.extend(all.iter().map(|(_, c)| c.id.clone()));
    }
    if let Some(tier) = tier {
        let of_tier = |id: &String| all.iter().any(|(_, c)| c.id == *id && c.tier == tier);
        selected.retain(of_tier);
    }
    Ok(selected)
}

fn matches(pattern: &str, experiment: &Experiment, claim: &Claim) -> bool {
    pattern == claim.source()
        || pattern == claim.section()
        || pattern == experiment.id
        || glob(pattern.as_bytes(), claim.id.as_bytes())
}

/// `*` stands for any text, `?` for one character.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.first(), text.first()) {
        (None, None) => true,
        (Some(b'*'), _) => {
            glob(&pattern[1..], text) || (!text.is_empty() && glob(pattern, &text[1..]))
        }
        (Some(b'?'), Some(_)) => glob(&pattern[1..], &text[1..]),
        (Some(p), Some(t)) if p == t => glob(&pattern[1..], &text[1..]),
        _ => false,
    }
}

fn unknown(pattern: &str, all: &[(&Experiment, &Claim)]) -> Error {
    let roots = all.iter().flat_map(|(e, c)| [c.source(), e.id.as_str()]);
    let roots: BTreeSet<&str> = roots.collect();
    let sections = all.iter().map(|(_, c)| c.section());
    let groups: BTreeSet<&str> = roots.iter().copied().chain(sections).collect();
    let claims = all.iter().map(|(_, c)| c.id.as_str());
    let names: BTreeSet<&str> = claims.chain(groups.iter().copied()).collect();
    let ask = |known: BTreeSet<&str>| {
        let known: Vec<String> = known.into_iter().map(str::to_owned).collect();
        nearest::question(pattern, &known)
    };
    let hint = ask(names).or_else(|| ask(groups)).unwrap_or_else(|| {
        let roots: Vec<&str> = roots.into_iter().collect();
        format!("there are {} and their parts", roots.join(", "))
    });
    Error::Request(format!(
        "{pattern}: no claim, source or experiment of this name; {hint}"
    ))
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn globs() {
        for (pattern, text, expected) in [
            ("atc18.fig1.*", "atc18.fig1.fibo-alone-7s", true),
            ("atc18.fig1.*", "atc18.fig1a.fibo-half-speed", false),
            ("*.fig?.*", "atc18.fig2.x", true),
            ("*", "", true),
            ("a", "ab", false),
            ("a*b*c", "axxbyyc", true),
        ] {
            assert_eq!(
                glob(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }
}
