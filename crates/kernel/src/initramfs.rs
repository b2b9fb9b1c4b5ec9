// SPDX-License-Identifier: GPL-2.0-or-later
//! Packs what the guest needs before it sees the host's files: Tiltyard itself as init with its
//! libraries, drivers, the BPF objects, the kernel's configuration and the job. Held in memory,
//! never on disk.

use std::path::Path;

use crate::cpio::Archive;
use crate::elf::{self, Program};
use crate::error::KernelError;
use crate::hardware::Accel;
use crate::modules;
use crate::packages::KernelImage;
use crate::protocol::{INIT_PATH, JOB_PATH, PlacedJob, PlacedRun};
use crate::vm_job::VmJob;

const TRACER_PATH: &str = "/tiltyard/tracer.bpf.o";

/// The archive for `job` on `kernel`, as QEMU's `-initrd` takes it.
pub fn build(job: &VmJob, kernel: &KernelImage) -> Result<Vec<u8>, KernelError> {
    let mut archive = Archive::new();
    // Init's first output goes here, before /dev is mounted.
    archive.char_device("/dev/console", 0o600, 5, 1);
    add_program(&mut archive, &job.init, INIT_PATH)?;
    for (index, module) in modules::needed(kernel)?.iter().enumerate() {
        let name = module.file_name().and_then(|name| name.to_str());
        let name = name.expect("the name of a module is one of ours");
        let inside = format!("{}/{index}-{name}", modules::FOLDER);
        add_file(&mut archive, module, &inside)?;
    }
    // libbpf takes the value of kernel configuration externs (__kconfig) from this file.
    add_file(
        &mut archive,
        &kernel.config,
        &format!("/boot/config-{}", kernel.release),
    )?;
    let placed_job = placed_job(job, &mut archive)?;
    let json = serde_json::to_vec(&placed_job).expect("strings and numbers always serialise");
    archive.file(JOB_PATH, 0o644, &json);
    Ok(archive.finish())
}

/// The job with the guest's paths; adds what they name.
fn placed_job(job: &VmJob, archive: &mut Archive) -> Result<PlacedJob, KernelError> {
    let (name, arguments) = job.command.split_first().expect("a job is checked first");
    let program = elf::find_command(name)?;
    let packed = job.accel == Some(Accel::Counted);
    if packed {
        add_program(archive, &program, utf8(&program)?)?;
        // Such a guest sees nothing of the host: files that its arguments name are packed too.
        let own = job.schedulers.iter().flat_map(|s| &s.arguments);
        for path in arguments.iter().chain(own).map(Path::new) {
            if path.is_absolute() && path.is_file() {
                add_file(archive, path, utf8(path)?)?;
            }
        }
    }
    let mut command = vec![utf8(&program)?.to_owned()];
    command.extend_from_slice(arguments);
    let mut schedulers = Vec::new();
    for (index, scheduler) in job.schedulers.iter().enumerate() {
        let object = match &scheduler.object {
            None => None,
            Some(path) => {
                let inside = object_path(index, &scheduler.name);
                add_file(archive, path, &inside)?;
                Some(inside)
            }
        };
        schedulers.push(PlacedRun {
            scheduler: scheduler.name.clone(),
            object,
            tunables: scheduler.tunables.clone(),
            environment: scheduler.environment.clone(),
            deviations: scheduler.deviations.clone(),
            arguments: scheduler.arguments.clone(),
        });
    }
    let tracer = match &job.tracer {
        None => None,
        Some(path) => {
            add_file(archive, path, TRACER_PATH)?;
            Some(TRACER_PATH.to_owned())
        }
    };
    // A packed guest has no folder of the host's.
    let folder = match packed {
        true => Path::new("/").to_owned(),
        false => std::env::current_dir().map_err(KernelError::io(".", "find"))?,
    };
    Ok(PlacedJob {
        command,
        folder: utf8(&folder)?.to_owned(),
        variables: job.variables.clone(),
        packed,
        schedulers,
        rounds: job.rounds,
        tracer,
        probes: job.probes,
        run_limit_s: job.run_limit_s,
        limits: job.limits,
        watch_ms: job.watch_ms,
    })
}

/// libbpf names maps after the object's file, so that carries the scheduler's name, not the
/// one that a build cache gave it.
fn object_path(index: usize, scheduler: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = scheduler.chars().map(plain).collect();
    format!("/tiltyard/{index}/{name}.bpf.o")
}

/// Adds the program at `inside` and, at their own paths, its libraries.
fn add_program(archive: &mut Archive, path: &Path, inside: &str) -> Result<(), KernelError> {
    let program = Program::read(path)?;
    archive.file(inside, 0o755, program.loadable());
    for library in program.libraries()? {
        archive.file(utf8(&library)?, 0o755, Program::read(&library)?.loadable());
    }
    // The loader's own index, so that it finds libraries outside the default folders.
    let cache = Path::new("/etc/ld.so.cache");
    if cache.exists() {
        add_file(archive, cache, "/etc/ld.so.cache")?;
    }
    Ok(())
}

fn add_file(archive: &mut Archive, path: &Path, inside: &str) -> Result<(), KernelError> {
    let bytes = std::fs::read(path).map_err(KernelError::io(path, "read"))?;
    archive.file(inside, 0o644, &bytes);
    Ok(())
}

fn utf8(path: &Path) -> Result<&str, KernelError> {
    path.to_str().ok_or_else(|| {
        KernelError::Job(format!(
            "{}: a path in the guest must be UTF-8",
            path.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm_job::SchedulerJob;

    #[test]
    fn an_object_is_named_after_its_scheduler() {
        assert_eq!(object_path(0, "mine"), "/tiltyard/0/mine.bpf.o");
        assert_eq!(object_path(3, "./my.bpf.c"), "/tiltyard/3/__my_bpf_c.bpf.o");
    }

    fn job(command: &[&str], object: &Path) -> VmJob {
        let mut job = VmJob::new(command.iter().map(|word| (*word).to_owned()).collect());
        job.schedulers = vec![SchedulerJob {
            object: Some(object.to_owned()),
            ..SchedulerJob::own("fifo")
        }];
        job
    }

    #[test]
    fn holds_init_its_libraries_drivers_the_object_and_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let (object, config) = (
            folder.path().join("fifo.bpf.o"),
            folder.path().join("boot/config"),
        );
        let overlay = "lib/modules/6.18.0/kernel/fs/overlayfs/overlay.ko";
        let overlay = folder.path().join(overlay);
        for path in [&config, &overlay] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        std::fs::write(&object, "object").unwrap();
        std::fs::write(&overlay, "module").unwrap();
        let built_in = "CONFIG_VIRTIO=y\nCONFIG_VIRTIO_PCI=y\nCONFIG_VIRTIO_PCI_LIB=y\n\
            CONFIG_VIRTIO_PCI_LIB_LEGACY=y\nCONFIG_VIRTIO_CONSOLE=y\nCONFIG_FUSE_FS=y\n\
            CONFIG_VIRTIO_FS=y\nCONFIG_OVERLAY_FS=m\n";
        std::fs::write(&config, built_in).unwrap();
        let image = folder.path().join("boot/vmlinuz");
        let kernel = KernelImage {
            release: "6.18.0".to_owned(),
            image,
            config,
        };
        // Its name is made here: init, which is packed, is this very test, and contains every word that occurs in it.
        let command = folder.path().join("command");
        std::fs::write(&command, "").unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&command, executable).unwrap();
        let command = command.to_str().unwrap();
        let bytes = build(&job(&[command, "x"], &object), &kernel).unwrap();
        let has = |text: &str| {
            bytes
                .windows(text.len())
                .any(|window| window == text.as_bytes())
        };
        for text in [
            "tiltyard/init\0",
            "libc.so",
            "tiltyard/modules/0-overlay.ko\0",
            "boot/config-6.18.0\0",
            built_in,
            "tiltyard/0/fifo.bpf.o\0",
            "dev/console\0",
            r#""command":["#,
        ] {
            assert!(has(text), "{text} is missing");
        }
        assert!(has(command), "the job names the command");
        assert!(!has(&format!("{command}\0")), "it stays where it is");
        assert!(
            !has(&format!("{}\0", &command[1..])),
            "it stays where it is"
        );
    }
}
