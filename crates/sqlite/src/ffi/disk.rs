//! An SQLite file system that reports writes and syncs before they are done, for tests and
//! measurements.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

use super::{Failure, code, initialize};

/// An operation on a file, before or after it is done.
#[derive(Debug)]
pub(crate) enum VfsCall<'a> {
    Write {
        offset: u64,
        bytes: &'a [u8],
    },
    Truncate {
        bytes: u64,
    },
    Sync,
    Synced,
    Delete,
    /// A sync of the folder, after the sync of a new log or journal.
    SyncFolder,
}

/// Called for each operation. The operation fails if it returns false.
pub(crate) type Observer = fn(&Path, &VfsCall<'_>) -> bool;

static OBSERVER: OnceLock<Observer> = OnceLock::new();

type Hook = extern "C" fn(c_int, *const c_char, i64, *const c_void, c_int) -> c_int;

unsafe extern "C" {
    fn marmota_simulate_disk(tell: Hook) -> c_int;
}

/// Observes all files that are opened from now on.
pub(crate) fn observe(observer: Observer) -> Result<(), Failure> {
    static CODE: OnceLock<c_int> = OnceLock::new();
    initialize()?;
    OBSERVER.get_or_init(|| observer);
    // SAFETY: called only once, by the `OnceLock`; the hook is a function of this file, which lives
    // as long as the process.
    match *CODE.get_or_init(|| unsafe { marmota_simulate_disk(hook) }) {
        code::OK => Ok(()),
        code => Err(Failure::new(code, "the simulated disk cannot be registered")),
    }
}

extern "C" fn hook(
    what: c_int,
    name: *const c_char,
    at: i64,
    bytes: *const c_void,
    count: c_int,
) -> c_int {
    if name.is_null() {
        return code::OK;
    }
    // SAFETY: not null, and SQLite's file names are terminated and live as long as the file is
    // open, or for this call.
    let name = unsafe { CStr::from_ptr(name) };
    // SAFETY: SQLite's file names are made from bytes of an `OsStr` or by appending ASCII to them.
    let path = Path::new(unsafe { OsStr::from_encoded_bytes_unchecked(name.to_bytes()) });
    let at = u64::try_from(at).unwrap_or(0);
    let act = match what {
        0 if !bytes.is_null() => {
            let count = usize::try_from(count).unwrap_or(0);
            // SAFETY: SQLite passes `count` bytes to write, which live for the call.
            let bytes = unsafe { std::slice::from_raw_parts(bytes.cast(), count) };
            VfsCall::Write { offset: at, bytes }
        }
        1 => VfsCall::Truncate { bytes: at },
        2 => VfsCall::Sync,
        3 => VfsCall::Synced,
        4 => VfsCall::Delete,
        5 => VfsCall::SyncFolder,
        _ => return code::OK,
    };
    let goes_on = OBSERVER.get().is_none_or(|observer| observer(path, &act));
    if goes_on { code::OK } else { code::IOERR }
}
