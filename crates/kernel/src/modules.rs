// SPDX-License-Identifier: GPL-2.0-or-later
//! The drivers that a guest needs before it can reach the host, where its kernel does not have
//! them built in.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::error::KernelError;
use crate::packages::KernelImage;

/// Where they lie in the guest, named so that their order is that of loading.
pub const FOLDER: &str = "/tiltyard/modules";

/// Option of the kernel's configuration and module, each after those that it uses.
const DRIVERS: [(&str, &str); 9] = [
    ("VIRTIO", "drivers/virtio/virtio_ring"),
    ("VIRTIO", "drivers/virtio/virtio"),
    ("VIRTIO_PCI_LIB", "drivers/virtio/virtio_pci_modern_dev"),
    (
        "VIRTIO_PCI_LIB_LEGACY",
        "drivers/virtio/virtio_pci_legacy_dev",
    ),
    ("VIRTIO_PCI", "drivers/virtio/virtio_pci"),
    ("VIRTIO_CONSOLE", "drivers/char/virtio_console"),
    ("FUSE_FS", "fs/fuse/fuse"),
    ("VIRTIO_FS", "fs/fuse/virtiofs"),
    ("OVERLAY_FS", "fs/overlayfs/overlay"),
];

/// MODULE_INIT_COMPRESSED_FILE of include/uapi/linux/module.h.
const COMPRESSED: libc::c_int = 4;

/// The module files that the guest has to load, in this order.
pub fn needed(kernel: &KernelImage) -> Result<Vec<PathBuf>, KernelError> {
    let config =
        std::fs::read_to_string(&kernel.config).map_err(KernelError::io(&kernel.config, "read"))?;
    let is = |option: &str, value: &str| {
        let line = format!("CONFIG_{option}={value}");
        config.lines().any(|other| other == line)
    };
    let mut files = Vec::new();
    for (option, module) in DRIVERS {
        if is(option, "y") {
            continue;
        }
        let file = is(option, "m").then(|| find(kernel, module)).flatten();
        let is_loadable = |file: &PathBuf| !is_compressed(file) || is("MODULE_DECOMPRESS", "y");
        files.push(
            file.filter(is_loadable)
                .ok_or_else(|| KernelError::NoDriver {
                    release: kernel.release.clone(),
                    option,
                    module,
                })?,
        );
    }
    Ok(files)
}

/// The module's file, wherever this package has its modules and however it packs them.
fn find(kernel: &KernelImage, module: &str) -> Option<PathBuf> {
    let tree = kernel.image.parent()?.parent()?;
    ["usr/lib", "lib"]
        .iter()
        .flat_map(|folder| ["ko", "ko.xz", "ko.zst", "ko.gz"].map(|suffix| (folder, suffix)))
        .map(|(folder, suffix)| {
            let release = &kernel.release;
            tree.join(format!(
                "{folder}/modules/{release}/kernel/{module}.{suffix}"
            ))
        })
        .find(|path| path.is_file())
}

fn is_compressed(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension != "ko")
}

/// Loads, in the guest, what was packed.
pub fn load_all() -> io::Result<()> {
    let mut files = match std::fs::read_dir(FOLDER) {
        Ok(files) => files
            .map(|file| Ok(file?.path()))
            .collect::<io::Result<Vec<_>>>()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    files.sort();
    for file in files {
        load(&file).map_err(|error| {
            io::Error::other(format!("cannot load {}: {error}", file.display()))
        })?;
    }
    Ok(())
}

fn load(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let flags = if is_compressed(path) { COMPRESSED } else { 0 };
    let parameters = CString::default();
    // SAFETY: the descriptor is open and the string outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_finit_module,
            file.as_raw_fd(),
            parameters.as_ptr(),
            flags,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT_IN: &str = "CONFIG_VIRTIO=y\nCONFIG_VIRTIO_PCI_LIB=y\nCONFIG_VIRTIO_PCI_LIB_LEGACY=y\n\
        CONFIG_VIRTIO_PCI=y\nCONFIG_VIRTIO_CONSOLE=y\nCONFIG_FUSE_FS=y\n";

    /// A kernel with this configuration and these modules.
    fn kernel(tree: &Path, config: &str, modules: &[&str]) -> KernelImage {
        for module in modules {
            let path = tree.join("usr/lib/modules/6.18.0/kernel").join(module);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let boot = tree.join("boot");
        std::fs::create_dir_all(&boot).unwrap();
        std::fs::write(boot.join("config"), config).unwrap();
        KernelImage {
            release: "6.18.0".to_owned(),
            image: boot.join("vmlinuz"),
            config: boot.join("config"),
        }
    }

    #[test]
    fn only_what_is_not_built_in_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "{BUILT_IN}CONFIG_VIRTIO_FS=m\nCONFIG_OVERLAY_FS=m\nCONFIG_MODULE_DECOMPRESS=y\n"
        );
        let modules = ["fs/overlayfs/overlay.ko.xz", "fs/fuse/virtiofs.ko"];
        let files = needed(&kernel(folder.path(), &config, &modules)).unwrap();
        let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap()).collect();
        assert_eq!(names, ["virtiofs.ko", "overlay.ko.xz"]);
    }

    #[test]
    fn a_driver_that_the_package_lacks_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let with = |rest: &str| {
            let config = format!("{BUILT_IN}{rest}");
            let modules = ["fs/overlayfs/overlay.ko.xz"];
            let kernel = kernel(folder.path(), &config, &modules);
            needed(&kernel).unwrap_err().to_string()
        };
        let error = with("CONFIG_OVERLAY_FS=m\n# CONFIG_VIRTIO_FS is not set\n");
        assert!(error.contains("CONFIG_VIRTIO_FS"), "{error}");
        let error = with("CONFIG_VIRTIO_FS=y\nCONFIG_OVERLAY_FS=m\n");
        assert!(error.contains("overlay"), "it cannot be unpacked: {error}");
    }
}
