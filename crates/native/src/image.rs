// SPDX-License-Identifier: GPL-2.0-or-later
//! The ELF image of a scheduler: its symbols, its initial values, and how it becomes a private copy in memory.

use crate::instance::LoadError;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use object::{Object as _, ObjectSection, ObjectSymbol};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};

/// Where a symbol is in the image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    /// Offset from the load address.
    pub address: u64,
    /// Offset into the file, `None` for zero-initialised data, which the file does not hold.
    pub file_offset: Option<usize>,
}

/// Symbols of `image` by name, hidden ones too.
pub(crate) fn symbols(image: &[u8]) -> Result<HashMap<String, Symbol>, LoadError> {
    let broken = |e: object::Error| LoadError::Dlopen(format!("not a scheduler object: {e}"));
    let elf = object::File::parse(image).map_err(broken)?;
    let mut symbols = HashMap::new();
    for symbol in elf.symbols() {
        let (Some(index), Ok(name)) = (symbol.section_index(), symbol.name()) else {
            continue;
        };
        if name.is_empty() {
            continue;
        }
        let section = elf.section_by_index(index).map_err(broken)?;
        let inside = symbol.address().wrapping_sub(section.address());
        let file_offset = section
            .file_range()
            .map(|(start, _)| (start + inside) as usize);
        let symbol = Symbol {
            address: symbol.address(),
            file_offset,
        };
        symbols.insert(name.to_owned(), symbol);
    }
    Ok(symbols)
}

/// Offsets of everything that a scheduler's code may write: its variables and its stack.
pub(crate) fn writable(image: &[u8]) -> Result<std::ops::Range<u64>, LoadError> {
    let broken = |e: object::Error| LoadError::Dlopen(format!("not a scheduler object: {e}"));
    let elf = object::File::parse(image).map_err(broken)?;
    let sections = elf
        .sections()
        .filter(|s| matches!(s.name(), Ok(".data" | ".bss")));
    let ranges = sections.map(|s| s.address()..s.address() + s.size());
    let whole = ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
    Ok(whole.unwrap_or(0..0))
}

/// A mapped copy of an image.
#[derive(Debug)]
pub(crate) struct Mapped {
    /// Unmapped when dropped; must go before `_file`.
    _library: Library,
    /// Kept open as long as the library: the loader knows libraries by their path, /proc/.../fd/N, and would hand
    /// out this one again for the next image that got the same N.
    _file: File,
    pub base: *mut u8,
}

impl Mapped {
    /// Maps `image` through an anonymous file. `anchor` is an exported symbol and its offset, to find the base by.
    pub fn new(image: &[u8], anchor: (&str, u64)) -> Result<Mapped, LoadError> {
        let failed =
            |what: &str, e: &dyn std::fmt::Display| LoadError::Dlopen(format!("{what}: {e}"));
        // SAFETY: the name is a C string; the descriptor is new and ours.
        let mut file = unsafe {
            let fd = libc::memfd_create(c"tiltyard-scheduler".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(failed("memfd_create", &std::io::Error::last_os_error()));
            }
            File::from_raw_fd(fd)
        };
        file.write_all(image)
            .map_err(|e| failed("write to memfd", &e))?;
        // By process id and not "self", so that a debugger finds the file too.
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        // SAFETY: the image has no constructors; it is what tiltyard-build linked.
        let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|e| failed("dlopen", &e))?;
        // SAFETY: only the address is used.
        let at = unsafe { library.get::<*mut u8>(anchor.0.as_bytes()) }
            .map_err(|e| failed("dlsym", &e))?
            .into_raw() as *mut u8;
        let base = at.wrapping_sub(anchor.1 as usize);
        Ok(Mapped {
            _library: library,
            _file: file,
            base,
        })
    }
}
