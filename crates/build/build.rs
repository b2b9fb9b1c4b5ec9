// SPDX-License-Identifier: GPL-2.0-or-later
//! Lays out the headers that schedulers are compiled against, under OUT_DIR/headers:
//!
//! * `scx/`     scx/common.bpf.h and its company, from the crate scx_cargo
//! * `bpf/bpf/` bpf_helpers.h and its company, from the crate libbpf-sys
//! * `vmlinux/` vmlinux.h of scx_cargo with the enumerators of the reference kernel
//!
//! Both crates are dependencies in name only, so that Cargo.lock pins them; cargo says where they are.

use sha2::{Digest, Sha256};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

#[allow(dead_code)]
#[path = "src/reference.rs"]
mod reference;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.toml");
    println!(
        "cargo::rustc-env=TILTYARD_REWRITER={}",
        hash_sources("src")?
    );
    let arch = match env::var("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        other => {
            return Err(format!(
                "no BPF headers for hosts of type {other}; x86_64 and aarch64 have them"
            )
            .into());
        }
    };
    let headers = PathBuf::from(env::var("OUT_DIR")?).join("headers");
    let packages = package_dirs(&["scx_cargo", "libbpf-sys"])?;
    // "scx_cargo-1.1.4" in cargo's registry.
    let shipped = packages[0].file_name().unwrap_or_default();
    println!(
        "cargo::rustc-env=TILTYARD_SHIPPED_HEADERS={}",
        shipped.display()
    );
    let stamp = format!(
        "{packages:?} {} {}",
        fs::read_to_string("build.rs")?,
        fs::read_to_string("src/reference.rs")?
    );
    if fs::read_to_string(headers.join("stamp")).is_ok_and(|old| old == stamp) {
        return Ok(());
    }
    if headers.exists() {
        fs::remove_dir_all(&headers)?;
    }
    copy_headers(&packages[0].join("bpf_h"), &headers.join("scx"))?;
    copy_headers(&packages[1].join("libbpf/src"), &headers.join("bpf/bpf"))?;
    fs::create_dir_all(headers.join("vmlinux"))?;
    let vmlinux = unpack_vmlinux(&packages[0].join("vmlinux.tar.zst"), arch)?;
    fs::write(headers.join("vmlinux/vmlinux.h"), patch_vmlinux(&vmlinux))?;
    fs::write(headers.join("stamp"), stamp)?;
    Ok(())
}

/// Hash over the sources that decide what an object contains: part of every cache key, so that no object outlives
/// the rewriter that made it.
fn hash_sources(folder: &str) -> Result<String> {
    println!("cargo::rerun-if-changed={folder}");
    let mut hasher = Sha256::new();
    for file in files_below(Path::new(folder))? {
        hasher.update(fs::read(file)?);
    }
    Ok(hasher
        .finalize()
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// In a folder and the folders in it, in the same order everywhere.
fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut entries: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        match entry.is_dir() {
            true => files.extend(files_below(&entry)?),
            false => files.push(entry),
        }
    }
    Ok(files)
}

/// Where cargo keeps the sources of these packages.
fn package_dirs(names: &[&str]) -> Result<Vec<PathBuf>> {
    let output = Command::new(env::var("CARGO")?)
        .args(["metadata", "--format-version", "1"])
        .current_dir(env::var("CARGO_MANIFEST_DIR")?)
        .output()?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata lists no packages")?;
    let dir_of = |name: &&str| {
        packages
            .iter()
            .find(|p| p["name"] == **name)
            .and_then(|p| {
                Path::new(p["manifest_path"].as_str()?)
                    .parent()
                    .map(Path::to_owned)
            })
            .ok_or_else(|| format!("cargo metadata does not list {name}").into())
    };
    names.iter().map(dir_of).collect()
}

fn copy_headers(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_headers(&path, &target)?;
        } else if path.extension().is_some_and(|e| e == "h") {
            fs::write(target, fs::read(path)?)?;
        }
    }
    Ok(())
}

/// Text of `vmlinux/arch/<arch>/vmlinux-*.h` in the archive (`vmlinux.h` beside it is a link to it).
fn unpack_vmlinux(archive: &Path, arch: &str) -> Result<String> {
    let file = fs::File::open(archive)?;
    let plain = ruzstd::decoding::StreamingDecoder::new(io::BufReader::new(file))?;
    let mut tar = tar::Archive::new(plain);
    let folder = format!("arch/{arch}");
    for entry in tar.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let in_folder = path.parent().is_some_and(|p| p.ends_with(&folder));
        if in_folder && entry.header().entry_type().is_file() {
            let mut text = String::new();
            io::Read::read_to_string(&mut entry, &mut text)?;
            return Ok(text);
        }
    }
    Err(format!("no vmlinux.h for {arch} in {}", archive.display()).into())
}

/// Gives sched_ext's enumerators the reference kernel's values. Enumerators that it does not have stay, so that
/// sources that ask for them (bpf_core_enum_value_exists) still compile.
fn patch_vmlinux(text: &str) -> String {
    let mut patched = String::with_capacity(text.len());
    for line in text.lines() {
        patched.push_str(&patch_line(line).unwrap_or_else(|| line.to_owned()));
        patched.push('\n');
    }
    let removed = reference::REMOVED_SINCE
        .iter()
        .filter_map(|name| Some((name, reference::enumerator(name)?)));
    patched.push_str("#ifndef __TILTYARD_REMOVED_H__\n#define __TILTYARD_REMOVED_H__\n");
    for (name, value) in removed {
        patched.push_str(&format!("enum {{ {name} = {value}ULL }};\n"));
    }
    patched.push_str("#endif\n");
    patched
}

/// `\tSCX_ENQ_HEAD = 65536ULL,` with the reference kernel's number, `None` if the line is something else.
fn patch_line(line: &str) -> Option<String> {
    let (name, value) = line.trim().strip_suffix(',')?.split_once(" = ")?;
    let new = reference::enumerator(name)?;
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = &value[digits.len()..];
    // BTF has no unsigned enumerators of 32 bits where the kernel's compiler saw signed ones.
    let new = if digits.starts_with('-') {
        (new as i32).to_string()
    } else {
        new.to_string()
    };
    Some(format!("\t{name} = {new}{suffix},"))
}
