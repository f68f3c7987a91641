//! A run of whole records, each with as many fields as the header, found but
//! not yet read; and what can be wrong with one of them.

use crate::dictionary::{Short, What};

/// Bytes that may be read behind the last record.
pub(crate) const SPARE_BYTES: usize = 64;

/// Records behind one another.
#[derive(Clone, Copy)]
pub(crate) struct Run<'b> {
    bytes: &'b [u8],
    /// One less than where the first field begins, then where each field ends.
    marks: &'b [u32],
    /// Fields of a record.
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
    /// Behind the last of `marks`, `bytes` has [`SPARE_BYTES`] more.
    pub(crate) const fn new(
        bytes: &'b [u8],
        marks: &'b [u32],
        fields: usize,
        has_quotes: bool,
    ) -> Self {
        Self { bytes, marks, fields, has_quotes }
    }

    /// How many records there are.
    pub(crate) const fn len(&self) -> usize {
        (self.marks.len() - 1) / self.fields
    }

    /// Where a record begins.
    pub(crate) fn start(&self, record: usize) -> usize {
        self.marks[record * self.fields].wrapping_add(1) as usize
    }

    /// The same run, ended before `record`.
    pub(crate) fn up_to(&self, record: usize) -> Self {
        Self { marks: &self.marks[..=record * self.fields], ..*self }
    }

    /// Where the fields of a column begin and end.
    #[inline]
    pub(crate) fn ranges(&self, column: usize) -> impl Iterator<Item = (usize, usize)> {
        let is_last = column + 1 == self.fields;
        let marks = self.marks.get(column..).unwrap_or_default();
        marks.windows(2).step_by(self.fields).map(move |ends| self.range_of(ends, is_last))
    }

    /// Where a field begins and ends.
    pub(crate) fn range(&self, record: usize, column: usize) -> (usize, usize) {
        let at = record * self.fields + column;
        self.range_of(&self.marks[at..at + 2], column + 1 == self.fields)
    }

    #[inline]
    fn range_of(&self, ends: &[u32], is_last: bool) -> (usize, usize) {
        let (start, end) = (ends[0].wrapping_add(1) as usize, ends[1] as usize);
        // A line may end with both.
        let has_return = is_last && end > start && self.bytes[end - 1] == b'\r';
        (start, end - usize::from(has_return))
    }

    /// What stands in the file there.
    #[inline]
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'b [u8] {
        &self.bytes[start..end]
    }

    /// Whether the field that begins there is in quotes.
    #[inline]
    pub(crate) fn is_quoted(&self, start: usize) -> bool {
        self.has_quotes && self.bytes[start] == b'"'
    }

    /// A field of few bytes as a number.
    #[inline]
    pub(crate) fn short(&self, start: usize, end: usize) -> Option<Short> {
        Short::new(*self.bytes.get(start..)?.first_chunk()?, end - start)
    }

    /// The first field that begins with a quote and does not end with one.
    pub(crate) fn half_quoted(&self) -> Option<(usize, usize)> {
        let fields = (0..self.len()).flat_map(|record| (0..self.fields).map(move |c| (record, c)));
        fields.into_iter().find(|&(record, column)| {
            let (start, end) = self.range(record, column);
            let field = self.slice(start, end);
            field.first() == Some(&b'"') && (field.len() < 2 || field.last() != Some(&b'"'))
        })
    }
}
