// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs the compiler: BPF front end to IR, BPF front end to an object, IR to a shared object for the host.

use crate::headers::HeaderSet;
use crate::{BuildError, Source, reference};
use std::ffi::OsString;
use std::path::{Path, PathBuf, absolute};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// The one version whose IR the rewriter reads.
pub const CLANG: &str = "clang-19";

#[cfg(target_arch = "x86_64")]
const ARCH_DEFINES: [&str; 2] = ["-D__TARGET_ARCH_x86", "-D__SCX_TARGET_ARCH_x86"];
#[cfg(target_arch = "aarch64")]
const ARCH_DEFINES: [&str; 2] = ["-D__TARGET_ARCH_arm64", "-D__SCX_TARGET_ARCH_arm64"];

/// The host's own part of /usr/include, which a BPF compiler does not search by itself.
#[cfg(target_arch = "x86_64")]
const SYSTEM_HEADERS: &str = "/usr/include/x86_64-linux-gnu";
#[cfg(target_arch = "aarch64")]
const SYSTEM_HEADERS: &str = "/usr/include/aarch64-linux-gnu";

/// Front-end arguments that do not depend on the source.
const FRONT_END: &[&str] = &[
    "--target=bpf",
    "-mcpu=v4",
    "-mlittle-endian",
    "-g",
    "-O2",
    "-fno-color-diagnostics",
    "-Wno-unknown-attributes",
    "-Wno-macro-redefined",
    // Those of tools/testing/selftests/sched_ext/Makefile: the kernel's own sources compile with them only.
    "-Wall",
    "-Wno-compare-distinct-pointer-types",
    "-Wno-incompatible-function-pointer-types",
];

/// The arguments that mean the same on every machine: no paths.
pub fn portable_args(source: &Source) -> Vec<String> {
    let fixed = FRONT_END
        .iter()
        .chain(&ARCH_DEFINES)
        .map(|a| (*a).to_owned());
    fixed
        .chain(source.defines.iter().map(|d| format!("-D{d}")))
        .collect()
}

/// Path of a source, for the compiler.
pub fn full_path(source: &Source) -> PathBuf {
    let path = &source.path;
    path.canonicalize().unwrap_or_else(|_| path.clone())
}

/// Folders that are searched for a source's headers, in order.
pub fn include_dirs(source: &Source) -> Result<Vec<PathBuf>, BuildError> {
    let mut all = source.headers.include_dirs()?;
    all.extend(source.include_dirs.iter().cloned());
    all.iter()
        .map(|dir| absolute(dir).map_err(BuildError::io(dir)))
        .collect()
}

/// All front-end arguments for a source, except for output and dependency file.
pub fn front_end_args(source: &Source) -> Result<Vec<OsString>, BuildError> {
    let mut args: Vec<OsString> = portable_args(source)
        .into_iter()
        .map(OsString::from)
        .collect();
    // In full, so that a build is the same, and is known again, from whatever folder it is asked for.
    let path = full_path(source);
    let include_dirs = include_dirs(source)?;
    for dir in path
        .parent()
        .iter()
        .copied()
        .chain(include_dirs.iter().map(PathBuf::as_path))
    {
        // __FILE__, which scx_bpf_error prints, without the folder: objects are the same wherever they are built.
        args.push(format!("-fmacro-prefix-map={}/=", dir.display()).into());
    }
    for dir in &include_dirs {
        args.extend(["-I".into(), dir.into()]);
    }
    // Last, after bpf-compat's stand-ins for the C library's headers.
    args.extend(["-idirafter".into(), SYSTEM_HEADERS.into()]);
    args.push(path.into());
    Ok(args)
}

fn run(args: &[OsString]) -> Result<Output, BuildError> {
    // Its temporary files go where this process's do: if a user interrupts, they go with them.
    Command::new(CLANG)
        .env("TMPDIR", tempfile::env::temp_dir())
        .args(args)
        .output()
        .map_err(|reason| BuildError::NoClang {
            clang: CLANG.to_owned(),
            reason,
        })
}

/// All front-end arguments for a header that is precompiled with a macro defined.
pub fn header_args(header: &Path, macro_name: &str) -> Vec<OsString> {
    let fixed = FRONT_END.iter().chain(&ARCH_DEFINES).map(OsString::from);
    let define = format!("-D{macro_name}");
    let own = [define.into(), "-x".into(), "c-header".into(), header.into()];
    fixed.chain(own).collect()
}

/// Makes a precompiled header; returns whether it could be made.
pub fn precompile(mut args: Vec<OsString>, output: &Path) -> bool {
    args.extend(["-o".into(), output.into()]);
    run(&args).is_ok_and(|result| result.status.success())
}

/// Compiles with the BPF front end; `extra` selects the kind of output. Dependencies go to `depfile` in make's format.
/// Returns the compiler's warnings, one line each. What fails with a precompiled header is tried without it, which also gives
/// the error.
pub fn front_end(
    source: &Source,
    extra: &[&str],
    precompiled: Option<&Path>,
    output: &Path,
    depfile: &Path,
) -> Result<Vec<String>, BuildError> {
    let mut args = front_end_args(source)?;
    args.extend(extra.iter().map(OsString::from));
    args.extend([
        "-MD".into(),
        "-MF".into(),
        depfile.into(),
        "-o".into(),
        output.into(),
    ]);
    if let Some(header) = precompiled {
        let with: Vec<OsString> = ["-include-pch".into(), header.into()]
            .into_iter()
            .chain(args.iter().cloned())
            .collect();
        let result = run(&with)?;
        if result.status.success() {
            return Ok(warnings(&result));
        }
    }
    let mut result = run(&args)?;
    if !result.status.success() && has_other_prototypes(source, &message(&result)) {
        args.push("-DBPF_NO_KFUNC_PROTOTYPES".into());
        let again = run(&args)?;
        if again.status.success() {
            result = again; // else the first message is the one about the source as it is
        }
    }
    if result.status.success() {
        // It was at fault, not the source; the next build makes another one.
        let _ = precompiled.map(std::fs::remove_file);
        return Ok(warnings(&result));
    }
    let mut message = message(&result);
    if renamed(&message).next().is_some() {
        // Clang would suggest another name, which is not the function's.
        args.push("-fno-spell-checking".into());
        message = self::message(&run(&args)?);
    }
    Err(BuildError::Compile {
        source_path: source.path.clone(),
        advice: advice(source, &message),
        message,
    })
}

fn warnings(result: &Output) -> Vec<String> {
    let said = message(result);
    let warnings = said.lines().filter(|line| line.contains(": warning: "));
    warnings.map(str::to_owned).collect()
}

/// Old names of kernel functions that a message is about, and their names today.
fn renamed(message: &str) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let all = reference::RENAMED.iter();
    all.filter(move |(old, _)| message.contains(&format!("'{old}'")))
}

/// Headers from before 2025 declare kernel functions in other words than today's vmlinux.h, which then leaves them out.
fn has_other_prototypes(source: &Source, message: &str) -> bool {
    source.headers != HeaderSet::Shipped && message.contains("conflicting types for '")
}

/// Phrases in clang's messages about declarations that are missing or do not match: headers may be the cause.
const ABOUT_HEADERS: [&str; 8] = [
    "file not found",
    "undeclared",
    "unknown type name",
    "no member named",
    "incomplete",
    "to function call",
    "redefinition",
    "conflicting types",
];

const TOO_FEW_FOR_MACRO: &str = "too few arguments provided to function-like macro";

const NO_SUCH_OP: &str = "does not refer to any field in type 'struct sched_ext_ops'";

/// The advice on headers, by what the source includes.
fn about_headers(source: &Source) -> String {
    const BEGIN: &str =
        "begin with #include <scx/common.bpf.h>, which declares the kernel's types and functions";
    let text = std::fs::read_to_string(&source.path).unwrap_or_default();
    let includes = || {
        let directives = text
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix('#'));
        directives.filter(|line| line.trim_start().starts_with("include"))
    };
    if includes().next().is_none() {
        return format!("the source includes no header: {BEGIN}");
    }
    match includes().all(|line| line.contains("tiltyard")) {
        true => format!("the source does not include the kernel's declarations: {BEGIN}"),
        false => source.headers.about(),
    }
}

/// Hints for a compiler's message: new names of kernel functions and, if headers may be the cause, which ones were used.
/// Each hint begins with a line break.
fn advice(source: &Source, message: &str) -> String {
    let mut advice: Vec<String> = renamed(message)
        .map(|(old, new)| format!("{old} is called {new} since Linux 6.13"))
        .collect();
    if message.contains(TOO_FEW_FOR_MACRO) && message.contains("scx_bpf_dsq_move_to_local(") {
        advice.push(
            "scx_bpf_dsq_move_to_local() has a second argument in today's headers, enq_flags: pass 0"
                .to_owned(),
        );
    }
    if message.contains(NO_SUCH_OP) {
        advice.push(
            "callbacks are members of struct sched_ext_ops: .select_cpu, .enqueue, .dispatch, .running, .stopping and others"
                .to_owned(),
        );
    }
    if ABOUT_HEADERS.iter().any(|words| message.contains(words)) {
        advice.push(about_headers(source));
    }
    advice.iter().map(|line| format!("\n{line}")).collect()
}

/// Lowers rewritten IR and links it with the runtime.
pub fn lower(
    source: &Source,
    ir: &Path,
    runtime: &[PathBuf],
    level: &str,
    output: &Path,
) -> Result<(), BuildError> {
    let fixed = [
        "-fPIC",
        "-shared",
        "-nostdlib",
        "-ffreestanding",
        "-fvisibility=hidden",
        "-Wno-override-module",
        "-Wl,-Bsymbolic",
        "-Wl,-z,noexecstack",
        // The runtime's variables lie in .data.rel.ro, which stays writable: before those of the scheduler.
        "-Wl,-z,norelro",
        "-Wl,--build-id=none",
    ];
    let mut args: Vec<OsString> = vec![level.into()];
    args.extend(fixed.iter().map(OsString::from));
    // A call keeps only the registers that the callee uses, if the compiler knows all of its callers (rewrite/inner.rs).
    // Tested on this architecture only.
    if cfg!(target_arch = "x86_64") {
        args.extend(["-mllvm", "-enable-ipra"].map(OsString::from));
    }
    args.extend(["-x".into(), "ir".into(), ir.into()]);
    args.extend(["-x".into(), "c".into()]);
    args.extend(runtime.iter().map(OsString::from));
    args.extend(["-o".into(), output.into()]);
    let result = run(&args)?;
    if result.status.success() {
        return Ok(());
    }
    Err(BuildError::Lower {
        source_path: source.path.clone(),
        message: message(&result),
    })
}

/// Full version of the compiler, as it calls itself. Starting it takes a tenth of a second, so it is asked once.
pub fn version() -> Result<String, BuildError> {
    static KNOWN: Mutex<Option<(String, String)>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let compiler = identity();
    if let Some((of, version)) = &*known
        && *of == compiler
    {
        return Ok(version.clone());
    }
    let result = run(&["--version".into()])?;
    let text = String::from_utf8_lossy(&result.stdout);
    let version = text.lines().next().unwrap_or("").to_owned();
    if result.status.success() {
        *known = Some((compiler, version.clone()));
    }
    Ok(version)
}

/// Which file the compiler is, its size and time of change, and what it searches by the environment: identifies an
/// installation without running it.
pub fn identity() -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join(CLANG))
        .find_map(|file| Some((file.metadata().ok()?, file)));
    let searched = ["CPATH", "C_INCLUDE_PATH"].map(std::env::var_os);
    found.map_or_else(String::new, |(metadata, file)| {
        format!(
            "{} {} {:?} {searched:?}",
            file.display(),
            metadata.len(),
            metadata.modified().ok()
        )
    })
}

fn message(result: &Output) -> String {
    String::from_utf8_lossy(&result.stderr)
        .trim_end()
        .to_owned()
}
