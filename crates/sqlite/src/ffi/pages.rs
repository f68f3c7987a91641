//! Safe wrappers for copying a log: which log it is, and whole pages that are replaced.

use std::ffi::c_int;

use marmota_store::log_copy::ReplacedPages;

use super::{Connection, Failure, code, raw};

impl Connection {
    /// Returns the first salt of the write-ahead log, which changes whenever the log is begun again.
    pub(crate) fn log_salt(&self) -> u32 {
        // SAFETY: the connection is open.
        unsafe { raw::marmota_log_salt(self.db.as_ptr()) }
    }

    /// Replaces pages inside the open transaction. On an error the transaction has to be rolled
    /// back.
    pub(crate) fn replace_pages(&mut self, pages: &ReplacedPages<'_>) -> Result<(), Failure> {
        let misfit = || Failure::new(code::MISUSE, "the pages do not fit their numbers");
        let bytes = pages.numbers.len().checked_mul(pages.page_bytes).ok_or_else(misfit)?;
        let count = c_int::try_from(pages.numbers.len()).map_err(|_| misfit())?;
        let page_bytes = c_int::try_from(pages.page_bytes).map_err(|_| misfit())?;
        if bytes != pages.bytes.len() || pages.numbers.contains(&0) {
            return Err(misfit());
        }
        // SAFETY: the connection is open and inside a transaction that writes; there are `count`
        // numbers and `count` times `page_bytes` bytes, which are only read.
        let code = unsafe {
            raw::marmota_replace_pages(
                self.db.as_ptr(),
                pages.numbers.as_ptr(),
                pages.bytes.as_ptr(),
                count,
                page_bytes,
                pages.database_pages,
            )
        };
        match code {
            code::OK => Ok(()),
            code => Err(Failure::new(code, "the pages cannot be replaced")),
        }
    }
}
