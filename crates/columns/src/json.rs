//! [`JsonFields`]: writes chosen fields of rows as JSON, in a chosen order, directly from the
//! columns: their texts are already JSON.

use std::fmt;
use std::sync::Arc;

use marmota_model::{Result, json};

use crate::cells::Values;
use crate::columns::{Columns, Inner};
use crate::dictionary::{Dictionary, put};

impl<M> Columns<M> {
    /// Returns a writer of rows as JSON, with the fields of these names, in this order.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](marmota_model::ErrorKind::Invalid) naming the existing fields.
    pub fn json(&self, names: &[&str]) -> Result<JsonFields> {
        JsonFields::new(&self.inner, names)
    }
}

/// Limits for dictionaries of which a second copy with the member's name is kept.
const NAMED_TEXTS_MAX: usize = 1 << 16;
const NAMED_BYTES_MAX: usize = 4 << 20;
/// The size of a short text with its name and its length.
const BLOCK_BYTES: usize = 32;
/// Readable bytes after a name.
const SPARE: [u8; 32] = [b' '; 32];

/// Writes rows of [`Columns`](crate::Columns) as JSON objects.
///
/// ```
/// use marmota_derive::Model;
/// use marmota_columns::csv;
///
/// #[derive(Model)]
/// struct City {
///     id: i64,
///     name: String,
///     people: u32,
/// }
///
/// let cities = csv::read::<City>(b"name,people\nBourges,65000\nNevers,33000\n")?;
/// let mut out = Vec::new();
/// cities.json(&["people", "name"])?.array(&mut out, 0..2);
/// assert_eq!(out, br#"[{"people":65000,"name":"Bourges"},{"people":33000,"name":"Nevers"}]"#);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone)]
pub struct JsonFields {
    columns: Arc<Inner>,
    fields: Arc<[Member]>,
}

struct Member {
    position: usize,
    /// `,"name":`, or `,{"name":` for the first member, followed by spare blanks.
    name: Vec<u8>,
    name_bytes: usize,
    /// For a dictionary of not too many texts: each text with its name.
    named: Option<Named>,
}

/// The texts of a dictionary, each preceded by the member's name: one copy per member instead of
/// two. It takes a third off the time of an answer.
enum Named {
    /// All are short: each at a place computed from its number, with its length as the last byte.
    /// Takes a fifth less time than concatenated texts.
    Short(Vec<[u8; BLOCK_BYTES]>),
    /// Concatenated texts.
    Long {
        json: Vec<u8>,
        /// The start of each, and the end of the last one.
        starts: Vec<u32>,
    },
}

impl Named {
    fn new(name: &[u8], dictionary: &Dictionary) -> Option<Self> {
        let (texts, _) = dictionary.parts();
        let bytes = texts.len() + name.len() * dictionary.len();
        if dictionary.len() > NAMED_TEXTS_MAX || bytes > NAMED_BYTES_MAX {
            return None;
        }
        let ids = || 0..dictionary.len() as u32;
        if ids().all(|id| name.len() + dictionary.json(id).len() < BLOCK_BYTES) {
            let block = |id| {
                let (mut block, text) = ([b' '; BLOCK_BYTES], dictionary.json(id).as_bytes());
                let length = name.len() + text.len();
                block[..name.len()].copy_from_slice(name);
                block[name.len()..length].copy_from_slice(text);
                block[BLOCK_BYTES - 1] = length as u8;
                block
            };
            return Some(Self::Short(ids().map(block).collect()));
        }
        let mut json = Vec::with_capacity(bytes + SPARE.len());
        let mut starts = Vec::with_capacity(dictionary.len() + 1);
        for id in ids() {
            starts.push(json.len() as u32);
            json.extend_from_slice(name);
            json.extend_from_slice(dictionary.json(id).as_bytes());
        }
        starts.push(json.len() as u32);
        json.extend_from_slice(&SPARE);
        Some(Self::Long { json, starts })
    }
}

/// What precedes a row's first member.
#[derive(Clone, Copy)]
enum Before {
    Row = 0,
    Brace = 1,
    Nothing = 2,
}

/// Precedes every first member; a suffix of it is used where less is needed.
const OPENING: &[u8] = b",{";

impl fmt::Debug for JsonFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.columns.table.fields();
        let names = self.fields.iter().map(|member| &fields[member.position].name);
        f.debug_list().entries(names).finish()
    }
}

impl JsonFields {
    pub(crate) fn new(columns: &Arc<Inner>, names: &[&str]) -> Result<Self> {
        let member = |(number, name): (usize, &&str)| {
            let position = columns.table.position(name)?;
            let mut name = if number == 0 { OPENING.to_vec() } else { vec![b','] };
            name.extend_from_slice(columns.table.json_key(position));
            let named = match &columns.cells[position].values {
                Values::Text(_, dictionary) => Named::new(&name, dictionary),
                _ => None,
            };
            let name_bytes = name.len();
            name.extend_from_slice(&SPARE);
            Ok(Member { position, name, name_bytes, named })
        };
        let fields = names.iter().enumerate().map(member).collect::<Result<_>>()?;
        Ok(Self { columns: Arc::clone(columns), fields })
    }

    /// Appends the members of a row, without the braces of the object.
    ///
    /// ```
    /// use marmota_columns::csv;
    /// # use marmota_derive::Model;
    /// # #[derive(Model)]
    /// # struct City { id: i64, name: String, people: u32 }
    /// let cities = csv::read::<City>(b"name,people\nBourges,65000\nNevers,33000\n")?;
    /// let mut out = b"{\"rank\":1,".to_vec();
    /// cities.json(&["name"])?.members(&mut out, 0);
    /// out.push(b'}');
    /// assert_eq!(out, br#"{"rank":1,"name":"Bourges"}"#);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the row does not exist.
    pub fn members(&self, out: &mut Vec<u8>, row: u32) {
        self.write(out, row, Before::Nothing);
    }

    /// Appends a row as an object.
    ///
    /// ```
    /// use marmota_columns::csv;
    /// # use marmota_derive::Model;
    /// # #[derive(Model)]
    /// # struct City { id: i64, name: String, people: u32 }
    /// let cities = csv::read::<City>(b"name,people\nBourges,65000\nNevers,33000\n")?;
    /// let mut out = Vec::new();
    /// cities.json(&["name", "people"])?.object(&mut out, 1);
    /// assert_eq!(out, br#"{"name":"Nevers","people":33000}"#);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the row does not exist.
    pub fn object(&self, out: &mut Vec<u8>, row: u32) {
        if self.fields.is_empty() {
            out.push(b'{');
        }
        self.write(out, row, Before::Brace);
        out.push(b'}');
    }

    /// Appends rows as an array of objects.
    ///
    /// # Panics
    /// If one of the rows does not exist.
    pub fn array(&self, out: &mut Vec<u8>, rows: impl IntoIterator<Item = u32>) {
        out.push(b'[');
        let mut before = Before::Brace;
        for row in rows {
            if self.fields.is_empty() {
                out.extend_from_slice(&OPENING[before as usize..]);
            }
            self.write(out, row, before);
            out.push(b'}');
            before = Before::Row;
        }
        out.push(b']');
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>, row: u32, before: Before) {
        let mut skipped = before as usize;
        for member in &*self.fields {
            let cells = &self.columns.cells[member.position];
            match (&cells.values, &member.named) {
                (Values::Text(ids, _), Some(Named::Short(blocks))) => {
                    let block = &blocks[ids.at(row as usize) as usize];
                    let length = usize::from(block[BLOCK_BYTES - 1]);
                    if skipped == 0 {
                        let end = out.len() + length;
                        out.extend_from_slice(block);
                        out.truncate(end);
                    } else {
                        out.extend_from_slice(&block[skipped..length]);
                    }
                }
                (Values::Text(ids, _), Some(Named::Long { json, starts })) => {
                    let id = ids.at(row as usize) as usize;
                    let [start, end] = [starts[id], starts[id + 1]];
                    put(out, json, start as usize + skipped, end as usize);
                }
                (Values::Text(ids, dictionary), None) => {
                    put(out, &member.name, skipped, member.name_bytes);
                    dictionary.put_json(out, ids.at(row as usize));
                }
                _ => {
                    put(out, &member.name, skipped, member.name_bytes);
                    let kind = &self.columns.table.fields()[member.position].kind;
                    json::write_value_as(out, kind, cells.value(kind, row as usize));
                }
            }
            skipped = 0;
        }
    }
}
