//! Reads the values of a record, which is a row as SQLite stores it, one after the other
//! (<https://sqlite.org/fileformat.html#record_format>).

use super::value::{Bound, StoredCell};

/// The remaining values of a record.
pub(crate) struct Record<'r> {
    /// The types of the remaining values.
    header: &'r [u8],
    /// The remaining values.
    body: &'r [u8],
    /// The next column.
    column: usize,
    /// The column of the row id, which is NULL in the record, and the row id.
    key: Option<(usize, i64)>,
}

impl<'r> Record<'r> {
    /// Reads the length of the header. `key` is the column of the row id and its value. `None` for
    /// bytes that are not a record.
    #[inline]
    pub(super) fn new(bytes: &'r [u8], key: Option<(usize, i64)>) -> Option<Self> {
        let mut header = bytes;
        let length = varint(&mut header)?;
        let (head, body) = bytes.split_at_checked(length)?;
        let header = head.get(bytes.len() - header.len()..)?;
        Some(Self { header, body, column: 0, key })
    }

    /// Reads the next value. `None` after the last one, or for bytes that are not a record.
    #[inline]
    pub(crate) fn next<T>(&mut self, read: impl FnOnce(StoredCell<'_>) -> T) -> Option<T> {
        let value = self.value()?;
        let key = self.key.filter(|(column, _)| *column == self.column);
        self.column += 1;
        let value = key.map_or(value, |(_, key)| Bound::int(key));
        Some(read(StoredCell::of(&value.cell)))
    }

    #[inline]
    fn value(&mut self) -> Option<Bound<'r>> {
        Some(match varint(&mut self.header)? {
            0 => Bound::NULL,
            kind @ 1..=4 => self.integer(kind)?,
            5 => self.integer(6)?,
            6 => self.integer(8)?,
            7 => {
                let bits = u64::from_be_bytes(*self.take(8)?.first_chunk()?);
                Bound::float(f64::from_bits(bits))
            }
            kind @ (8 | 9) => Bound::int(kind as i64 - 8),
            10 | 11 => return None,
            kind if kind % 2 == 0 => Bound::blob(self.take((kind - 12) / 2)?),
            kind => Bound::stored_text(self.take((kind - 13) / 2)?),
        })
    }

    #[inline]
    fn integer(&mut self, size: usize) -> Option<Bound<'r>> {
        let bytes = self.take(size)?;
        let negative = bytes.first()? & 0x80 != 0;
        let start = if negative { -1 } else { 0 };
        let shifted = |integer: i64, byte: &u8| integer << 8 | i64::from(*byte);
        Some(Bound::int(bytes.iter().fold(start, shifted)))
    }

    #[inline]
    fn take(&mut self, size: usize) -> Option<&'r [u8]> {
        let (taken, rest) = self.body.split_at_checked(size)?;
        self.body = rest;
        Some(taken)
    }
}

/// Reads an integer of variable length that is a size: at most four bytes.
#[inline]
fn varint(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for _ in 0..4 {
        let (&first, rest) = bytes.split_first()?;
        *bytes = rest;
        number = number << 7 | usize::from(first & 0x7F);
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ffi::Stored;

    /// Reads all values as text.
    fn values(bytes: &[u8], key: Option<(usize, i64)>) -> Option<Vec<String>> {
        let mut record = Record::new(bytes, key)?;
        let mut values = Vec::new();
        while !record.header.is_empty() {
            values.push(record.next(|cell| format!("{:?}", cell.stored()))?);
        }
        Some(values)
    }

    #[test]
    fn values_of_all_types_are_read() {
        let record = [
            &[11, 0, 1, 2, 3, 4, 5, 6, 7, 9, 15][..],
            &[0xFF],
            &[0x80, 0x00],
            &[0x7F, 0xFF, 0xFF],
            &[0x80, 0, 0, 0],
            &[0, 1, 0, 0, 0, 0],
            &[0xFF; 8],
            &1.5_f64.to_be_bytes(),
            b"a",
        ]
        .concat();
        let stored = [
            Stored::Integer(7),
            Stored::Integer(-1),
            Stored::Integer(-32_768),
            Stored::Integer(8_388_607),
            Stored::Integer(-2_147_483_648),
            Stored::Integer(1 << 32),
            Stored::Integer(-1),
            Stored::Real(1.5),
            Stored::Integer(1),
            Stored::Text(b"a"),
        ];
        let expected: Vec<String> = stored.iter().map(|value| format!("{value:?}")).collect();
        assert_eq!(values(&record, Some((0, 7))), Some(expected));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = values(&bytes, None);
        }
    }
}
