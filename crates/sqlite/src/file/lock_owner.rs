//! Finds the processes that have a database open or locked, for error messages.
//!
//! The system is queried (`/proc/locks`), so that the message is true even if the holder was
//! killed. No file is opened: closing a descriptor of the file would drop the locks that this
//! process has on it. If the system does not report the holder, the error has no name.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use marmota_model::{Error, ErrorKind};

use crate::file::database_name::database_name;

/// The bytes of the file that SQLite locks: pending, reserved, then those of readers.
const PENDING: u64 = 0x4000_0000;
const RESERVED: u64 = PENDING + 1;
const SHARED: std::ops::RangeInclusive<u64> = PENDING + 2..=PENDING + 511;
/// The bytes of the log's index that are locked by a writer, a checkpoint, or the recovery of the
/// log after a crash.
const LOG: std::ops::RangeInclusive<u64> = 120..=122;

/// The system returns its locks in pieces, and misses some while others change.
const LOOKS: usize = 4;

/// A process that has a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LockOwner {
    process: u32,
    deed: Deed,
}

/// The use of the database, from the most to the least exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    HasToItself,
    Writes,
    HasOpen,
}

/// A lock reported by the system.
#[derive(Debug, PartialEq, Eq)]
struct Lock {
    process: u32,
    is_write: bool,
    inode: u64,
    bytes: std::ops::RangeInclusive<u64>,
}

/// Returns the error for a database that others have locked, after `waited`.
#[cold]
pub(crate) fn busy(path: &Path, waited: Duration) -> Error {
    let who = match lock_owner(path) {
        Some(lock_owner) => lock_owner.to_string(),
        None => "another program or transaction has locked the database".to_owned(),
    };
    let message = format!(
        "{}: {who}; gave up after {} ms, try again",
        database_name(path),
        waited.as_millis()
    );
    Error::new(ErrorKind::Busy, message)
}

/// Describes the other processes that have a database open, as far as the system reports them.
pub(crate) fn other_processes(path: &Path) -> Vec<String> {
    let mut others: BTreeMap<u32, LockOwner> = BTreeMap::new();
    for lock_owner in lock_owners(path).filter(|one| one.process != std::process::id()) {
        let known = others.entry(lock_owner.process).or_insert(lock_owner);
        known.deed = known.deed.min(lock_owner.deed);
    }
    others.values().map(ToString::to_string).collect()
}

fn lock_owner(path: &Path) -> Option<LockOwner> {
    lock_owners(path).min_by_key(|lock_owner| lock_owner.weight(std::process::id()))
}

/// Returns the holders of locks, each several times.
fn lock_owners(path: &Path) -> impl Iterator<Item = LockOwner> {
    let inode_of = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        inode(Path::new(&name))
    };
    let (file, index) = (inode_of(""), inode_of("-shm"));
    let looks = file.into_iter().flat_map(|file| std::iter::repeat_n(file, LOOKS));
    looks.flat_map(move |file| {
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        holders(&locks, file, index).collect::<Vec<_>>()
    })
}

#[cfg(unix)]
fn inode(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|metadata| metadata.ino())
}

#[cfg(not(unix))]
fn inode(_: &Path) -> Option<u64> {
    None
}

/// Returns the holders in a text of locks.
fn holders(locks: &str, file: u64, index: Option<u64>) -> impl Iterator<Item = LockOwner> {
    let deed = move |lock: &Lock| {
        let has = |byte: u64| lock.bytes.contains(&byte);
        if Some(lock.inode) == index {
            return (lock.is_write && LOG.into_iter().any(has)).then_some(Deed::Writes);
        }
        match lock {
            lock if lock.inode != file => None,
            Lock { is_write: true, .. } if has(*SHARED.start()) => Some(Deed::HasToItself),
            Lock { is_write: true, .. } if has(RESERVED) || has(PENDING) => Some(Deed::Writes),
            _ => SHARED.into_iter().any(has).then_some(Deed::HasOpen),
        }
    };
    locks.lines().filter_map(parse).filter_map(move |lock| {
        let deed = deed(&lock)?;
        Some(LockOwner { process: lock.process, deed })
    })
}

/// Parses a line such as `3: POSIX  ADVISORY  WRITE 4711 fe:00:5750855 120 120`. A line for a
/// waiting process has an arrow.
fn parse(line: &str) -> Option<Lock> {
    let mut words = line.split_whitespace().skip(1);
    if words.next()? != "POSIX" {
        return None;
    }
    let is_write = words.nth(1)? == "WRITE";
    let process = words.next()?.parse().ok()?;
    let inode = words.next()?.rsplit(':').next()?.parse().ok()?;
    let first = words.next()?.parse().ok()?;
    let last = match words.next()? {
        "EOF" => u64::MAX,
        last => last.parse().ok()?,
    };
    Some(Lock { process, is_write, inode, bytes: first..=last })
}

impl LockOwner {
    /// Returns a sort key: the most exclusive holder is the least, and this process comes after others.
    fn weight(&self, own: u32) -> (Deed, bool) {
        (self.deed, self.process == own)
    }
}

impl fmt::Display for LockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = std::fs::read_to_string(format!("/proc/{}/comm", self.process));
        match program {
            _ if self.process == std::process::id() => f.write_str("this process")?,
            // A process that is not visible here, in another container.
            _ if self.process == 0 => f.write_str("a process of another container")?,
            Ok(program) => write!(f, "process {} ({})", self.process, program.trim_end())?,
            Err(_) => write!(f, "process {}", self.process)?,
        }
        f.write_str(match self.deed {
            Deed::HasToItself => " has opened the database exclusively",
            Deed::Writes => " is writing to the database",
            Deed::HasOpen => " has the database open",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: &str = "\
1: POSIX  ADVISORY  READ 11 fe:00:70 1073741826 1073742335
2: FLOCK  ADVISORY  WRITE 12 fe:00:70 0 EOF
3: POSIX  ADVISORY  WRITE 13 fe:00:71 120 120
3: -> POSIX  ADVISORY  WRITE 14 fe:00:71 120 120
4: POSIX  ADVISORY  READ 15 fe:00:71 123 123
5: POSIX  ADVISORY  WRITE 16 fe:00:80 1073741825 1073742335
6: POSIX  ADVISORY  READ 17 fe:00:90 1073741826 1073742335
7: POSIX  ADVISORY  READ 18 fe:00:90 1073741826 1073742335
";

    #[test]
    fn who_keeps_the_most_from_others_is_told() {
        let found = |file, index, own| {
            holders(LOCKS, file, index)
                .min_by_key(|lock_owner| lock_owner.weight(own))
                .map(|lock_owner| (lock_owner.process, lock_owner.deed))
        };
        assert_eq!(found(70, Some(71), 1), Some((13, Deed::Writes)));
        assert_eq!(found(70, None, 1), Some((11, Deed::HasOpen)));
        assert_eq!(found(80, Some(81), 1), Some((16, Deed::HasToItself)));
        assert_eq!(found(90, None, 17), Some((18, Deed::HasOpen)));
        assert_eq!(found(90, None, 18), Some((17, Deed::HasOpen)));
        assert_eq!(found(99, Some(98), 1), None);
    }

    #[test]
    fn lines_of_no_sense_are_passed_over() {
        for line in ["", "1:", "1: POSIX", "1: POSIX ADVISORY WRITE x fe:00:1 0 1", "a b c d e f"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
