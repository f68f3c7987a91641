//! Cells of a row, borrowed from the packet in which the server sent them.

use std::io;

use mysql::consts::{ColumnFlags, ColumnType};
use mysql::{Column, Value};

/// A value in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell<'p> {
    Null,
    Int(i64),
    UInt(u64),
    Float(f32),
    Double(f64),
    Bytes(&'p [u8]),
    /// Year, month, day, hour, minute, second, microseconds.
    Date(u16, u8, u8, u8, u8, u8, u32),
    /// True if it is negative, days, hours, minutes, seconds, microseconds.
    Time(bool, u32, u8, u8, u8, u32),
}

impl<'p> From<&'p Value> for Cell<'p> {
    fn from(value: &'p Value) -> Self {
        match *value {
            Value::NULL => Self::Null,
            Value::Int(value) => Self::Int(value),
            Value::UInt(value) => Self::UInt(value),
            Value::Float(value) => Self::Float(value),
            Value::Double(value) => Self::Double(value),
            Value::Bytes(ref bytes) => Self::Bytes(bytes),
            Value::Date(year, month, day, hour, minute, second, micros) => {
                Self::Date(year, month, day, hour, minute, second, micros)
            }
            Value::Time(is_negative, days, hours, minutes, seconds, micros) => {
                Self::Time(is_negative, days, hours, minutes, seconds, micros)
            }
        }
    }
}

/// Returns the cells of a packet with a row of a prepared statement.
///
/// # Errors
/// The packet is not such a row.
pub(crate) fn cells<'p>(packet: &'p [u8], columns: &[Column]) -> io::Result<Vec<Cell<'p>>> {
    let mut rest = Reader(packet);
    // The kind of the packet, then a bit for each column that is NULL, from the third on.
    rest.take(1)?;
    let nulls = rest.take((columns.len() + 2).div_ceil(8))?;
    let is_null = |at: usize| nulls[(at + 2) / 8] >> ((at + 2) % 8) & 1 != 0;
    let mut cells = Vec::with_capacity(columns.len());
    for (at, column) in columns.iter().enumerate() {
        cells.push(if is_null(at) { Cell::Null } else { rest.cell(column)? });
    }
    Ok(cells)
}

/// The part of a packet that was not read yet.
struct Reader<'p>(&'p [u8]);

impl<'p> Reader<'p> {
    fn take(&mut self, bytes: usize) -> io::Result<&'p [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or_else(invalid)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(invalid)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn cell(&mut self, column: &Column) -> io::Result<Cell<'p>> {
        let is_unsigned = column.flags().contains(ColumnFlags::UNSIGNED_FLAG);
        Ok(match column.column_type() {
            ColumnType::MYSQL_TYPE_TINY => {
                let [byte] = self.array()?;
                Cell::Int(if is_unsigned { byte.into() } else { i8::from_le_bytes([byte]).into() })
            }
            ColumnType::MYSQL_TYPE_SHORT | ColumnType::MYSQL_TYPE_YEAR => {
                let bytes = self.array()?;
                Cell::Int(match is_unsigned {
                    true => u16::from_le_bytes(bytes).into(),
                    false => i16::from_le_bytes(bytes).into(),
                })
            }
            ColumnType::MYSQL_TYPE_LONG | ColumnType::MYSQL_TYPE_INT24 => {
                let bytes = self.array()?;
                Cell::Int(match is_unsigned {
                    true => u32::from_le_bytes(bytes).into(),
                    false => i32::from_le_bytes(bytes).into(),
                })
            }
            ColumnType::MYSQL_TYPE_LONGLONG => {
                let bytes = self.array()?;
                match is_unsigned {
                    true => Cell::UInt(u64::from_le_bytes(bytes)),
                    false => Cell::Int(i64::from_le_bytes(bytes)),
                }
            }
            ColumnType::MYSQL_TYPE_FLOAT => Cell::Float(f32::from_le_bytes(self.array()?)),
            ColumnType::MYSQL_TYPE_DOUBLE => Cell::Double(f64::from_le_bytes(self.array()?)),
            ColumnType::MYSQL_TYPE_DATE
            | ColumnType::MYSQL_TYPE_DATETIME
            | ColumnType::MYSQL_TYPE_TIMESTAMP => self.date()?,
            ColumnType::MYSQL_TYPE_TIME => self.time()?,
            ColumnType::MYSQL_TYPE_NULL => Cell::Null,
            _ => {
                let length = usize::try_from(self.length()?).map_err(|_| invalid())?;
                Cell::Bytes(self.take(length)?)
            }
        })
    }

    /// Reads a date; the parts at the end are left out if they are zero.
    fn date(&mut self) -> io::Result<Cell<'p>> {
        let [length] = self.array()?;
        let mut parts = Reader(self.take(length.into())?);
        if length == 0 {
            return Ok(Cell::Date(0, 0, 0, 0, 0, 0, 0));
        }
        let year = u16::from_le_bytes(parts.array()?);
        let [month, day] = parts.array()?;
        let [hour, minute, second] = if length > 4 { parts.array()? } else { [0; 3] };
        let micros = if length > 7 { u32::from_le_bytes(parts.array()?) } else { 0 };
        Ok(Cell::Date(year, month, day, hour, minute, second, micros))
    }

    fn time(&mut self) -> io::Result<Cell<'p>> {
        let [length] = self.array()?;
        let mut parts = Reader(self.take(length.into())?);
        if length == 0 {
            return Ok(Cell::Time(false, 0, 0, 0, 0, 0));
        }
        let [is_negative] = parts.array()?;
        let days = u32::from_le_bytes(parts.array()?);
        let [hours, minutes, seconds] = parts.array()?;
        let micros = if length > 8 { u32::from_le_bytes(parts.array()?) } else { 0 };
        Ok(Cell::Time(is_negative == 1, days, hours, minutes, seconds, micros))
    }

    /// Reads the length of a text.
    fn length(&mut self) -> io::Result<u64> {
        let [first] = self.array()?;
        Ok(match first {
            0xfc => u16::from_le_bytes(self.array()?).into(),
            0xfd => {
                let [low, middle, high] = self.array()?;
                u32::from_le_bytes([low, middle, high, 0]).into()
            }
            0xfe => u64::from_le_bytes(self.array()?),
            0xfb | 0xff => return Err(invalid()),
            length => length.into(),
        })
    }
}

#[cold]
fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the server sent an invalid row")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(types: &[(ColumnType, ColumnFlags)]) -> Vec<Column> {
        types.iter().map(|&(of, flags)| Column::new(of).with_flags(flags)).collect()
    }

    #[test]
    fn a_row_of_each_type_is_read_and_every_shorter_packet_is_refused() {
        let unsigned = ColumnFlags::UNSIGNED_FLAG;
        let none = ColumnFlags::empty();
        let columns = columns(&[
            (ColumnType::MYSQL_TYPE_TINY, none),
            (ColumnType::MYSQL_TYPE_SHORT, unsigned),
            (ColumnType::MYSQL_TYPE_LONGLONG, unsigned),
            (ColumnType::MYSQL_TYPE_DOUBLE, none),
            (ColumnType::MYSQL_TYPE_VAR_STRING, none),
            (ColumnType::MYSQL_TYPE_BLOB, none),
            (ColumnType::MYSQL_TYPE_DATETIME, none),
            (ColumnType::MYSQL_TYPE_TIME, none),
        ]);
        // The text is NULL: the seventh bit, since two precede the first column.
        let mut packet = vec![0, 0b0100_0000, 0, 0xff, 0xff, 0xff];
        packet.extend([0xff; 8]);
        packet.extend(1.5_f64.to_le_bytes());
        packet.extend([2, b'a', b'b']);
        packet.extend([11, 0xea, 0x07, 11, 28, 12, 30, 59, 1, 0, 0, 0]);
        packet.extend([8, 1, 2, 0, 0, 0, 3, 4, 5]);
        let read = cells(&packet, &columns).unwrap();
        let expected = [
            Cell::Int(-1),
            Cell::Int(65_535),
            Cell::UInt(u64::MAX),
            Cell::Double(1.5),
            Cell::Null,
            Cell::Bytes(b"ab"),
            Cell::Date(2026, 11, 28, 12, 30, 59, 1),
            Cell::Time(true, 2, 3, 4, 5, 0),
        ];
        assert_eq!(read, expected);
        assert!((0..packet.len()).all(|length| cells(&packet[..length], &columns).is_err()));
    }
}
