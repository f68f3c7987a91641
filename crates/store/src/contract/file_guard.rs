//! The check of file fields before a write: a row may only refer to bytes that are stored, and only
//! one row to the same bytes.

use marmota_model::{File, Result, Table, Value};

/// The change of a file field that is about to be written.
#[derive(Clone, Copy, Debug)]
pub struct FileChange<'a> {
    /// The table of the row.
    pub table: &'a Table,
    /// The position of the field.
    pub field: usize,
    /// The key of the row. For an insert whose key the engine generates, it is `None`.
    pub key: Option<&'a Value>,
    /// The stored file; `None` for an insert, or if the field is NULL.
    pub before: Option<&'a File>,
    /// The file as it will be; `None` for a delete, or if the field becomes NULL.
    pub after: Option<&'a File>,
}

/// The check of file fields; `marmota-files` implements it.
pub trait FileGuard: Send + Sync {
    /// Decides on a change of a file field, in the transaction of the write. It is not called for a
    /// field that keeps its file. The transaction may still fail afterwards, or call it again.
    ///
    /// It must not block, nor call the store.
    ///
    /// # Errors
    /// The write is refused with this error.
    fn before_write(&self, change: &FileChange<'_>) -> Result<()>;
}
