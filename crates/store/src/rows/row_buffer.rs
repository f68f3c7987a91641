//! Copies of rows, which one thread reads and another lends.

use std::ops::ControlFlow;

use marmota_model::{Currency, Date, RowSink, Time, Timestamp, Uuid, ValueRef};

/// A buffer of rows: their values are in one list, their texts and bytes in two more, so that a
/// reused buffer allocates nothing.
///
/// ```
/// use std::ops::ControlFlow;
/// use marmota_model::ValueRef;
/// use marmota_store::row_buffer::RowBuffer;
///
/// let mut rows = RowBuffer::default();
/// rows.push(&[ValueRef::Int(1), ValueRef::Text("Ada")]);
/// let mut names = Vec::new();
/// let lent = rows.lend(&mut |row: &[ValueRef<'_>]| {
///     names.push(format!("{:?}", row[1]));
///     ControlFlow::Continue(())
/// });
/// assert_eq!((lent, names.len()), ((1, ControlFlow::Continue(())), 1));
/// ```
///
/// It is for a read that continues on another thread: that thread fills buffers, and the caller's
/// thread lends them to its sink.
#[derive(Debug, Default)]
pub struct RowBuffer {
    /// The values of all rows, one after the other; each row has `width` of them.
    values: Vec<Copied>,
    /// The texts and JSON of all rows, one after the other.
    texts: String,
    /// The blobs and UUIDs of all rows, one after the other.
    bytes: Vec<u8>,
    /// The number of values of each row.
    width: usize,
    rows: usize,
}

/// A value of 16 bytes; for texts and bytes, their position and length. UUIDs are stored with the
/// bytes, as they would make every value larger.
#[derive(Clone, Copy, Debug)]
enum Copied {
    Absent,
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Currency(Currency),
    Text(u32, u32),
    Blob(u32, u32),
    Json(u32, u32),
    Date(Date),
    Time(Time),
    Timestamp(Timestamp),
    /// The position of its sixteen bytes.
    Uuid(u32),
}

impl RowBuffer {
    /// Copies a row. All rows of a buffer have the same width.
    ///
    /// # Panics
    /// If the rows of one buffer have more than 4 GiB of texts or of bytes.
    pub fn push(&mut self, row: &[ValueRef<'_>]) {
        self.width = row.len();
        self.rows += 1;
        self.values.reserve(row.len());
        for value in row {
            let copied = match *value {
                ValueRef::Absent => Copied::Absent,
                ValueRef::Null => Copied::Null,
                ValueRef::Bool(value) => Copied::Bool(value),
                ValueRef::Int(value) => Copied::Int(value),
                ValueRef::Float(value) => Copied::Float(value),
                ValueRef::Currency(value) => Copied::Currency(value),
                ValueRef::Text(text) => {
                    let (at, length) = self.text(text);
                    Copied::Text(at, length)
                }
                ValueRef::Json(text) => {
                    let (at, length) = self.text(text);
                    Copied::Json(at, length)
                }
                ValueRef::Blob(bytes) => {
                    let (at, length) = self.blob(bytes);
                    Copied::Blob(at, length)
                }
                ValueRef::Date(value) => Copied::Date(value),
                ValueRef::Time(value) => Copied::Time(value),
                ValueRef::Timestamp(value) => Copied::Timestamp(value),
                ValueRef::Uuid(value) => Copied::Uuid(self.blob(value.as_bytes()).0),
            };
            self.values.push(copied);
        }
    }

    /// Appends a text, and returns its position and length.
    #[inline]
    fn text(&mut self, text: &str) -> (u32, u32) {
        let place = (short(self.texts.len()), short(text.len()));
        self.texts.push_str(text);
        place
    }

    /// Appends bytes, and returns their position and length.
    #[inline]
    fn blob(&mut self, bytes: &[u8]) -> (u32, u32) {
        let place = (short(self.bytes.len()), short(bytes.len()));
        self.bytes.extend_from_slice(bytes);
        place
    }

    /// Lends the rows until the sink has enough, and returns how many were lent.
    ///
    /// The second value is `Break` if the sink has ended the read. Rows without columns are lent as
    /// empty slices.
    pub fn lend(&self, sink: &mut dyn RowSink) -> (u64, ControlFlow<()>) {
        if self.width == 0 {
            for lent in 1..=self.rows as u64 {
                if sink.row(&[]).is_break() {
                    return (lent, ControlFlow::Break(()));
                }
            }
            return (self.rows as u64, ControlFlow::Continue(()));
        }
        let mut row = vec![ValueRef::Absent; self.width];
        for (values, lent) in self.values.chunks_exact(self.width).zip(1..) {
            for (value, copied) in row.iter_mut().zip(values) {
                *value = self.value(*copied);
            }
            if sink.row(&row).is_break() {
                return (lent, ControlFlow::Break(()));
            }
        }
        (self.rows as u64, ControlFlow::Continue(()))
    }

    /// Returns a value as it was pushed, borrowed from the buffer.
    #[inline]
    fn value(&self, copied: Copied) -> ValueRef<'_> {
        let text = |at: u32, length: u32| &self.texts[at as usize..][..length as usize];
        match copied {
            Copied::Absent => ValueRef::Absent,
            Copied::Null => ValueRef::Null,
            Copied::Bool(value) => ValueRef::Bool(value),
            Copied::Int(value) => ValueRef::Int(value),
            Copied::Float(value) => ValueRef::Float(value),
            Copied::Currency(value) => ValueRef::Currency(value),
            Copied::Text(at, length) => ValueRef::Text(text(at, length)),
            Copied::Json(at, length) => ValueRef::Json(text(at, length)),
            Copied::Blob(at, length) => {
                ValueRef::Blob(&self.bytes[at as usize..][..length as usize])
            }
            Copied::Date(value) => ValueRef::Date(value),
            Copied::Time(value) => ValueRef::Time(value),
            Copied::Timestamp(value) => ValueRef::Timestamp(value),
            Copied::Uuid(at) => {
                let bytes = self.bytes[at as usize..].first_chunk();
                bytes.map_or(ValueRef::Null, |bytes| ValueRef::Uuid(Uuid::from_bytes(*bytes)))
            }
        }
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the size of its rows in bytes.
    ///
    /// Without the memory that is reserved for further rows.
    ///
    /// ```
    /// use marmota_model::ValueRef;
    /// use marmota_store::row_buffer::RowBuffer;
    /// let mut rows = RowBuffer::default();
    /// assert_eq!(rows.size(), 0);
    /// rows.push(&[ValueRef::Text("Ada")]);
    /// assert!(rows.size() >= 3);
    /// rows.clear();
    /// assert_eq!((rows.rows(), rows.size()), (0, 0));
    /// ```
    #[must_use]
    pub fn size(&self) -> usize {
        self.values.len() * size_of::<Copied>() + self.texts.len() + self.bytes.len()
    }

    /// Removes its rows and keeps their memory.
    pub fn clear(&mut self) {
        self.values.clear();
        self.texts.clear();
        self.bytes.clear();
        self.rows = 0;
    }
}

/// Converts a length; see the panics of [`RowBuffer::push`].
fn short(length: usize) -> u32 {
    #[expect(clippy::expect_used, reason = "buffers are passed on long before")]
    u32::try_from(length).expect("a row buffer has less than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back() {
        let uuid = Uuid::from_bytes([7; 16]);
        let row = [
            ValueRef::Absent,
            ValueRef::Null,
            ValueRef::Bool(true),
            ValueRef::Int(-5),
            ValueRef::Float(0.5),
            ValueRef::Currency(Currency::from_scaled(12_345)),
            ValueRef::Text("müde"),
            ValueRef::Blob(&[0, 255]),
            ValueRef::Json("[1]"),
            ValueRef::Date(Date::from_days(3).unwrap()),
            ValueRef::Time(Time::from_micros(9).unwrap()),
            ValueRef::Timestamp(Timestamp::from_micros(11).unwrap()),
            ValueRef::Uuid(uuid),
        ];
        let mut rows = RowBuffer::default();
        rows.push(&[ValueRef::Text("x"); 13]);
        rows.clear();
        rows.push(&row);
        rows.push(&row);
        let mut seen = 0;
        let (lent, _) = rows.lend(&mut |lent: &[ValueRef<'_>]| {
            assert_eq!(lent, row);
            seen += 1;
            ControlFlow::Continue(())
        });
        assert_eq!((lent, seen, rows.rows()), (2, 2, 2));
        let (lent, flow) = rows.lend(&mut |_: &[ValueRef<'_>]| ControlFlow::Break(()));
        assert_eq!((lent, flow), (1, ControlFlow::Break(())));
    }

    #[test]
    fn rows_of_no_values_are_counted() {
        let mut rows = RowBuffer::default();
        rows.push(&[]);
        rows.push(&[]);
        let (lent, _) = rows.lend(&mut |_: &[ValueRef<'_>]| ControlFlow::Continue(()));
        assert_eq!(lent, 2);
    }
}
