//! The line buffer of a row: its members are assembled in a small buffer, in words of eight bytes,
//! and appended at once. Appending each member separately takes two calls that copy a few bytes,
//! half of the time of a list of rows.

use crate::scalar::digits::{Room, put_signed};
use crate::table::JsonMember;
use crate::value::json::{is_escaped, write_string, write_value};
use crate::value::vector;
use crate::{EnumStored, FieldSet, Kind, Table, ValueRef};

/// The size of the buffer.
const LINE_BYTES: usize = 1024;
/// The space for a value: any number, date or time, and most texts.
const VALUE_BYTES: usize = 80;
/// The longest text that is copied in words.
const TEXT_BYTES_MAX: usize = VALUE_BYTES - 16;
/// The space for a member with such a value and a short name.
const MEMBER_BYTES: usize = JsonMember::SHORT + VALUE_BYTES;

/// A writer of rows as JSON objects. It keeps only its buffer from one row to the next.
///
/// ```
/// # use marmota_model::{Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("person", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("name", Kind::TEXT),
/// #     Field::new("born", Kind::Date).nullable(true)]))?;
/// use marmota_model::ValueRef;
/// use marmota_model::json::RowWriter;
/// let (mut writer, mut out) = (RowWriter::new(), Vec::new());
/// for name in ["Ada", "Grace"] {
///     let row = [ValueRef::Absent, ValueRef::Text(name), ValueRef::Absent];
///     writer.write(&mut out, &table, table.all(), &row);
///     out.push(b'\n');
/// }
/// assert_eq!(out, b"{\"name\":\"Ada\"}\n{\"name\":\"Grace\"}\n");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Debug)]
pub struct RowWriter {
    bytes: [u8; LINE_BYTES],
    length: usize,
}

impl Default for RowWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl RowWriter {
    /// Creates a writer of rows.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; LINE_BYTES], length: 0 }
    }

    /// Appends `fields` of a row as an object; absent fields are left out.
    pub fn write(
        &mut self,
        out: &mut Vec<u8>,
        table: &Table,
        fields: FieldSet,
        row: &[ValueRef<'_>],
    ) {
        self.length = 0;
        let mut first = true;
        for (position, (value, member)) in row.iter().zip(table.json_members()).enumerate() {
            if !value.is_absent() && fields.contains(position) {
                let separator = if first { b'{' } else { b',' };
                first = false;
                self.member(out, separator, table, position, member, *value);
            }
        }
        if first {
            out.push(b'{');
        }
        // Each member leaves space for it.
        if let Some(end) = self.bytes.get_mut(self.length) {
            *end = b'}';
            self.length += 1;
        }
        self.flush(out);
    }

    #[inline(always)]
    fn member(
        &mut self,
        out: &mut Vec<u8>,
        separator: u8,
        table: &Table,
        position: usize,
        member: &JsonMember,
        value: ValueRef<'_>,
    ) {
        if self.length > LINE_BYTES - MEMBER_BYTES {
            self.flush(out);
        }
        let space = self.bytes[self.length..].first_chunk_mut::<MEMBER_BYTES>();
        if let (Some(space), Some(name)) = (space, member.short()) {
            space[..JsonMember::SHORT].copy_from_slice(name);
            space[0] = separator;
            let length = member.length();
            let to = space[length..].first_chunk_mut::<VALUE_BYTES>();
            if let Some(written) = to.and_then(|to| put(to, member, value)) {
                self.length += length + written;
                return;
            }
        }
        // A long name, or a value that is long or of a rare type.
        self.flush(out);
        out.push(separator);
        out.extend_from_slice(table.json_key(position));
        write_value_as(out, &table.fields()[position].kind, value);
    }

    #[inline(always)]
    fn flush(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[..self.length]);
        self.length = 0;
    }
}

/// Appends a value of `kind`: an enum that is stored as a number is written as its name.
///
/// ```
/// use marmota_model::json::write_value_as;
/// use marmota_model::{EnumStored, Kind, ValueRef, Variant};
/// let variants = vec![Variant { name: "open".into(), number: 1 }];
/// let state = Kind::Enum { variants: variants.into(), stored: EnumStored::Integer };
/// let mut out = Vec::new();
/// write_value_as(&mut out, &state, ValueRef::Int(1));
/// assert_eq!(out, b"\"open\"");
/// ```
pub fn write_value_as(out: &mut Vec<u8>, kind: &Kind, value: ValueRef<'_>) {
    if let (Kind::Enum { variants, stored: EnumStored::Integer }, ValueRef::Int(number)) =
        (kind, value)
        && let Some(variant) = variants.iter().find(|variant| variant.number == number)
    {
        return write_string(out, &variant.name);
    }
    if let (Kind::Vector { .. }, ValueRef::Blob(bytes)) = (kind, value) {
        return vector::write_json(out, bytes);
    }
    write_value(out, value);
}

/// Writes a value if it fits and needs no escaping. Returns the number of bytes written.
#[inline(always)]
fn put(to: &mut [u8; VALUE_BYTES], member: &JsonMember, value: ValueRef<'_>) -> Option<usize> {
    match value {
        ValueRef::Int(_) if member.has_names() => None,
        ValueRef::Int(number) => Some(put_signed(to.first_chunk_mut()?, number)),
        ValueRef::Text(text) => put_text(to, text.as_bytes()),
        ValueRef::Timestamp(at) => put_quoted(to, |to| at.put(to)),
        ValueRef::Currency(amount) => Some(amount.put(to.first_chunk_mut()?)),
        ValueRef::Bool(true) => Some(put_word(to, *b"true")),
        ValueRef::Bool(false) => Some(put_word(to, *b"false")),
        ValueRef::Null => Some(put_word(to, *b"null")),
        ValueRef::Date(day) => put_quoted(to, |to| day.put(to)),
        ValueRef::Time(time) => put_quoted(to, |to| time.put(to)),
        _ => None,
    }
}

#[inline(always)]
fn put_word<const N: usize>(to: &mut [u8; VALUE_BYTES], word: [u8; N]) -> usize {
    to[..N].copy_from_slice(&word);
    N
}

#[inline(always)]
fn put_quoted(to: &mut [u8; VALUE_BYTES], put: impl FnOnce(&mut Room) -> usize) -> Option<usize> {
    to[0] = b'"';
    let length = put(to[1..].first_chunk_mut()?);
    to[1 + length] = b'"';
    Some(length + 2)
}

/// Writes a text in quotes, unless it is long or needs escaping.
#[inline(always)]
fn put_text(to: &mut [u8; VALUE_BYTES], text: &[u8]) -> Option<usize> {
    let length = text.len();
    if length > TEXT_BYTES_MAX {
        return None;
    }
    to[0] = b'"';
    let mut escaped = 0;
    if let Some(last) = text.last_chunk::<8>() {
        // The last word overlaps the previous one.
        for (at, word) in text.chunks_exact(8).enumerate() {
            let word: [u8; 8] = word.try_into().ok()?;
            escaped |= escaped_bytes(u64::from_ne_bytes(word));
            to[1 + at * 8..9 + at * 8].copy_from_slice(&word);
        }
        escaped |= escaped_bytes(u64::from_ne_bytes(*last));
        to[length - 7..=length].copy_from_slice(last);
    } else if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        let both =
            u64::from(u32::from_ne_bytes(*first)) | u64::from(u32::from_ne_bytes(*last)) << 32;
        escaped = escaped_bytes(both);
        to[1..5].copy_from_slice(first);
        to[length - 3..=length].copy_from_slice(last);
    } else {
        for (to, byte) in to[1..].iter_mut().zip(text) {
            escaped |= u64::from(is_escaped(*byte));
            *to = *byte;
        }
    }
    to[1 + length] = b'"';
    (escaped == 0).then_some(length + 2)
}

/// Returns zero if no byte of a word needs escaping.
#[inline(always)]
const fn escaped_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    // A byte less than a space, and a zero byte, borrow from their high bit. A borrow from a
    // neighbour occurs only if there is such a byte.
    let below_space = word.wrapping_sub(ONES * b' ' as u64) & !word;
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let quotes = quote.wrapping_sub(ONES) & !quote;
    let backslashes = backslash.wrapping_sub(ONES) & !backslash;
    (below_space | quotes | backslashes) & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Currency, Date, Field, Kind, Role, Schema, Time, Timestamp, Value};
    use proptest::prelude::*;

    fn table() -> Table {
        let long = "a_name_that_is_longer_than_what_is_copied_at_once";
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("name", Kind::TEXT),
            Field::new(long, Kind::TEXT),
            Field::new("a", Kind::Timestamp),
            Field::new("b", Kind::Currency),
            Field::new("c", Kind::Bool),
            Field::new("d", Kind::Date),
            Field::new("e", Kind::Time),
            Field::new("f", Kind::Float),
            Field::new("g", Kind::Blob),
        ];
        Table::new(Schema::new("row", fields)).unwrap()
    }

    /// Writes a row member by member, with the function for single values.
    fn plainly(table: &Table, fields: FieldSet, row: &[ValueRef<'_>]) -> String {
        let mut out = Vec::new();
        for position in fields.iter().filter(|&position| !row[position].is_absent()) {
            out.push(if out.is_empty() { b'{' } else { b',' });
            out.extend_from_slice(table.json_key(position));
            write_value_as(&mut out, &table.fields()[position].kind, row[position]);
        }
        if out.is_empty() {
            out.push(b'{');
        }
        out.push(b'}');
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn a_row_is_its_members(
            id: i64,
            name in "[ -~]{0,9}|[a-z]{0,70}|\\PC{0,30}|[\\x00-\\x7f]{0,20}",
            other in "[a-z]{0,9}|[a-z]{0,2000}|[^\"]{0,12}[\"\\\\]?",
            days in -700_000..2_900_000,
            micros in 0..86_400_000_000_i64,
            scaled: i64,
            seen: u16,
            shown: u16,
        ) {
            let table = table();
            let at = i64::from(days) * 86_400_000_000 + micros;
            let values = [
                Value::Int(id),
                Value::Text(name),
                Value::Text(other),
                Value::Timestamp(Timestamp::from_micros(at).unwrap()),
                Value::Currency(Currency::from_scaled(scaled)),
                Value::Bool(scaled % 2 == 0),
                Value::Date(Date::from_days(days).unwrap()),
                Value::Time(Time::from_micros(micros).unwrap()),
                Value::Float(scaled as f64 / 3.0),
                Value::Blob(id.to_le_bytes().to_vec()),
            ];
            let mut row: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
            for (position, value) in row.iter_mut().enumerate() {
                match (seen >> position & 1, days % 5) {
                    (0, 0) => *value = ValueRef::Null,
                    (0, 1) => *value = ValueRef::Absent,
                    _ => {}
                }
            }
            let fields: FieldSet = (0..row.len()).filter(|at| shown >> at & 1 == 1).collect();
            let (mut writer, mut out) = (RowWriter::new(), b"[".to_vec());
            for _ in 0..2 {
                out.truncate(1);
                writer.write(&mut out, &table, fields, &row);
            }
            let out = String::from_utf8(out).unwrap();
            prop_assert_eq!(&out[1..], &plainly(&table, fields, &row));
            prop_assert!(serde_json::from_str::<serde_json::Value>(&out[1..]).is_ok());
        }

        #[test]
        fn what_must_be_escaped_is_found(bytes: [u8; 8]) {
            let any = bytes.iter().any(|&byte| is_escaped(byte));
            prop_assert_eq!(escaped_bytes(u64::from_ne_bytes(bytes)) != 0, any);
        }
    }
}
