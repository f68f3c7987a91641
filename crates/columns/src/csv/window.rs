//! [`Window`]: the part of a source that is in memory, from the start of a record, with the
//! positions of its separators. It advances by the bytes that were read.

use marmota_model::{Error, ErrorKind, Result};

use super::run::SPARE_BYTES;
use super::scan::Scan;
use super::source::Source;

/// Small enough to stay in a core's cache together with its marks.
const WINDOW_BYTES: usize = 128 * 1024;

/// Some records of a source.
pub(crate) struct Window<'s> {
    source: &'s Source<'s>,
    scan: Scan,
    bytes: Vec<u8>,
    /// The number of bytes in `bytes` that come from the source.
    filled: usize,
    /// Its offset in the source.
    origin: u64,
    record_bytes_max: usize,
}

impl<'s> Window<'s> {
    /// Returns an empty window that starts at `origin`.
    pub(crate) fn new(
        source: &'s Source<'s>,
        separator: u8,
        origin: u64,
        record_bytes_max: usize,
    ) -> Self {
        let bytes = vec![0; WINDOW_BYTES + SPARE_BYTES];
        Self { source, scan: Scan::new(separator), bytes, filled: 0, origin, record_bytes_max }
    }

    /// Drops the first `taken` bytes and reads more. Returns false if nothing is left.
    ///
    /// # Errors
    /// The source cannot be read, or a record is longer than allowed.
    pub(crate) fn move_on(&mut self, taken: usize) -> Result<bool> {
        let taken = taken.min(self.filled);
        self.bytes.copy_within(taken..self.filled, 0);
        (self.filled, self.origin) = (self.filled - taken, self.origin + taken as u64);
        if self.filled == self.room() {
            if self.filled >= self.record_bytes_max {
                return Err(self.too_long());
            }
            self.bytes.resize(2 * self.bytes.len(), 0);
        }
        let (filled, room) = (self.filled, self.room());
        let offset = self.origin + filled as u64;
        let read = self.source.read(&mut self.bytes[filled..room], offset)?;
        self.filled += read;
        // A line end is appended to a last line without one.
        if self.at_end() && self.filled > 0 && self.bytes[self.filled - 1] != b'\n' {
            self.bytes[self.filled] = b'\n';
            self.scan.run(&self.bytes, self.filled + 1);
        } else {
            self.scan.run(&self.bytes, self.filled);
        }
        Ok(self.filled > 0)
    }

    /// Returns the most bytes of the source that it can hold: a line end and the spare bytes
    /// follow.
    const fn room(&self) -> usize {
        self.bytes.len() - SPARE_BYTES - 1
    }

    /// Returns true if the source ends with this window.
    pub(crate) fn at_end(&self) -> bool {
        self.origin + self.filled as u64 >= self.source.length()
    }

    /// Returns the offset in the source of a byte in the window.
    pub(crate) const fn offset(&self, at: usize) -> u64 {
        self.origin + at as u64
    }

    /// Returns its bytes, followed by spare bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns its separators.
    pub(crate) const fn scan(&self) -> &Scan {
        &self.scan
    }

    #[cold]
    fn too_long(&self) -> Error {
        let (line, column) = self.source.place(self.origin);
        let message = format!(
            "{}, line {line}, column {column}: the record has more than {} bytes; is a quote left \
             open? If not, raise `Loader::record_bytes_max`",
            self.source.name(),
            self.record_bytes_max
        );
        Error::new(ErrorKind::Invalid, message)
    }
}
