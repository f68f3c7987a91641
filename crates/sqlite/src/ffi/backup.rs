//! Safe wrapper of SQLite's backup API, which copies a database page by page.

use std::ffi::{c_char, c_int};
use std::ptr::NonNull;

use super::raw::Db;
use super::{Connection, Failure, code};

/// A running backup of SQLite.
#[repr(C)]
struct Backup {
    opaque: [u8; 0],
}

unsafe extern "C" {
    fn marmota_sqlite3_backup_init(
        to: *mut Db,
        to_name: *const c_char,
        from: *mut Db,
        from_name: *const c_char,
    ) -> *mut Backup;
    fn marmota_sqlite3_backup_step(backup: *mut Backup, pages: c_int) -> c_int;
    fn marmota_sqlite3_backup_finish(backup: *mut Backup) -> c_int;
    fn marmota_sqlite3_backup_remaining(backup: *mut Backup) -> c_int;
    fn marmota_sqlite3_backup_pagecount(backup: *mut Backup) -> c_int;
}

/// Ends the backup on drop.
struct Copying(NonNull<Backup>);

impl Drop for Copying {
    fn drop(&mut self) {
        // SAFETY: the handle is from `backup_init` and not finished. The returned code is that of a
        // failed step, which was already reported.
        unsafe { marmota_sqlite3_backup_finish(self.0.as_ptr()) };
    }
}

impl Connection {
    /// Makes this database a copy of another one, `pages_a_step` pages at a time. `progress` is
    /// called with the numbers of copied and total pages.
    ///
    /// The source must be inside a transaction, so that all pages belong to one snapshot.
    pub(crate) fn copy_from(
        &mut self,
        source: &mut Self,
        pages_a_step: u32,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Failure> {
        let main = c"main".as_ptr();
        // SAFETY: both connections are open, and stay borrowed until the copy is ended at the end
        // of this function; the names are terminated.
        let backup = unsafe {
            marmota_sqlite3_backup_init(self.db.as_ptr(), main, source.db.as_ptr(), main)
        };
        let Some(backup) = NonNull::new(backup) else {
            return Err(self.failure(code::MISUSE));
        };
        let copying = Copying(backup);
        let pages = c_int::try_from(pages_a_step).unwrap_or(c_int::MAX);
        loop {
            // SAFETY: the handle is alive as long as `copying`.
            let (stepped, left, total) = unsafe {
                let handle = copying.0.as_ptr();
                let stepped = marmota_sqlite3_backup_step(handle, pages);
                let left = marmota_sqlite3_backup_remaining(handle);
                (stepped, left, marmota_sqlite3_backup_pagecount(handle))
            };
            let total = u64::try_from(total).unwrap_or(0);
            progress(total - u64::try_from(left).unwrap_or(0).min(total), total);
            match stepped {
                code::OK => {}
                code::DONE => return Ok(()),
                failed => {
                    drop(copying);
                    return Err(self.failure(failed));
                }
            }
        }
    }
}
