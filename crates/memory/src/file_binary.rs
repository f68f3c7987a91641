//! The binary file of a memory engine.
//!
//! ```text
//! file     magic (8 bytes), version u32, zstd frame, its content's length u64, crc32 of all before u32
//! content  schema u32, [ link, ] tables u32, { table }
//! link     lineage (16 bytes), generation u64, position u64: in version 2 only
//! table    name, fields u16, { name, form u8 }, { block }, 0 u32
//! block    bytes u32 (not 0), rows u32, { row }
//! row      a bit a field for NULL, then the values that are not
//! name     bytes u8, UTF-8
//! ```
//! All integers are little-endian; rows are encoded as in [`super::row_codec`]. The fields have
//! their names and forms, so that a file is read by field name, and fields that do not fit the
//! model are refused. No length is trusted: memory is allocated for bytes that exist, not for
//! announced ones.
//!
//! Version 2 is a snapshot with a log (see [`super::journal`]); its position is written at the end
//! of the content, once it is known.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Form, Result, Uuid, ValueRef};
use marmota_store::plan::Destructive;
use smallvec::smallvec;

use super::comparison::{Shape, place_of};
use super::file::{self, Contents, Section as AnySection, other_format};
use super::row_codec::{Bytes, write_head, write_row};
use super::snapshot::Snapshot;
use super::table_rows::{TableRows, Values};

const MAGIC: &[u8; 8] = b"MARMOTA\0";
const VERSION: u32 = 1;
const VERSION_LINKED: u32 = 2;
const HEAD_BYTES: usize = 12;
const TAIL_BYTES: usize = 12;
/// A block is closed once it has this many bytes.
pub(super) const BLOCK_BYTES: usize = 1 << 16;
const LEVEL: i32 = 3;

/// One table of a file that is not decoded yet: the rows of the file, and those of its log that
/// replace them.
pub(super) struct Section {
    pub(super) parts: Vec<Part>,
}

/// Rows of a table that have the same fields.
pub(super) struct Part {
    pub(super) content: Arc<Vec<u8>>,
    pub(super) fields: Vec<(String, Form)>,
    /// The position of each block's rows, and their number.
    pub(super) blocks: Vec<(Range<usize>, u32)>,
}

/// The link from a snapshot to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// The identity that all snapshots and logs of a database share.
    pub(super) lineage: Uuid,
    /// The first log to read after the snapshot.
    pub(super) generation: u64,
    /// The minimum length of that log.
    pub(super) position: u64,
}

/// A writer that passes bytes on, counts them and computes their checksum.
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
/// The outer error for content that cannot be written in this format, the inner one if the file
/// cannot be written.
pub(super) fn write(out: &mut impl Write, contents: &Contents<'_>) -> Result<io::Result<()>> {
    check_sections(contents.sections)?;
    Ok(write_file(out, VERSION, |content| {
        content.write_all(&contents.schema.to_le_bytes())?;
        let tables = contents.tables.len() + contents.sections.len();
        content.write_all(&(tables as u32).to_le_bytes())?;
        for rows in &contents.tables {
            write_table(content, rows)?;
        }
        write_sections(content, contents.sections)
    }))
}

/// Writes a snapshot while its rows may change.
///
/// # Errors
/// Those of [`write`].
pub(super) fn write_snapshot(
    out: &mut impl Write,
    snapshot: &Snapshot<'_>,
) -> Result<io::Result<()>> {
    check_sections(snapshot.sections)?;
    let mut failed = None;
    let written = write_file(out, VERSION_LINKED, |content| {
        content.write_all(&snapshot.schema.to_le_bytes())?;
        content.write_all(snapshot.lineage.as_bytes())?;
        content.write_all(&snapshot.generation.to_le_bytes())?;
        let tables = snapshot.catalog.slots.len() + snapshot.sections.len();
        content.write_all(&(tables as u32).to_le_bytes())?;
        for slot in &snapshot.catalog.slots {
            snapshot.write_table(content, slot)?;
        }
        write_sections(content, snapshot.sections)?;
        let position = snapshot.settle().unwrap_or_else(|error| {
            failed = Some(error);
            0
        });
        content.write_all(&position.to_le_bytes())
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(written),
    }
}

/// Returns an error for sections that cannot be written unchanged.
fn check_sections(sections: &BTreeMap<String, AnySection>) -> Result<()> {
    for (name, section) in sections {
        let AnySection::Binary(section) = section else {
            return Err(other_format(name, "binary"));
        };
        if section.parts.windows(2).any(|pair| pair[0].fields != pair[1].fields) {
            let message = format!(
                "table `{name}` was changed to other fields in its log and no model has asked \
                 for it since; register its model first"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    }
    Ok(())
}

fn write_sections(
    content: &mut impl Write,
    sections: &BTreeMap<String, AnySection>,
) -> io::Result<()> {
    for (name, section) in sections {
        if let AnySection::Binary(section) = section {
            section.write(content, name)?;
        }
    }
    Ok(())
}

fn write_file<W: Write>(
    out: &mut W,
    version: u32,
    write: impl FnOnce(&mut Content<'_, &mut Summed<&mut W>>) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = Summed { out, sum: crc32fast::Hasher::new() };
    out.write_all(MAGIC)?;
    out.write_all(&version.to_le_bytes())?;
    let mut content = Content { out: zstd::Encoder::new(&mut out, LEVEL)?, bytes: 0 };
    write(&mut content)?;
    let bytes = content.bytes;
    content.out.finish()?;
    out.write_all(&bytes.to_le_bytes())?;
    let sum = out.sum.clone().finalize();
    out.write_all(&sum.to_le_bytes())
}

/// The content, which is compressed, and its length.
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

pub(super) fn write_block(out: &mut impl Write, block: &[u8], rows: u32) -> io::Result<()> {
    out.write_all(&(block.len() as u32).to_le_bytes())?;
    out.write_all(&rows.to_le_bytes())?;
    out.write_all(block)
}

/// Writes the head of a table's rows.
pub(super) fn write_table_head(out: &mut impl Write, rows: &TableRows) -> io::Result<()> {
    let columns = rows.pages.layout.columns.iter();
    let fields = rows.table.fields().iter().zip(columns);
    write_head(out, rows.table.name(), fields.map(|(field, column)| (&*field.name, column.form)))
}

fn write_table(out: &mut impl Write, rows: &TableRows) -> io::Result<()> {
    write_table_head(out, rows)?;
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

/// Reads the file; the error describes its defect.
pub(super) fn load(bytes: &[u8]) -> Result<file::Read, String> {
    if bytes.get(..MAGIC.len()) != Some(MAGIC) {
        return Err("is no file of the memory engine".to_owned());
    }
    let mut head = Bytes { rest: &bytes[MAGIC.len()..] };
    let version = head.u32().ok_or("is cut short")?;
    if version != VERSION && version != VERSION_LINKED {
        return Err(format!(
            "has the file version {version}, and this program reads up to {VERSION_LINKED}: use \
             the program that wrote it, or a newer one"
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
    load_content(&Arc::new(content), version == VERSION_LINKED)
        .ok_or_else(|| "is damaged: a table makes no sense".to_owned())
}

fn load_content(content: &Arc<Vec<u8>>, is_linked: bool) -> Option<file::Read> {
    let mut bytes = Bytes { rest: content };
    let schema = bytes.u32()?;
    let mut link = None;
    if is_linked {
        let lineage = Uuid::from_slice(bytes.take(16)?).ok()?;
        link = Some(Link { lineage, generation: bytes.u64()?, position: 0 });
    }
    let count = bytes.u32()?;
    let mut tables = BTreeMap::new();
    for _ in 0..count {
        let (name, fields) = bytes.head()?;
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
        let part = Part { content: Arc::clone(content), fields, blocks };
        let section = Section { parts: vec![part] };
        if tables.insert(name, AnySection::Binary(section)).is_some() {
            return None;
        }
    }
    if let Some(link) = &mut link {
        link.position = bytes.u64()?;
    }
    bytes.rest.is_empty().then_some(file::Read { schema, tables, link })
}

impl Section {
    /// Writes the section as it was read.
    fn write(&self, out: &mut impl Write, name: &str) -> io::Result<()> {
        let fields = self.parts.first().map_or(&[][..], |part| &part.fields);
        write_head(out, name, fields.iter().map(|(name, form)| (&**name, *form)))?;
        for part in &self.parts {
            for (range, rows) in &part.blocks {
                write_block(out, &part.content[range.clone()], *rows)?;
            }
        }
        out.write_all(&0_u32.to_le_bytes())
    }

    /// Returns true if its rows have the fields of this table.
    pub(super) fn is_shaped_as(&self, rows: &TableRows) -> bool {
        let columns = rows.pages.layout.columns.iter();
        let fields = rows.table.fields().iter().zip(columns);
        let same = |part: &Part| {
            let named = part.fields.iter().map(|(name, form)| (&**name, *form));
            named.eq(fields.clone().map(|(field, column)| (&*field.name, column.form)))
        };
        self.parts.iter().all(same)
    }

    /// Copies the rows to an empty table.
    pub(super) fn fill(&self, rows: &mut TableRows, destructive: &Destructive) -> Result<()> {
        self.parts.iter().try_for_each(|part| part.fill(rows, destructive))
    }

    /// Returns the shape of the rows, for a plan.
    pub(super) fn shape(&self) -> Shape {
        let mut shape = Shape::default();
        for part in &self.parts {
            shape.rows += part.blocks.iter().map(|(_, rows)| u64::from(*rows)).sum::<u64>();
            for (name, form) in &part.fields {
                shape.note(name, Some(*form));
            }
        }
        shape
    }

    /// Keeps the rows for whose keys, as encoded, `keep` returns true; `None` if the rows cannot be
    /// decoded.
    pub(super) fn retain(
        &mut self,
        key: &str,
        mut keep: impl FnMut(Form, &[u8]) -> bool,
    ) -> Option<()> {
        self.parts.iter_mut().try_for_each(|part| part.retain(key, &mut keep))
    }
}

impl Part {
    fn retain(&mut self, key: &str, keep: &mut impl FnMut(Form, &[u8]) -> bool) -> Option<()> {
        let key = self.fields.iter().position(|(name, _)| name == key)?;
        let form = self.fields[key].1;
        let mut kept = Vec::new();
        for (range, rows) in &self.blocks {
            let mut bytes = Bytes { rest: &self.content[range.clone()] };
            let (mut from, mut count) = (range.start, 0);
            for _ in 0..*rows {
                let start = range.end - bytes.rest.len();
                let at = bytes.key_of_row(&self.fields, key)?;
                if keep(form, &self.content[start + at.start..start + at.end]) {
                    count += 1;
                    continue;
                }
                if count > 0 {
                    kept.push((from..start, count));
                }
                (from, count) = (range.end - bytes.rest.len(), 0);
            }
            if count > 0 {
                kept.push((from..range.end, count));
            }
        }
        self.blocks = kept;
        Some(())
    }

    fn fill(&self, rows: &mut TableRows, destructive: &Destructive) -> Result<()> {
        let table = Arc::clone(&rows.table);
        let refuse = |what: String| {
            let message = format!("`{}` does not fit its model: {what}", table.name());
            Error::new(ErrorKind::Invalid, message)
        };
        let mut places = Vec::with_capacity(self.fields.len());
        for (name, form) in &self.fields {
            let place = place_of(&table, name, destructive)?;
            let Some(place) = place else {
                places.push(None);
                continue;
            };
            if rows.pages.layout.columns[place].form != *form {
                let kind = table.fields()[place].kind.name();
                return Err(refuse(format!("field `{name}` was {form:?} and is {kind}")));
            }
            places.push(Some(place));
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
