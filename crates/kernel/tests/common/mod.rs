// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles the BPF objects that the tests load.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Compiles `source` with the headers that every scheduler gets; the object. Err tells what is
/// missing or what clang has against it.
pub fn object(source: &Path) -> Result<PathBuf, String> {
    static HEADERS: OnceLock<Result<Vec<PathBuf>, String>> = OnceLock::new();
    let headers = HEADERS.get_or_init(headers).as_ref()?;
    let name = source
        .file_name()
        .ok_or("no file name")?
        .to_string_lossy()
        .replace(".c", ".o");
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut clang = Command::new("clang-19");
    clang
        .args([
            "--target=bpf",
            "-mcpu=v4",
            "-mlittle-endian",
            "-g",
            "-O2",
            "-c",
        ])
        .args([
            "-D__TARGET_ARCH_x86",
            "-D__SCX_TARGET_ARCH_x86",
            "-Wno-unknown-attributes",
        ])
        .args(
            headers
                .iter()
                .map(|folder| format!("-I{}", folder.display())),
        )
        .arg(source)
        .arg("-o")
        .arg(&object);
    output(&mut clang)?;
    Ok(object)
}

/// The folders with vmlinux.h, scx/*.h, bpf/*.h and tiltyard.bpf.h.
fn headers() -> Result<Vec<PathBuf>, String> {
    let (scx, libbpf) = (package("scx_cargo")?, package("libbpf-sys")?);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let archive = scx.join("vmlinux.tar.zst");
    output(
        Command::new("tar")
            .arg("--zstd")
            .arg("-C")
            .arg(folder)
            .arg("-xf")
            .arg(archive),
    )?;
    // The sources say <bpf/bpf_helpers.h>; the package has them in src/.
    let bpf = folder.join("bpf");
    if !bpf.exists() {
        std::os::unix::fs::symlink(libbpf.join("libbpf/src"), &bpf).map_err(|e| e.to_string())?;
    }
    let vmlinux = find(folder, "arch/x86").ok_or("no vmlinux.h for x86 in scx_cargo")?;
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schedulers/include");
    let bpf_h = scx.join("bpf_h");
    Ok(vec![
        vmlinux,
        bpf_h.clone(),
        bpf_h.join("bpf-compat"),
        folder.to_owned(),
        own,
    ])
}

/// `folder/end` or `folder/*/end`.
fn find(folder: &Path, end: &str) -> Option<PathBuf> {
    let below = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    std::iter::once(folder.to_owned())
        .chain(below)
        .map(|f| f.join(end))
        .find(|f| f.is_dir())
}

/// Where cargo keeps the source of a dependency.
fn package(name: &str) -> Result<PathBuf, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let text = output(Command::new(cargo).args(["metadata", "--format-version", "1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata lists no packages")?;
    let package = packages.iter().find(|package| package["name"] == name);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.ok_or_else(|| format!("{name} is no dependency"))?;
    Ok(Path::new(manifest)
        .parent()
        .expect("a file has a folder")
        .to_owned())
}

fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}
