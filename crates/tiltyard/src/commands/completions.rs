// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard completions SHELL`: clap's script, plus the names of shipped files, from `tiltyard list` when needed.

use clap_complete::Shell;

use crate::failure::Failure;

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard completions bash > ~/.local/share/bash-completion/completions/tiltyard
  tiltyard completions zsh > \"${fpath[1]}/_tiltyard\"
  tiltyard completions fish > ~/.config/fish/completions/tiltyard.fish

bash, zsh and fish also complete the names of schedulers, workloads, machines, campaigns and claims.")]
pub struct Args {
    shell: Shell,
}

pub fn run(args: &Args, program: &mut clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, program, "tiltyard", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    super::print(&match args.shell {
        Shell::Bash => script + BASH,
        Shell::Zsh => zsh(&script),
        Shell::Fish => script + FISH,
        _ => script,
    })
}

/// Completes names for options and subcommands that accept them, otherwise calls clap's function. In a
/// comma-separated list the last name is completed; `compgen` puts the others before it.
const BASH: &str = r#"
_tiltyard_names() {
    tiltyard list "$1" --format csv 2>/dev/null | sed '1d;s/,.*//'
}

# Names of one kind in the campaign of this command line.
_tiltyard_campaign_names() {
    local campaign="${COMP_WORDS[2]}"
    [ "${COMP_WORDS[1]}" = league ] && campaign=league
    tiltyard show campaigns "$campaign" 2>/dev/null | sed -n "s/^  $1 \(.*\): .*/\1/p"
    tiltyard show campaigns "$campaign" 2>/dev/null | sed -n "s/^  $1s: //p" | tr -d ,
}

_tiltyard_or_names() {
    local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" kind=
    case "$before" in
        -s|--scheduler) kind=schedulers ;;
        -w|--workload) kind=workloads ;;
        -m|--machine) kind=machines ;;
        --with) kind=schedulers ;;
    esac
    local names=_tiltyard_names
    case "${COMP_WORDS[1]}:$before" in
        *:--with) ;;
        campaign:-*|league:-*) names=_tiltyard_campaign_names kind="${kind%s}" ;;
    esac
    case "${COMP_WORDS[1]}" in
        show) [ "$COMP_CWORD" -ge 3 ] && kind="${COMP_WORDS[2]}" ;;
        build) [ "$COMP_CWORD" -ge 2 ] && kind=schedulers ;;
        campaign) [ "$COMP_CWORD" -eq 2 ] && kind=campaigns ;;
        reproduce) [ "${before#-}" = "$before" ] && kind=claims ;;
    esac
    if [ -z "$kind" ] || [ "${current#-}" != "$current" ]; then
        _tiltyard "$@"
        return
    fi
    local last="${current##*,}" files=
    case "$kind" in
        schedulers) files='*.bpf.c' ;;
        workloads) files='*.json' ;;
        machines) files='*.@(toml|xml)' ;;
        campaigns) files='*.toml' ;;
    esac
    COMPREPLY=($(compgen -P "${current%"$last"}" -W "$("$names" "$kind")" -- "$last"))
    [ -z "$files" ] || COMPREPLY+=($(shopt -s extglob; compgen -f -X "!$files" -- "$current"; compgen -d -S / -- "$current"))
}

complete -F _tiltyard_or_names -o bashdefault -o default tiltyard
"#;

/// clap completes files for these values.
fn zsh(script: &str) -> String {
    let mut script = script.to_owned();
    for (value, kind) in [
        ("S", "schedulers"),
        ("W", "workloads"),
        ("MACHINE", "machines"),
    ] {
        let named = format!(":{value}:_tiltyard_names_{kind}");
        script = script.replace(&format!(":{value}:_default"), &named);
    }
    for (help, kind) in [
        ("(tiltyard list campaigns)", "campaigns"),
        ("or experiments; none\\: all", "claims"),
    ] {
        let named = format!("{help}:_tiltyard_names_{kind}");
        script = script.replace(&format!("{help}:_default"), &named);
    }
    match script.split_once('\n') {
        Some((head, rest)) => format!("{head}\n{ZSH}{rest}"),
        None => script,
    }
}

const ZSH: &str = r#"
_tiltyard_names() {
    local -a names
    names=(${(f)"$(tiltyard list $1 --format csv 2>/dev/null | sed '1d;s/,.*//')"})
    _sequence compadd -a names || _files
}
_tiltyard_names_schedulers() { _tiltyard_names schedulers }
_tiltyard_names_workloads() { _tiltyard_names workloads }
_tiltyard_names_machines() { _tiltyard_names machines }
_tiltyard_names_campaigns() { _tiltyard_names campaigns }
_tiltyard_names_claims() { _tiltyard_names claims }
"#;

const FISH: &str = r#"
function __tiltyard_names
    tiltyard list $argv[1] --format csv 2>/dev/null | sed '1d;s/,.*//'
end
# Kinds, and then the names of that kind.
function __tiltyard_shown
    set -l words (commandline -opc)
    switch (count $words)
        case 2
            printf '%s\n' schedulers workloads machines claims campaigns
        case '*'
            __tiltyard_names $words[3]
    end
end
# A campaign has names of its own.
set -l elsewhere "not __fish_seen_subcommand_from campaign league"
complete -c tiltyard -n "$elsewhere" -s s -l scheduler -x -a "(__fish_complete_list , '__tiltyard_names schedulers')"
complete -c tiltyard -n "$elsewhere" -s w -l workload -r -a "(__tiltyard_names workloads)"
complete -c tiltyard -n "$elsewhere" -s m -l machine -r -a "(__tiltyard_names machines)"
complete -c tiltyard -l with -r -a "(__fish_complete_list , '__tiltyard_names schedulers')"
complete -c tiltyard -n "__fish_seen_subcommand_from campaign" -a "(__tiltyard_names campaigns)"
complete -c tiltyard -n "__fish_seen_subcommand_from build" -a "(__tiltyard_names schedulers)"
complete -c tiltyard -n "__fish_seen_subcommand_from show" -a "(__tiltyard_shown)"
complete -c tiltyard -n "__fish_seen_subcommand_from reproduce" -a "(__tiltyard_names claims)"
"#;
