//! Changes in the encoding of an engine, for databases that record changes themselves.
//!
//! A database server that records changes by triggers has no encoder for the format of
//! [`ChangeBuffer`](super::ChangeBuffer). It writes rows in its own format, and its engine reads
//! them.

use std::fmt;
use std::sync::Arc;

use marmota_model::{Field, Result, Value};

use super::ChangeKind;

/// Reads changes in the encoding of an engine.
///
/// The first byte of each entry is 0, which [`ChangeBuffer`](super::ChangeBuffer) does not write.
pub trait RecordedRows: Send + Sync + fmt::Debug {
    /// Reads the first entry of encoded changes. Returns it, and the bytes after it.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`](marmota_model::ErrorKind::Engine) for bytes that are not an entry.
    fn entry<'b>(&self, bytes: &'b [u8]) -> Result<(ChangedRows<'b>, &'b [u8])>;

    /// Reads the value of a field.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`](marmota_model::ErrorKind::Engine) for bytes that are not a value of
    /// the field.
    fn value(&self, field: &Field, bytes: &[u8]) -> Result<Value>;
}

/// The rows that one statement has changed in one table.
#[derive(Debug)]
pub struct ChangedRows<'b> {
    /// What was done to the rows.
    pub kind: ChangeKind,
    /// The number of the table ([`RecordedTable::number`](super::RecordedTable::number)).
    pub table: u64,
    /// The actor of the write.
    pub actor: Option<Arc<str>>,
    /// The rows before, in the same order as those after; empty for inserts.
    pub before: Vec<EncodedRow<'b>>,
    /// The rows after; empty for deletes.
    pub after: Vec<EncodedRow<'b>>,
}

/// The encoded values of a row; `None` for null. Values of an update that are equal byte by byte
/// have not changed. The value of a blob may be a digest.
pub type EncodedRow<'b> = Vec<Option<&'b [u8]>>;
