// SPDX-License-Identifier: GPL-2.0-or-later
//! The archive format of an initramfs: cpio "newc" (the kernel's
//! Documentation/driver-api/early-userspace/buffer-format.rst).

use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const CHAR_DEVICE: u32 = 0o020_000;

/// An archive under construction. Paths are absolute in the guest; parents are made as needed.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    next_inode: u32,
    seen: BTreeSet<String>,
}

impl Archive {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an empty directory, unless it is there already.
    pub fn directory(&mut self, path: &str) {
        self.parents(path);
        if self.seen.insert(path.to_owned()) {
            self.entry(path, DIRECTORY | 0o755, (0, 0), &[]);
        }
    }

    /// Adds a file with these permission bits. A path that was added before is left alone.
    pub fn file(&mut self, path: &str, permissions: u32, data: &[u8]) {
        self.parents(path);
        if self.seen.insert(path.to_owned()) {
            self.entry(path, REGULAR | permissions, (0, 0), data);
        }
    }

    /// Adds a character device with its major and minor number.
    pub fn char_device(&mut self, path: &str, permissions: u32, major: u32, minor: u32) {
        self.parents(path);
        if self.seen.insert(path.to_owned()) {
            self.entry(path, CHAR_DEVICE | permissions, (major, minor), &[]);
        }
    }

    /// The finished archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("/TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn parents(&mut self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/')
            && !parent.is_empty()
        {
            self.directory(parent);
        }
    }

    /// One header (13 fields of 8 hex digits), the name with its NUL, the data; the last two
    /// padded to 4 bytes.
    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), data: &[u8]) {
        let name = path.trim_start_matches('/');
        let size = u32::try_from(data.len()).expect("newc holds files below 4 GiB");
        let name_size = u32::try_from(name.len() + 1).expect("a path is short");
        let links = 1;
        self.next_inode += 1;
        self.bytes.extend_from_slice(b"070701");
        let fields = [
            self.next_inode,
            mode,
            0,
            0,
            links,
            0,
            size,
            0,
            0,
            device.0,
            device.1,
            name_size,
            0,
        ];
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn header_fields_stand_where_the_kernel_reads_them() {
        let mut archive = Archive::new();
        archive.file("/ab", 0o644, b"hello");
        let bytes = archive.finish();
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[14..22], b"000081a4", "mode");
        assert_eq!(&bytes[54..62], b"00000005", "file size");
        assert_eq!(&bytes[94..102], b"00000003", "name size with its NUL");
        assert_eq!(&bytes[110..116], b"ab\0\0\0\0");
        assert_eq!(&bytes[116..121], b"hello", "data on a multiple of 4");
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn parents_come_once_and_before_their_files() {
        let mut archive = Archive::new();
        archive.file("/usr/lib/one", 0o644, b"");
        archive.file("/usr/lib/two", 0o644, b"");
        archive.file("/usr/lib/two", 0o644, b"not again");
        let names = names(&archive.finish());
        assert_eq!(
            names,
            ["usr", "usr/lib", "usr/lib/one", "usr/lib/two", "TRAILER!!!"]
        );
    }

    #[test]
    fn the_cpio_program_reads_it() {
        let mut archive = Archive::new();
        archive.char_device("/dev/console", 0o600, 5, 1);
        archive.file("/bin/x", 0o755, b"abc");
        let Ok(mut cpio) = Command::new("cpio")
            .args(["-itv", "--quiet", "--numeric-uid-gid"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        else {
            eprintln!("skipped: the program cpio is not installed");
            return;
        };
        cpio.stdin
            .take()
            .unwrap()
            .write_all(&archive.finish())
            .unwrap();
        let listing = String::from_utf8(cpio.wait_with_output().unwrap().stdout).unwrap();
        assert!(listing.contains("crw-------"), "{listing}");
        assert!(listing.contains("5,   1"), "{listing}");
        assert!(listing.contains("-rwxr-xr-x"), "{listing}");
    }

    /// Names in archive order, read back by the sizes in the headers.
    fn names(bytes: &[u8]) -> Vec<String> {
        let field = |at: usize, index: usize| {
            let from = at + 6 + 8 * index;
            let digits = std::str::from_utf8(&bytes[from..from + 8]).unwrap();
            usize::from_str_radix(digits, 16).unwrap()
        };
        let (mut names, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let (size, name_size) = (field(at, 6), field(at, 11));
            let name = &bytes[at + 110..at + 110 + name_size - 1];
            names.push(String::from_utf8(name.to_vec()).unwrap());
            at = (at + 110 + name_size).next_multiple_of(4);
            at = (at + size).next_multiple_of(4);
        }
        names
    }
}
