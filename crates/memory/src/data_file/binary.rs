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
//! All integers are little-endian; rows are encoded as in [`crate::data_file::row_codec`]. The
//! fields have their names and forms, so that a file is read by field name, and fields that do not
//! fit the model are refused. No length is trusted: memory is allocated for bytes that exist, not
//! for announced ones.
//!
//! Version 2 is a snapshot with a log (see [`crate::journal`]); its position is written at the end
//! of the content, once it is known.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Uuid};

use super::binary_section::{BinarySection, Part};
use super::contents::{Contents, Link, ReadFile, Section, other_format};
use crate::data_file::row_codec::{Bytes, write_head, write_row};
use crate::table::table_rows::TableRows;

const MAGIC: &[u8; 8] = b"MARMOTA\0";
const VERSION: u32 = 1;
const VERSION_LINKED: u32 = 2;
const HEAD_BYTES: usize = 12;
const TAIL_BYTES: usize = 12;
/// A block is closed once it has this many bytes.
pub(crate) const BLOCK_BYTES: usize = 1 << 16;
const LEVEL: i32 = 3;

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
pub(crate) fn write(out: &mut impl Write, contents: &Contents<'_>) -> Result<io::Result<()>> {
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

/// Writes a file that a log continues: `write` writes its content.
pub(crate) fn write_linked(
    out: &mut impl Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    write_file(out, VERSION_LINKED, |content| write(content))
}

/// Returns an error for sections that cannot be written unchanged.
pub(crate) fn check_sections(sections: &BTreeMap<String, Section>) -> Result<()> {
    for (name, section) in sections {
        let Section::Binary(section) = section else {
            return Err(other_format(name, "binary"));
        };
        if section.parts.windows(2).any(|pair| pair[0].fields != pair[1].fields) {
            let message = format!(
                "the fields of table `{name}` change in its log, but its model is not registered; \
                 register the model first"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    }
    Ok(())
}

pub(crate) fn write_sections(
    content: &mut impl Write,
    sections: &BTreeMap<String, Section>,
) -> io::Result<()> {
    for (name, section) in sections {
        if let Section::Binary(section) = section {
            write_section(content, section, name)?;
        }
    }
    Ok(())
}

/// Writes a table as it was read.
fn write_section(out: &mut impl Write, section: &BinarySection, name: &str) -> io::Result<()> {
    let fields = section.parts.first().map_or(&[][..], |part| &part.fields);
    write_head(out, name, fields.iter().map(|(name, form)| (&**name, *form)))?;
    for part in &section.parts {
        for (range, rows) in &part.blocks {
            write_block(out, &part.content[range.clone()], *rows)?;
        }
    }
    out.write_all(&0_u32.to_le_bytes())
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

pub(crate) fn write_block(out: &mut impl Write, block: &[u8], rows: u32) -> io::Result<()> {
    out.write_all(&(block.len() as u32).to_le_bytes())?;
    out.write_all(&rows.to_le_bytes())?;
    out.write_all(block)
}

/// Writes the head of a table's rows.
pub(crate) fn write_table_head(out: &mut impl Write, rows: &TableRows) -> io::Result<()> {
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
pub(crate) fn load(bytes: &[u8]) -> Result<ReadFile, String> {
    if bytes.get(..MAGIC.len()) != Some(MAGIC) {
        return Err("is not a file of the memory engine".to_owned());
    }
    let mut head = Bytes { rest: &bytes[MAGIC.len()..] };
    let version = head.u32().ok_or("is truncated")?;
    if version != VERSION && version != VERSION_LINKED {
        return Err(format!(
            "has the file version {version}, but this program reads versions up to \
             {VERSION_LINKED}: use the program that wrote the file, or a newer one"
        ));
    }
    if bytes.len() < HEAD_BYTES + TAIL_BYTES {
        return Err("is truncated".to_owned());
    }
    let (summed, sum) = bytes.split_at(bytes.len() - 4);
    if crc32fast::hash(summed).to_le_bytes() != sum {
        return Err("is damaged or truncated: its checksum is wrong; restore a copy".to_owned());
    }
    let (frame, length) = summed[HEAD_BYTES..].split_at(summed.len() - HEAD_BYTES - 8);
    let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
    let mut content = Vec::new();
    let decoded = zstd::Decoder::with_buffer(frame)
        .and_then(|decoder| decoder.take(length.saturating_add(1)).read_to_end(&mut content));
    match decoded {
        Ok(read) if read as u64 == length => {}
        Ok(_) => return Err("is damaged: its content does not have the stated length".to_owned()),
        Err(error) => return Err(format!("is damaged: {error}")),
    }
    load_content(&Arc::new(content), version == VERSION_LINKED)
        .ok_or_else(|| "is damaged: a table cannot be read".to_owned())
}

fn load_content(content: &Arc<Vec<u8>>, is_linked: bool) -> Option<ReadFile> {
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
        let section = BinarySection { parts: vec![part] };
        if tables.insert(name, Section::Binary(section)).is_some() {
            return None;
        }
    }
    if let Some(link) = &mut link {
        link.position = bytes.u64()?;
    }
    bytes.rest.is_empty().then_some(ReadFile { schema, tables, link })
}
