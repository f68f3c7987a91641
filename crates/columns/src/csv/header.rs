//! The first record, which assigns the columns of a file to fields.

use marmota_model::{Error, ErrorKind, KeyKind, Result, Table};

use super::builder::Builder;
use super::source::Source;
use super::window::Window;

const BYTE_ORDER_MARK: [u8; 3] = *b"\xef\xbb\xbf";

/// The columns of a file.
pub(crate) struct Header {
    pub(crate) names: Vec<String>,
    /// The offset of the first record after the header.
    pub(crate) end: u64,
}

impl Header {
    pub(crate) fn read(
        source: &Source<'_>,
        separator: u8,
        record_bytes_max: usize,
    ) -> Result<Self> {
        let mut mark = [0; 3];
        let read = source.read(&mut mark, 0)?;
        let start = if read == 3 && mark == BYTE_ORDER_MARK { 3 } else { 0 };
        let mut window = Window::new(source, separator, start, record_bytes_max);
        let mut taken = 0;
        while window.move_on(taken)? {
            let (bytes, marks) = (window.bytes(), window.scan().marks());
            let lines = (1..marks.len()).filter(|&mark| bytes[marks[mark] as usize] == b'\n');
            // Each line spans from the mark before its first field to the mark at its end.
            let (mut from, mut first) = (0, None);
            for to in lines {
                let line = &bytes[marks[from].wrapping_add(1) as usize..marks[to] as usize];
                if !line.trim_ascii().is_empty() {
                    first = Some(from..=to);
                    break;
                }
                from = to;
            }
            // Skip all empty lines at once.
            taken = marks[from].wrapping_add(1) as usize;
            let Some(line) = first else {
                if taken == 0 && window.at_end() {
                    return Err(refused(source, "a quote in the first line is never closed"));
                }
                continue;
            };
            let end = marks[*line.end()] as usize;
            let mut names = Vec::new();
            for ends in marks[line].windows(2) {
                let name = &bytes[ends[0].wrapping_add(1) as usize..ends[1] as usize];
                let name = name.strip_suffix(b"\r").unwrap_or(name);
                let Ok(name) = std::str::from_utf8(name) else {
                    return Err(refused(source, "the first line is not UTF-8"));
                };
                let unquoted = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
                names.push(
                    unquoted.map_or_else(|| name.to_owned(), |name| name.replace("\"\"", "\"")),
                );
            }
            return Ok(Self { names, end: window.offset(end + 1) });
        }
        Err(refused(source, "the file is empty; the first line must have the names of the columns"))
    }

    /// Returns the column of each of the table's fields.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] naming the file and the columns that are missing or duplicate;
    /// [`ErrorKind::Unsupported`] for a field of a kind without a text form in CSV.
    pub(crate) fn columns(&self, source: &Source<'_>, table: &Table) -> Result<Vec<Option<usize>>> {
        let mut missing = Vec::new();
        let mut columns = Vec::with_capacity(table.fields().len());
        for (position, field) in table.fields().iter().enumerate() {
            let mut found = self.names.iter().enumerate().filter(|(_, name)| **name == field.name);
            let column = found.next().map(|(column, _)| column);
            if found.next().is_some() {
                let why = format!("the file has more than one column `{}`", field.name);
                return Err(refused(source, &why));
            }
            if Builder::new(table, position).is_none() {
                let message = format!(
                    "{}: field `{}` of `{}` is a {}, which cannot be read from CSV; load a model \
                     without this field",
                    source.name(),
                    field.name,
                    table.name(),
                    field.kind.name()
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            let counts_itself = position == table.key() && table.key_kind() == KeyKind::Auto;
            if column.is_none() && !counts_itself {
                missing.push(format!("`{}`", field.name));
            }
            columns.push(column);
        }
        if missing.is_empty() {
            return Ok(columns);
        }
        let (which, has) = (missing.join(", "), self.names.join(", "));
        Err(refused(source, &format!("the file has no column {which}; the first line has {has}")))
    }
}

#[cold]
fn refused(source: &Source<'_>, why: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("{}: {why}", source.name()))
}
