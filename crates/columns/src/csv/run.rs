//! A run of complete records, each with as many fields as the header, located but not yet parsed;
//! and the errors in one of them.

use crate::dictionary::{Short, What};

/// Readable bytes after the last record.
pub(crate) const SPARE_BYTES: usize = 64;

/// Consecutive records.
#[derive(Clone, Copy)]
pub(crate) struct Run<'b> {
    bytes: &'b [u8],
    /// One less than the start of the first field, then the end of each field.
    marks: &'b [u32],
    /// The number of fields per record.
    fields: usize,
    has_quotes: bool,
}

/// A field that is refused.
pub(crate) struct Fault {
    /// The record's number in its run.
    pub(crate) record: usize,
    /// The field's number in the file.
    pub(crate) column: usize,
    pub(crate) what: What,
}

impl<'b> Run<'b> {
    /// After the last of `marks`, `bytes` must have [`SPARE_BYTES`] more.
    pub(crate) const fn new(
        bytes: &'b [u8],
        marks: &'b [u32],
        fields: usize,
        has_quotes: bool,
    ) -> Self {
        Self { bytes, marks, fields, has_quotes }
    }

    /// Returns the number of records.
    pub(crate) const fn len(&self) -> usize {
        (self.marks.len() - 1) / self.fields
    }

    /// Returns the start of a record.
    pub(crate) fn start(&self, record: usize) -> usize {
        self.marks[record * self.fields].wrapping_add(1) as usize
    }

    /// Returns the records before `record`.
    pub(crate) fn up_to(&self, record: usize) -> Self {
        Self { marks: &self.marks[..=record * self.fields], ..*self }
    }

    /// Returns the start and end of each field of a column.
    #[inline]
    pub(crate) fn ranges(&self, column: usize) -> impl Iterator<Item = (usize, usize)> {
        let is_last = column + 1 == self.fields;
        let marks = self.marks.get(column..).unwrap_or_default();
        marks.windows(2).step_by(self.fields).map(move |ends| self.range_of(ends, is_last))
    }

    /// Returns the start and end of a field.
    pub(crate) fn range(&self, record: usize, column: usize) -> (usize, usize) {
        let at = record * self.fields + column;
        self.range_of(&self.marks[at..at + 2], column + 1 == self.fields)
    }

    #[inline]
    fn range_of(&self, ends: &[u32], is_last: bool) -> (usize, usize) {
        let (start, end) = (ends[0].wrapping_add(1) as usize, ends[1] as usize);
        // A line may end with CRLF.
        let has_return = is_last && end > start && self.bytes[end - 1] == b'\r';
        (start, end - usize::from(has_return))
    }

    /// Returns the bytes of a range.
    #[inline]
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'b [u8] {
        &self.bytes[start..end]
    }

    /// Returns true if the field that begins at `start` is quoted.
    #[inline]
    pub(crate) fn is_quoted(&self, start: usize) -> bool {
        self.has_quotes && self.bytes[start] == b'"'
    }

    /// Returns a field of at most 15 bytes as a number.
    #[inline]
    pub(crate) fn short(&self, start: usize, end: usize) -> Option<Short> {
        Short::new(*self.bytes.get(start..)?.first_chunk()?, end - start)
    }

    /// Returns the first field that begins with a quote and does not end with one.
    pub(crate) fn half_quoted(&self) -> Option<(usize, usize)> {
        let fields = (0..self.len()).flat_map(|record| (0..self.fields).map(move |c| (record, c)));
        fields.into_iter().find(|&(record, column)| {
            let (start, end) = self.range(record, column);
            let field = self.slice(start, end);
            field.first() == Some(&b'"') && (field.len() < 2 || field.last() != Some(&b'"'))
        })
    }
}
