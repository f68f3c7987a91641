//! The data of a served file: its header lines, and its bytes if it is small. Each thread keeps its
//! own copy, in limited memory, and checks the file again after a second.
//!
//! The cache is a thread's, so that a hit needs no lock. It costs each thread up to
//! [`CACHE_BYTES_MAX`] for each folder. Large files are not kept: the kernel's page cache has them,
//! and open descriptors are scarce.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use rustix::fd::OwnedFd;
use rustix::fs::Stat;

/// Files up to this length are kept in memory.
pub(super) const KEPT_BYTES_MAX: u64 = 64 * 1024;
/// Maximum bytes that a thread keeps for one folder.
const CACHE_BYTES_MAX: u64 = 16 << 20;
/// The expected number of files that a thread keeps for one folder.
const CACHE_FILES: usize = 4_096;
/// How long a change of a file may go unnoticed, in ms.
const FRESH_MS: u64 = 1_000;

/// A file, and its coded versions that are stored next to it.
pub(super) struct CachedFile {
    /// The file itself.
    pub(super) plain: Version,
    /// In the order of [`super::CODINGS`].
    pub(super) coded: [Option<Version>; 3],
    /// The type of the plain file, which its codings have too.
    pub(super) media_type: &'static str,
    /// When the file was read, in ms on the thread's clock.
    pub(super) read_at_ms: u64,
}

/// The bytes of a file in one coding.
pub(super) struct Version {
    /// From the time of the last change, in nanoseconds, and the length.
    pub(super) etag: String,
    /// The time of the last change, in seconds since 1970.
    pub(super) modified_s: u64,
    /// Bytes of the file when it was opened; a later change is detected while it is sent.
    pub(super) length: u64,
    /// The header lines of this version, without `Content-Type` and `Content-Length`.
    pub(super) lines: Vec<u8>,
    pub(super) bytes: Bytes,
}

/// The location of a file's bytes.
#[derive(Clone)]
pub(super) enum Bytes {
    /// In memory, for a small file.
    Kept(Arc<[u8]>),
    /// In the open file, for a large one.
    File(Rc<File>),
}

impl Version {
    /// Reads a small file, or keeps a large one open. `more` are header lines that all its answers
    /// have. Returns `None` if it cannot be read, or is truncated in the meantime.
    pub(super) fn of(file: OwnedFd, stat: &Stat, more: &[u8]) -> Option<Self> {
        let length = u64::try_from(stat.st_size).ok()?;
        let modified_s = u64::try_from(stat.st_mtime).unwrap_or(0);
        let etag = format!("\"{modified_s:x}.{:x}-{length:x}\"", stat.st_mtime_nsec);
        let modified = UNIX_EPOCH + Duration::from_secs(modified_s);
        let mut lines = format!(
            "ETag: {etag}\r\nLast-Modified: {}\r\nAccept-Ranges: bytes\r\n",
            httpdate::fmt_http_date(modified)
        )
        .into_bytes();
        lines.extend_from_slice(more);
        let file = File::from(file);
        let bytes = if length <= KEPT_BYTES_MAX {
            let mut bytes = vec![0; length as usize];
            file.read_exact_at(&mut bytes, 0).ok()?;
            Bytes::Kept(bytes.into())
        } else {
            Bytes::File(Rc::new(file))
        };
        Some(Self { etag, modified_s, length, lines, bytes })
    }

    /// Returns true if the file was not changed after this date (`If-Modified-Since`).
    pub(super) fn is_as_of(&self, date: &str) -> bool {
        let since = httpdate::parse_http_date(date).ok();
        let since = since.and_then(|date| date.duration_since(UNIX_EPOCH).ok());
        since.is_some_and(|since| self.modified_s <= since.as_secs())
    }

    /// Returns true if this is the date of the last change (`If-Range`).
    pub(super) fn is_exactly_as_of(&self, date: &str) -> bool {
        let modified = UNIX_EPOCH + Duration::from_secs(self.modified_s);
        httpdate::parse_http_date(date).is_ok_and(|date| date == modified)
    }
}

impl CachedFile {
    /// Returns the memory that the file takes, in bytes.
    fn weight(&self) -> u64 {
        let bytes = |version: &Version| match &version.bytes {
            Bytes::Kept(bytes) => bytes.len() + version.lines.len() + 200,
            Bytes::File(_) => 0,
        };
        (bytes(&self.plain) + self.coded.iter().flatten().map(bytes).sum::<usize>()) as u64
    }

    /// Returns true if all of it is small. Open files are not kept, since a process may have few.
    pub(super) fn is_small(&self) -> bool {
        let is_small = |version: &Version| matches!(version.bytes, Bytes::Kept(_));
        is_small(&self.plain) && self.coded.iter().flatten().all(is_small)
    }

    /// Returns true if the file was read recently enough.
    pub(super) fn is_fresh(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.read_at_ms) < FRESH_MS
    }
}

/// The weight of an entry in the cache: its bytes and its path.
#[derive(Clone)]
struct Weight;

impl Weighter<Box<[u8]>, Rc<CachedFile>> for Weight {
    fn weight(&self, path: &Box<[u8]>, cached: &Rc<CachedFile>) -> u64 {
        cached.weight() + path.len() as u64
    }
}

/// The files of one folder that a thread keeps, by path.
type Kept = Cache<Box<[u8]>, Rc<CachedFile>, Weight>;

thread_local! {
    /// Indexed by the number of the folder.
    static KEPT: RefCell<Vec<Option<Kept>>> = const { RefCell::new(Vec::new()) };
}

/// Returns what this thread keeps for a path of folder number `folder`.
#[inline]
pub(super) fn kept(folder: usize, path: &[u8]) -> Option<Rc<CachedFile>> {
    KEPT.with_borrow(|kept| kept.get(folder)?.as_ref()?.get(path).cloned())
}

/// Keeps a file on this thread. If the folder's memory is used up, files that are rarely requested
/// are removed.
pub(super) fn keep(folder: usize, path: &[u8], cached: Rc<CachedFile>) {
    KEPT.with_borrow_mut(|kept| {
        if kept.len() <= folder {
            kept.resize_with(folder + 1, || None);
        }
        kept[folder]
            .get_or_insert_with(|| Cache::with_weighter(CACHE_FILES, CACHE_BYTES_MAX, Weight))
            .insert(path.into(), cached);
    });
}

/// Removes a file that this thread keeps.
pub(super) fn forget(folder: usize, path: &[u8]) {
    KEPT.with_borrow_mut(|kept| {
        if let Some(Some(kept)) = kept.get_mut(folder) {
            kept.remove(path);
        }
    });
}
