// SPDX-License-Identifier: GPL-2.0-or-later
//! The part of the FUSE protocol (the kernel's include/uapi/linux/fuse.h) that reading takes.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

pub const LOOKUP: u32 = 1;
pub const FORGET: u32 = 2;
pub const GETATTR: u32 = 3;
pub const READLINK: u32 = 5;
pub const READ: u32 = 15;
pub const STATFS: u32 = 17;
pub const INIT: u32 = 26;
pub const READDIR: u32 = 28;
pub const INTERRUPT: u32 = 36;
pub const BATCH_FORGET: u32 = 42;

/// The root folder's node.
pub const ROOT: u64 = 1;

/// Length of the header before every answer.
pub const HEADER: usize = 16;

/// The protocol of the reference kernel's predecessor 5.4; every later kernel speaks it too.
const VERSION: [u32; 2] = [7, 31];
/// FUSE_ASYNC_READ, FUSE_PARALLEL_DIROPS, FUSE_MAX_PAGES, FUSE_CACHE_SYMLINKS.
const FLAGS: u32 = 1 | 1 << 18 | 1 << 22 | 1 << 23;
/// The most that one request may carry: the kernel's own limit, 256 pages.
const MAX_PAGES: u16 = 256;
/// How long the guest may cache attributes, s: as long as it lives. It is to see one state of
/// the host's files, and asking again costs time that would be measured.
const VALID_S: u64 = 24 * 60 * 60;
/// An inode number in a listing that says nothing; zero would hide the entry.
const UNKNOWN_INODE: u64 = 0xffff_ffff;

/// One request: its header's members that matter, and what follows the header.
pub struct FuseRequest<'a> {
    pub opcode: u32,
    pub unique: u64,
    pub node: u64,
    body: &'a [u8],
}

impl<'a> FuseRequest<'a> {
    /// None if the bytes are too few for a header.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header = Self {
            opcode: 0,
            unique: 0,
            node: 0,
            body: bytes,
        };
        Some(Self {
            opcode: header.u32(4)?,
            unique: header.u64(8)?,
            node: header.u64(16)?,
            body: bytes.get(40..)?,
        })
    }

    /// The number at `offset` of the body.
    pub fn u32(&self, offset: usize) -> Option<u32> {
        let bytes = self.body.get(offset..offset + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    pub fn u64(&self, offset: usize) -> Option<u64> {
        let bytes = self.body.get(offset..offset + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// The body as a name: up to its NUL.
    pub fn name(&self) -> Option<&'a [u8]> {
        self.body.split(|byte| *byte == 0).next()
    }

    /// Offset and size of a read, which are at the same offsets for files and folders.
    pub fn range(&self) -> Option<(u64, usize)> {
        Some((self.u64(8)?, self.u32(16)? as usize))
    }
}

/// The answer to `unique`: what was asked for, or an errno.
pub fn answer(unique: u64, result: Result<Vec<u8>, i32>) -> Vec<u8> {
    let (error, body) = match result {
        Ok(body) => (0, body),
        Err(errno) => (-errno, Vec::new()),
    };
    let mut bytes = Bytes::default();
    let length = HEADER + body.len();
    bytes.u32(length as u32).u32(error as u32).u64(unique);
    bytes.0.extend_from_slice(&body);
    bytes.0
}

/// `struct fuse_init_out`, for a kernel that offers this read-ahead and these flags.
pub fn init(read_ahead: u32, offered: u32) -> Vec<u8> {
    let mut bytes = Bytes::default();
    let (max_background, congested) = (64, 48);
    bytes.u32(VERSION[0]).u32(VERSION[1]);
    bytes.u32(read_ahead).u32(FLAGS & offered);
    bytes.u16(max_background).u16(congested);
    let (time_gran_ns, max_write) = (1, 4096);
    bytes.u32(time_gran_ns).u32(max_write).u16(MAX_PAGES);
    bytes.0.resize(64, 0);
    bytes.0
}

/// `struct fuse_entry_out`: the answer to a look-up.
pub fn entry(node: u64, file: &Metadata) -> Vec<u8> {
    let mut bytes = Bytes::default();
    let generation = 0;
    bytes.u64(node).u64(generation);
    bytes.u64(VALID_S).u64(VALID_S).u64(0);
    bytes.attributes(node, file);
    bytes.0
}

/// The entry for a name that is not there, to be remembered like any other.
pub fn no_entry() -> Vec<u8> {
    let mut bytes = Bytes::default();
    bytes.u64(0).u64(0).u64(VALID_S);
    bytes.0.resize(128, 0);
    bytes.0
}

/// `struct fuse_attr_out`.
pub fn attributes(node: u64, file: &Metadata) -> Vec<u8> {
    let mut bytes = Bytes::default();
    bytes.u64(VALID_S).u64(0);
    bytes.attributes(node, file);
    bytes.0
}

/// `struct fuse_statfs_out` of a full file system: there is no room for anybody to write.
pub fn statistics() -> Vec<u8> {
    let mut bytes = Bytes::default();
    bytes.0.resize(40, 0);
    let (block_size, name_length) = (4096, 255);
    bytes.u32(block_size).u32(name_length).u32(block_size);
    bytes.0.resize(80, 0);
    bytes.0
}

/// What is in a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub name: Vec<u8>,
    /// Its file's; only the kind counts.
    pub mode: u32,
}

/// A folder's entries from `offset` on, as many as fit into `size`.
pub fn listing(entries: &[Entry], offset: u64, size: usize) -> Vec<u8> {
    let mut bytes = Bytes::default();
    let from = usize::try_from(offset).unwrap_or(usize::MAX);
    for (index, Entry { name, mode }) in entries.iter().enumerate().skip(from) {
        if bytes.0.len() + (24 + name.len()).next_multiple_of(8) > size {
            break;
        }
        bytes.u64(UNKNOWN_INODE).u64(index as u64 + 1);
        bytes.u32(name.len() as u32).u32(mode >> 12);
        bytes.0.extend_from_slice(name);
        bytes.0.resize(bytes.0.len().next_multiple_of(8), 0);
    }
    bytes.0
}

/// Structures of the protocol, put together member by member.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// `struct fuse_attr`. The node is the inode number: the host's own may occur twice, because
    /// it is several file systems that the guest sees as one.
    fn attributes(&mut self, node: u64, file: &Metadata) {
        self.u64(node).u64(file.size()).u64(file.blocks());
        for time in [file.atime(), file.mtime(), file.ctime()] {
            self.u64(time as u64);
        }
        for part_ns in [file.atime_nsec(), file.mtime_nsec(), file.ctime_nsec()] {
            self.u32(part_ns as u32);
        }
        self.u32(file.mode()).u32(file.nlink() as u32);
        self.u32(file.uid()).u32(file.gid());
        let (block_size, flags) = (4096, 0);
        self.u32(device_number(file.rdev())).u32(block_size);
        self.u32(flags);
    }
}

/// A device number as the kernel encodes it in 32 bits.
fn device_number(rdev: u64) -> u32 {
    let (major, minor) = (libc::major(rdev), libc::minor(rdev));
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_long_as_the_kernels() {
        let file = std::fs::metadata("/").unwrap();
        assert_eq!(init(0, 0).len(), 64);
        assert_eq!(entry(1, &file).len(), 128);
        assert_eq!(no_entry().len(), 128);
        assert_eq!(attributes(1, &file).len(), 104);
        assert_eq!(statistics().len(), 80);
        assert_eq!(answer(1, Err(2)).len(), HEADER);
    }

    #[test]
    fn a_listing_goes_on_where_it_stopped() {
        let entries: Vec<_> = ["a", "bc", "def"]
            .map(|name| Entry {
                name: name.as_bytes().to_vec(),
                mode: libc::S_IFREG,
            })
            .to_vec();
        let first = listing(&entries, 0, 64 + 31);
        assert_eq!(first.len(), 64, "two entries fit");
        assert_eq!(first[24], b'a');
        assert_eq!(first[20], libc::DT_REG);
        let second = listing(&entries, 2, 4096);
        assert_eq!(&second[24..27], b"def");
        assert!(listing(&entries, 3, 4096).is_empty(), "the end");
    }

    #[test]
    fn a_cut_request_is_no_request() {
        assert!(FuseRequest::parse(&[0; 39]).is_none());
        assert!(FuseRequest::parse(&[0; 40]).unwrap().range().is_none());
    }
}
