//! The binary file of a memory engine.
//!
//! ```text
//! file     magic (8 bytes), version u32, zstd frame, its content's length u64, crc32 of all before u32
//! content  schema u32, tables u32, { table }
//! table    name, fields u16, { name, form u8 }, { block }, 0 u32
//! block    bytes u32 (not 0), rows u32, { row }
//! row      a bit a field for NULL, then the values that are not
//! name     bytes u8, UTF-8
//! ```
//! All integers are little-endian. In rows, integers are of variable length
//! with the sign in the lowest bit, texts and bytes have theirs in front. The
//! fields have their names and forms, so that a file is read by position of
//! name, and what does not fit the model is refused. No length is trusted:
//! memory is taken for what is there, not for what is announced.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::Arc;

use marmota_model::{Currency, Date, Error, ErrorKind, Result, Time, Timestamp, Uuid, ValueRef};
use smallvec::smallvec;

use super::file::{self, Contents, Section as AnySection, other_format};
use super::layout::Form;
use super::table_rows::{TableRows, Values};

const MAGIC: &[u8; 8] = b"MARMOTA\0";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 12;
const TAIL_BYTES: usize = 12;
/// A block is closed once it has this many bytes.
const BLOCK_BYTES: usize = 1 << 16;
const LEVEL: i32 = 3;

/// One table of a file, not yet read.
pub(super) struct Section {
    content: Arc<Vec<u8>>,
    fields: Vec<(String, Form)>,
    /// Where the rows of each block are, and how many.
    blocks: Vec<(Range<usize>, u32)>,
}

const fn form_number(form: Form) -> u8 {
    match form {
        Form::Bool => 1,
        Form::Int => 2,
        Form::Float => 3,
        Form::Currency => 4,
        Form::Text => 5,
        Form::Json => 6,
        Form::Blob => 7,
        Form::Date => 8,
        Form::Time => 9,
        Form::Timestamp => 10,
        Form::Uuid => 11,
    }
}

fn form_of_number(number: u8) -> Option<Form> {
    use Form::{Blob, Bool, Currency, Date, Float, Int, Json, Text, Time, Timestamp, Uuid};
    [Bool, Int, Float, Currency, Text, Json, Blob, Date, Time, Timestamp, Uuid]
        .into_iter()
        .find(|&form| form_number(form) == number)
}

/// Passes bytes on, and counts and sums them.
struct Summed<W> {
    out: W,
    sum: crc32fast::Hasher,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes the file.
///
/// # Errors
/// The outer one for what cannot be written so, the inner one for what the
/// file would not take.
pub(super) fn write(out: &mut impl Write, contents: &Contents<'_>) -> Result<io::Result<()>> {
    for (name, section) in contents.sections {
        if !matches!(section, AnySection::Binary(_)) {
            return Err(other_format(name, "binary"));
        }
    }
    Ok(write_file(out, contents))
}

fn write_file(out: &mut impl Write, contents: &Contents<'_>) -> io::Result<()> {
    let mut out = Summed { out, sum: crc32fast::Hasher::new() };
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    let mut content = Content { out: zstd::Encoder::new(&mut out, LEVEL)?, bytes: 0 };
    content.write_all(&contents.schema.to_le_bytes())?;
    let tables = contents.tables.len() + contents.sections.len();
    content.write_all(&(tables as u32).to_le_bytes())?;
    for rows in &contents.tables {
        write_table(&mut content, rows)?;
    }
    for (name, section) in contents.sections {
        if let AnySection::Binary(section) = section {
            section.write(&mut content, name)?;
        }
    }
    let bytes = content.bytes;
    content.out.finish()?;
    out.write_all(&bytes.to_le_bytes())?;
    let sum = out.sum.clone().finalize();
    out.write_all(&sum.to_le_bytes())
}

/// The content, which is compressed, and how long it is.
struct Content<'w, W: Write> {
    out: zstd::Encoder<'w, W>,
    bytes: u64,
}

impl<W: Write> Write for Content<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn write_name(out: &mut impl Write, name: &str) -> io::Result<()> {
    // Names have at most 63 bytes.
    out.write_all(&[name.len() as u8])?;
    out.write_all(name.as_bytes())
}

fn write_head<'n>(
    out: &mut impl Write,
    name: &str,
    fields: impl ExactSizeIterator<Item = (&'n str, Form)>,
) -> io::Result<()> {
    write_name(out, name)?;
    out.write_all(&(fields.len() as u16).to_le_bytes())?;
    for (name, form) in fields {
        write_name(out, name)?;
        out.write_all(&[form_number(form)])?;
    }
    Ok(())
}

fn write_block(out: &mut impl Write, block: &[u8], rows: u32) -> io::Result<()> {
    out.write_all(&(block.len() as u32).to_le_bytes())?;
    out.write_all(&rows.to_le_bytes())?;
    out.write_all(block)
}

fn write_table(out: &mut impl Write, rows: &TableRows) -> io::Result<()> {
    let columns = rows.pages.layout.columns.iter();
    let fields = rows.table.fields().iter().zip(columns);
    write_head(out, rows.table.name(), fields.map(|(field, column)| (&*field.name, column.form)))?;
    let (mut block, mut count) = (Vec::new(), 0);
    rows.try_each(|row| {
        write_row(&mut block, row);
        count += 1;
        if block.len() >= BLOCK_BYTES {
            write_block(out, &block, count)?;
            block.clear();
            count = 0;
        }
        Ok::<_, io::Error>(())
    })?;
    if count > 0 {
        write_block(out, &block, count)?;
    }
    out.write_all(&0_u32.to_le_bytes())
}

fn write_row(out: &mut Vec<u8>, row: &[ValueRef<'_>]) {
    for eight in row.chunks(8) {
        let bit = |(at, value): (usize, &ValueRef<'_>)| u8::from(value.is_null()) << at;
        out.push(eight.iter().enumerate().map(bit).sum());
    }
    for &value in row {
        match value {
            ValueRef::Absent | ValueRef::Null => {}
            ValueRef::Bool(value) => out.push(u8::from(value)),
            ValueRef::Int(value) => write_int(out, value),
            ValueRef::Float(value) => out.extend_from_slice(&value.to_bits().to_le_bytes()),
            ValueRef::Currency(value) => write_int(out, value.scaled()),
            ValueRef::Date(value) => write_int(out, i64::from(value.days())),
            ValueRef::Time(value) => write_int(out, value.micros()),
            ValueRef::Timestamp(value) => write_int(out, value.micros()),
            ValueRef::Uuid(value) => out.extend_from_slice(value.as_bytes()),
            ValueRef::Text(text) | ValueRef::Json(text) => write_bytes(out, text.as_bytes()),
            ValueRef::Blob(bytes) => write_bytes(out, bytes),
        }
    }
}

fn write_int(out: &mut Vec<u8>, value: i64) {
    write_unsigned(out, (value << 1 ^ value >> 63) as u64);
}

fn write_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_unsigned(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads the file; the error is what is wrong with it.
pub(super) fn load(bytes: &[u8]) -> Result<file::Read, String> {
    if bytes.get(..MAGIC.len()) != Some(MAGIC) {
        return Err("is no file of the memory engine".to_owned());
    }
    let mut head = Bytes { rest: &bytes[MAGIC.len()..] };
    let version = head.u32().ok_or("is cut short")?;
    if version != VERSION {
        return Err(format!(
            "has the file version {version}, and this program reads {VERSION}: use the program \
             that wrote it, or a newer one"
        ));
    }
    if bytes.len() < HEAD_BYTES + TAIL_BYTES {
        return Err("is cut short".to_owned());
    }
    let (summed, sum) = bytes.split_at(bytes.len() - 4);
    if crc32fast::hash(summed).to_le_bytes() != sum {
        return Err("is damaged or cut short: its checksum is another; restore a copy".to_owned());
    }
    let (frame, length) = summed[HEAD_BYTES..].split_at(summed.len() - HEAD_BYTES - 8);
    let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
    let mut content = Vec::new();
    let decoded = zstd::Decoder::with_buffer(frame)
        .and_then(|decoder| decoder.take(length.saturating_add(1)).read_to_end(&mut content));
    match decoded {
        Ok(read) if read as u64 == length => {}
        Ok(_) => return Err("is damaged: its content is not as long as it says".to_owned()),
        Err(error) => return Err(format!("is damaged: {error}")),
    }
    load_content(&Arc::new(content)).ok_or_else(|| "is damaged: a table makes no sense".to_owned())
}

fn load_content(content: &Arc<Vec<u8>>) -> Option<file::Read> {
    let mut bytes = Bytes { rest: content };
    let schema = bytes.u32()?;
    let count = bytes.u32()?;
    let mut tables = BTreeMap::new();
    for _ in 0..count {
        let name = bytes.name()?;
        let mut fields = Vec::new();
        for _ in 0..bytes.u16()? {
            let field = bytes.name()?;
            fields.push((field, form_of_number(bytes.u8()?)?));
        }
        let mut blocks = Vec::new();
        loop {
            let length = bytes.u32()? as usize;
            if length == 0 {
                break;
            }
            let rows = bytes.u32()?;
            let start = content.len() - bytes.rest.len();
            bytes.take(length)?;
            blocks.push((start..start + length, rows));
        }
        let section = Section { content: Arc::clone(content), fields, blocks };
        if tables.insert(name, AnySection::Binary(section)).is_some() {
            return None;
        }
    }
    bytes.rest.is_empty().then_some((schema, tables))
}

impl Section {
    /// Writes it as it was read.
    fn write(&self, out: &mut impl Write, name: &str) -> io::Result<()> {
        write_head(out, name, self.fields.iter().map(|(name, form)| (&**name, *form)))?;
        for (range, rows) in &self.blocks {
            write_block(out, &self.content[range.clone()], *rows)?;
        }
        out.write_all(&0_u32.to_le_bytes())
    }

    /// Puts the rows into an empty table.
    pub(super) fn fill(&self, rows: &mut TableRows) -> Result<()> {
        let table = Arc::clone(&rows.table);
        let refuse = |what: String| {
            let message = format!("`{}` does not fit its model: {what}", table.name());
            Error::new(ErrorKind::Invalid, message)
        };
        let mut places = Vec::with_capacity(self.fields.len());
        for (name, form) in &self.fields {
            let place = table.find(name).ok_or_else(|| {
                refuse(format!("the model has no field `{name}`; keep it, or its values are lost"))
            })?;
            if rows.pages.layout.columns[place].form != *form {
                let kind = table.fields()[place].kind.name();
                return Err(refuse(format!("field `{name}` was {form:?} and is {kind}")));
            }
            places.push(place);
        }
        for (range, count) in &self.blocks {
            let mut bytes = Bytes { rest: &self.content[range.clone()] };
            for _ in 0..*count {
                let mut row: Values<'_> = smallvec![ValueRef::Absent; table.fields().len()];
                bytes
                    .row(&self.fields, &places, &mut row)
                    .ok_or_else(|| refuse("a row is damaged".to_owned()))?;
                rows.insert_loaded(&row).map_err(|error| refuse(error.to_string()))?;
            }
            if !bytes.rest.is_empty() {
                return Err(refuse("a block has more than its rows".to_owned()));
            }
        }
        Ok(())
    }
}

/// Bytes that are read from the front; none where they end too soon.
struct Bytes<'b> {
    rest: &'b [u8],
}

impl<'b> Bytes<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn name(&mut self) -> Option<String> {
        let length = self.u8()?;
        String::from_utf8(self.take(length.into())?.to_vec()).ok()
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7F);
            if shift == 63 && part > 1 {
                return None;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn int(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = self.unsigned()?;
        self.take(usize::try_from(length).ok()?)
    }

    fn text(&mut self) -> Option<&'b str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn row(
        &mut self,
        fields: &[(String, Form)],
        places: &[usize],
        row: &mut [ValueRef<'b>],
    ) -> Option<()> {
        let nulls = self.take(fields.len().div_ceil(8))?;
        for (at, (&(_, form), &place)) in fields.iter().zip(places).enumerate() {
            let null = nulls[at / 8] >> (at % 8) & 1 == 1;
            row[place] = if null { ValueRef::Null } else { self.value(form)? };
        }
        Some(())
    }

    fn value(&mut self, form: Form) -> Option<ValueRef<'b>> {
        Some(match form {
            Form::Bool => match self.u8()? {
                0 => ValueRef::Bool(false),
                1 => ValueRef::Bool(true),
                _ => return None,
            },
            Form::Int => ValueRef::Int(self.int()?),
            Form::Float => {
                let bits = u64::from_le_bytes(self.take(8)?.try_into().ok()?);
                ValueRef::Float(f64::from_bits(bits))
            }
            Form::Currency => ValueRef::Currency(Currency::from_scaled(self.int()?)),
            Form::Text => ValueRef::Text(self.text()?),
            Form::Json => ValueRef::Json(self.text()?),
            Form::Blob => ValueRef::Blob(self.bytes()?),
            Form::Date => ValueRef::Date(Date::from_days(i32::try_from(self.int()?).ok()?).ok()?),
            Form::Time => ValueRef::Time(Time::from_micros(self.int()?).ok()?),
            Form::Timestamp => ValueRef::Timestamp(Timestamp::from_micros(self.int()?).ok()?),
            Form::Uuid => ValueRef::Uuid(Uuid::from_slice(self.take(16)?).ok()?),
        })
    }
}
