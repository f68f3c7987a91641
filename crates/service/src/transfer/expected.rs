//! The limits of a stream that is received, and the errors for content beyond them.

use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind};

/// The limits of a stream, and how invalid content is reported.
#[derive(Clone, Debug)]
pub struct Expected {
    /// A description for messages: `numbers of files.sum`.
    pub(crate) what: String,
    /// The kind of error for invalid content.
    pub(crate) fault: ErrorKind,
    pub(crate) item_bytes_max: usize,
    pub(crate) stream_bytes_max: u64,
}

impl Expected {
    #[cold]
    pub(super) fn too_large(&self, number: u64) -> Error {
        let Self { what, item_bytes_max, .. } = self;
        let message = format!(
            "item {number} of {what} has more than {item_bytes_max} bytes (`item_bytes_max`)"
        );
        Error::new(self.fault, message)
    }

    #[cold]
    pub(super) fn misfit(&self, number: u64, line: &[u8], why: &str) -> Error {
        let (what, item) = (&self.what, excerpt(&String::from_utf8_lossy(line)));
        let message = format!("item {number} of {what} does not match its type: {item}: {why}");
        Error::new(self.fault, message)
    }

    #[cold]
    pub(super) fn too_long(&self) -> Error {
        let Self { what, stream_bytes_max, .. } = self;
        let message = format!("{what} has more than {stream_bytes_max} bytes (`stream_bytes_max`)");
        Error::new(self.fault, message)
    }
}
