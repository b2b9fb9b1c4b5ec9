// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds the Debian archive that this machine uses among its package sources, in both formats
//! of sources.list(5): deb822 stanzas (`.sources`) and one line each (`.list`).

use std::path::{Path, PathBuf};

/// One package source that gives binary packages and is not switched off.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source {
    pub uris: Vec<String>,
    pub suites: Vec<String>,
    pub components: Vec<String>,
    pub signed_by: Option<String>,
}

/// The archive to take kernel packages from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebianArchive {
    pub uri: String,
    /// File with the keys that its releases are signed with.
    pub keyring: PathBuf,
}

/// Installed by the package debian-archive-keyring.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// All sources of this machine; unreadable files count as empty, as no one else's set-up is
/// ours to judge.
pub fn of_this_machine() -> Vec<Source> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(folder) = std::fs::read_dir("/etc/apt/sources.list.d") {
        let mut entries: Vec<_> = folder.flatten().map(|entry| entry.path()).collect();
        entries.sort();
        files.extend(entries);
    }
    files
        .iter()
        .filter_map(|path| {
            let text = std::fs::read_to_string(path).ok()?;
            match path.extension()?.to_str()? {
                "sources" => Some(parse_deb822(&text)),
                "list" => Some(parse_one_line(&text)),
                _ => None,
            }
        })
        .flatten()
        .collect()
}

/// The first source that is Debian's main archive: component main, not the security suites,
/// and either signed with Debian's own keys or served from a folder named debian. Whether it
/// truly is, the signature decides later.
pub fn debian_archive(sources: &[Source]) -> Option<DebianArchive> {
    sources.iter().find_map(|source| {
        let is_main = source
            .components
            .iter()
            .any(|component| component == "main");
        let is_security = source
            .suites
            .iter()
            .any(|suite| suite.contains("-security"));
        if !is_main || is_security {
            return None;
        }
        let signed_by = source
            .signed_by
            .as_deref()
            .filter(|path| path.starts_with('/'));
        let keys_are_debians = signed_by.is_some_and(|path| path.contains("debian-archive"));
        let uri = source
            .uris
            .iter()
            .find(|uri| keys_are_debians || is_debian_folder(uri))?;
        let keyring = PathBuf::from(signed_by.unwrap_or(KEYRING));
        Some(DebianArchive {
            uri: uri.clone(),
            keyring,
        })
    })
}

fn is_debian_folder(uri: &str) -> bool {
    let last = uri
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    Path::new(last)
        .file_stem()
        .is_some_and(|name| name == "debian")
}

/// Reads deb822 stanzas: fields `Name: words`, continued by indented lines, `#` comments,
/// stanzas parted by empty lines.
pub fn parse_deb822(text: &str) -> Vec<Source> {
    let text: String = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    text.split("\n\n").filter_map(parse_stanza).collect()
}

fn parse_stanza(stanza: &str) -> Option<Source> {
    let mut source = Source::default();
    let (mut is_binary, mut field) = (false, String::new());
    for line in stanza.lines() {
        let words = if line.starts_with([' ', '\t']) {
            line
        } else if let Some((name, words)) = line.split_once(':') {
            field = name.trim().to_ascii_lowercase();
            words
        } else {
            continue;
        };
        let words = words.split_whitespace().map(str::to_owned);
        match field.as_str() {
            "types" => is_binary |= words.into_iter().any(|kind| kind == "deb"),
            "uris" => source.uris.extend(words),
            "suites" => source.suites.extend(words),
            "components" => source.components.extend(words),
            "signed-by" => source.signed_by = source.signed_by.or(words.into_iter().next()),
            "enabled" if words.into_iter().any(|word| word == "no") => return None,
            _ => {}
        }
    }
    (is_binary && !source.uris.is_empty()).then_some(source)
}

/// Reads lines `deb [option=value ...] URI SUITE COMPONENT...`, `#` comments.
pub fn parse_one_line(text: &str) -> Vec<Source> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Source> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let rest = line
        .strip_prefix("deb")?
        .strip_prefix([' ', '\t'])?
        .trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    let signed_by = options
        .split_whitespace()
        .find_map(|option| option.strip_prefix("signed-by="));
    Some(Source {
        uris: vec![words.next()?],
        suites: vec![words.next()?],
        components: words.collect(),
        signed_by: signed_by.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "\
Types: deb
# comment inside
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb deb-src
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components:
 main
 contrib

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: sid
Components: main

Types: deb-src
URIs: http://source.example/debian
Suites: sid
Components: main
";

    #[test]
    fn deb822_stanzas() {
        let sources = parse_deb822(DEB822);
        assert_eq!(
            sources.len(),
            2,
            "switched off and source-only stanzas do not count"
        );
        assert_eq!(sources[0].suites, ["bookworm", "bookworm-updates"]);
        assert_eq!(sources[1].components, ["main", "contrib"]);
        let archive = debian_archive(&sources).unwrap();
        assert_eq!(archive.uri, "http://mirror.example/debian");
        assert_eq!(archive.keyring, Path::new(KEYRING));
    }

    #[test]
    fn security_is_not_the_archive() {
        let sources = parse_deb822(DEB822);
        assert_eq!(debian_archive(&sources[1..]), None);
    }

    #[test]
    fn one_line_sources() {
        let sources = parse_one_line(
            "# deb http://off.example/debian sid main\n\
             deb-src http://source.example/debian sid main\n\
             deb [arch=amd64 signed-by=/etc/apt/keyrings/vpn.gpg] https://vpn.example/apt sid main\n\
             deb http://mirror.example/debian/ trixie main contrib # the one\n",
        );
        assert_eq!(sources.len(), 2);
        assert_eq!(
            sources[0].signed_by.as_deref(),
            Some("/etc/apt/keyrings/vpn.gpg")
        );
        assert_eq!(sources[1].components, ["main", "contrib"]);
        let archive = debian_archive(&sources).unwrap();
        assert_eq!(
            archive.uri, "http://mirror.example/debian/",
            "not the other vendor's"
        );
    }

    #[test]
    fn mirror_lists_count_and_inline_keys_fall_back() {
        let sources = parse_deb822(
            "Types: deb\nURIs: mirror+file:/etc/apt/mirrors/debian.list\nSuites: trixie\n\
             Components: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n",
        );
        let archive = debian_archive(&sources).unwrap();
        assert_eq!(archive.uri, "mirror+file:/etc/apt/mirrors/debian.list");
        assert_eq!(archive.keyring, Path::new(KEYRING));
    }

    #[test]
    fn without_debian_there_is_no_archive() {
        let sources = parse_one_line("deb http://archive.example/ubuntu plucky main universe\n");
        assert_eq!(debian_archive(&sources), None);
        assert_eq!(debian_archive(&[]), None);
    }
}
