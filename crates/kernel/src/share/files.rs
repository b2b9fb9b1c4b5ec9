// SPDX-License-Identifier: GPL-2.0-or-later
//! Answers what the guest asks about the host's files.
//!
//! There are no open files and no locks, hence nothing to keep consistent: a node is a path. What
//! is not answered here, above all everything that writes, gets ENOSYS, "not supported"; for
//! opening a file with an error that makes the kernel go on without.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::fuse::{self, Entry, FuseRequest};

/// Files that are kept open, because they are read piece by piece.
const KEPT_OPEN: usize = 64;

/// The tree below a folder.
pub struct Files {
    /// Path of node N at N - 1. Nodes are never given up: there are no more than files that were
    /// looked at.
    paths: Vec<PathBuf>,
    nodes: HashMap<PathBuf, u64>,
    /// The last used, newest last.
    open: VecDeque<(u64, File)>,
    /// The last listing, as it is read piece by piece too.
    listing: Option<(u64, Vec<Entry>)>,
}

impl Files {
    pub fn new(root: &Path) -> Self {
        Self {
            paths: vec![root.to_owned()],
            nodes: HashMap::from([(root.to_owned(), fuse::ROOT)]),
            open: VecDeque::new(),
            listing: None,
        }
    }

    /// The answer to one request of the guest, which has room for `room` bytes. None where none
    /// is expected.
    pub fn answer(&mut self, request: &[u8], room: usize) -> Option<Vec<u8>> {
        let request = FuseRequest::parse(request)?;
        if matches!(
            request.opcode,
            fuse::FORGET | fuse::BATCH_FORGET | fuse::INTERRUPT
        ) {
            return None;
        }
        let room = room.checked_sub(fuse::HEADER)?;
        let result = self.look(&request, room);
        let errno = |error: io::Error| error.raw_os_error().unwrap_or(libc::EIO);
        Some(fuse::answer(request.unique, result.map_err(errno)))
    }

    fn look(&mut self, request: &FuseRequest, room: usize) -> io::Result<Vec<u8>> {
        let cut = || io::Error::from_raw_os_error(libc::EINVAL);
        match request.opcode {
            fuse::INIT => {
                let read_ahead = request.u32(8).ok_or_else(cut)?;
                let offered = request.u32(12).ok_or_else(cut)?;
                Ok(fuse::init(read_ahead, offered))
            }
            fuse::LOOKUP => self.look_up(request.node, request.name().ok_or_else(cut)?),
            fuse::GETATTR => {
                let file = self.path(request.node)?.symlink_metadata()?;
                Ok(fuse::attributes(request.node, &file))
            }
            fuse::READLINK => {
                let target = std::fs::read_link(self.path(request.node)?)?;
                Ok(target.into_os_string().into_vec())
            }
            fuse::READ => {
                let (offset, size) = request.range().ok_or_else(cut)?;
                self.read(request.node, offset, size.min(room))
            }
            fuse::READDIR => {
                let (offset, size) = request.range().ok_or_else(cut)?;
                let entries = self.list(request.node, offset)?;
                Ok(fuse::listing(entries, offset, size.min(room)))
            }
            fuse::STATFS => Ok(fuse::statistics()),
            _ => Err(io::Error::from_raw_os_error(libc::ENOSYS)),
        }
    }

    fn path(&self, node: u64) -> io::Result<&Path> {
        let index = usize::try_from(node).ok().and_then(|n| n.checked_sub(1));
        index
            .and_then(|index| self.paths.get(index))
            .map(PathBuf::as_path)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ESTALE))
    }

    fn look_up(&mut self, folder: u64, name: &[u8]) -> io::Result<Vec<u8>> {
        // The guest's kernel resolves these itself.
        if name.contains(&b'/') || matches!(name, b"" | b"." | b"..") {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let path = self.path(folder)?.join(OsStr::from_bytes(name));
        match path.symlink_metadata() {
            Ok(file) => Ok(fuse::entry(self.node(path), &file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(fuse::no_entry()),
            Err(error) => Err(error),
        }
    }

    fn node(&mut self, path: PathBuf) -> u64 {
        let next = self.paths.len() as u64 + 1;
        *self.nodes.entry(path).or_insert_with_key(|path| {
            self.paths.push(path.clone());
            next
        })
    }

    fn read(&mut self, node: u64, offset: u64, size: usize) -> io::Result<Vec<u8>> {
        let file = self.file(node)?;
        let (mut bytes, mut length) = (vec![0; size], 0);
        while length < size {
            match file.read_at(&mut bytes[length..], offset + length as u64)? {
                0 => break,
                more => length += more,
            }
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    /// The file of this node, open.
    fn file(&mut self, node: u64) -> io::Result<&File> {
        let known = self.open.iter().position(|(other, _)| *other == node);
        let entry = match known.and_then(|index| self.open.remove(index)) {
            Some(entry) => entry,
            None => (node, open(self.path(node)?)?),
        };
        if self.open.len() == KEPT_OPEN {
            self.open.pop_front();
        }
        self.open.push_back(entry);
        Ok(&self.open[self.open.len() - 1].1)
    }

    /// What is in this folder; read again at the start of a listing.
    fn list(&mut self, node: u64, offset: u64) -> io::Result<&[Entry]> {
        let known = self.listing.take();
        let entries = match known.filter(|(other, _)| *other == node && offset > 0) {
            Some((_, entries)) => entries,
            None => list(self.path(node)?)?,
        };
        Ok(&self.listing.insert((node, entries)).1)
    }
}

/// Opens a file, and only a file: opening a device or a pipe may do something.
fn open(path: &Path) -> io::Result<File> {
    if !path.symlink_metadata()?.is_file() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

/// What is in the folder, in an order that depends on nothing else.
fn list(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // One that vanished meanwhile has no kind any more.
        let mode = entry.metadata().as_ref().map_or(0, Metadata::mode);
        let name = entry.file_name().into_vec();
        entries.push(Entry { name, mode });
    }
    entries.sort_unstable();
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: u32 = 14;
    const WRITE: u32 = 16;

    /// A request as the guest's kernel lays it out.
    fn request(opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 40];
        bytes[4..8].copy_from_slice(&opcode.to_le_bytes());
        bytes[8] = 9;
        bytes[16..24].copy_from_slice(&node.to_le_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    /// What follows the answer's header, or its errno.
    fn ask(files: &mut Files, opcode: u32, node: u64, body: &[u8]) -> Result<Vec<u8>, i32> {
        let answer = files.answer(&request(opcode, node, body), 4096).unwrap();
        assert_eq!(answer[8], 9, "the request's number");
        match i32::from_le_bytes(answer[4..8].try_into().unwrap()) {
            0 => Ok(answer[16..].to_vec()),
            error => Err(-error),
        }
    }

    fn look_up(files: &mut Files, folder: u64, name: &str) -> u64 {
        let entry = ask(files, fuse::LOOKUP, folder, format!("{name}\0").as_bytes()).unwrap();
        u64::from_le_bytes(entry[..8].try_into().unwrap())
    }

    fn range(offset: u64, size: u32) -> Vec<u8> {
        [&[0; 8][..], &offset.to_le_bytes(), &size.to_le_bytes()].concat()
    }

    #[test]
    fn a_file_is_found_and_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/file"), "0123456789").unwrap();
        let mut files = Files::new(folder.path());
        let sub = look_up(&mut files, fuse::ROOT, "sub");
        let file = look_up(&mut files, sub, "file");
        let read = |files: &mut Files, offset, size| {
            ask(files, fuse::READ, file, &range(offset, size)).unwrap()
        };
        assert_eq!(read(&mut files, 2, 3), b"234");
        assert_eq!(read(&mut files, 8, 100), b"89");
        assert!(read(&mut files, 10, 100).is_empty());
        assert_eq!(look_up(&mut files, sub, "file"), file, "the same node");
        assert_eq!(look_up(&mut files, sub, "gone"), 0, "no node");
    }

    #[test]
    fn what_is_more_than_the_guest_has_room_for_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), [7; 10_000]).unwrap();
        let mut files = Files::new(folder.path());
        let file = look_up(&mut files, fuse::ROOT, "file");
        let bytes = ask(&mut files, fuse::READ, file, &range(0, 10_000)).unwrap();
        assert_eq!(bytes.len(), 4096 - fuse::HEADER);
    }

    #[test]
    fn a_listing_names_everything() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b", "a"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let mut files = Files::new(folder.path());
        let bytes = ask(&mut files, fuse::READDIR, fuse::ROOT, &range(0, 4096)).unwrap();
        assert_eq!((bytes[24], bytes[56]), (b'a', b'b'));
        let rest = ask(&mut files, fuse::READDIR, fuse::ROOT, &range(2, 4096)).unwrap();
        assert!(rest.is_empty());
    }

    #[test]
    fn nothing_is_opened_written_or_reached_by_a_trick() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "kept").unwrap();
        std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
        let mut files = Files::new(folder.path());
        let file = look_up(&mut files, fuse::ROOT, "file");
        for opcode in (0..64).filter(|opcode| [4, OPEN, WRITE].contains(opcode) || *opcode > 42) {
            let result = ask(&mut files, opcode, file, &[0; 128]);
            assert_eq!(result, Err(libc::ENOSYS), "operation {opcode}");
        }
        for name in ["..", ".", "", "sub/file", "/etc"] {
            let body = format!("{name}\0");
            let result = ask(&mut files, fuse::LOOKUP, fuse::ROOT, body.as_bytes());
            assert_eq!(result, Err(libc::EINVAL), "{name}");
        }
        let link = look_up(&mut files, fuse::ROOT, "link");
        assert_eq!(
            ask(&mut files, fuse::READ, link, &range(0, 9)),
            Err(libc::EINVAL)
        );
        assert_eq!(
            ask(&mut files, fuse::READLINK, link, b""),
            Ok(b"file".to_vec())
        );
        assert_eq!(
            ask(&mut files, fuse::GETATTR, 99, &[0; 16]),
            Err(libc::ESTALE)
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    }

    #[test]
    fn more_files_than_are_kept_open() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::new(folder.path());
        for round in 0..2 {
            for index in 0..KEPT_OPEN + 2 {
                let name = index.to_string();
                if round == 0 {
                    std::fs::write(folder.path().join(&name), &name).unwrap();
                }
                let node = look_up(&mut files, fuse::ROOT, &name);
                let bytes = ask(&mut files, fuse::READ, node, &range(0, 9)).unwrap();
                assert_eq!(bytes, name.as_bytes());
            }
        }
        assert_eq!(files.open.len(), KEPT_OPEN);
    }
}
