//! [`JsonFields`]: rows to JSON bytes, of chosen fields in a chosen order,
//! straight from their columns: the texts are JSON already.

use std::fmt;
use std::sync::Arc;

use marmota_model::{Result, json};

use crate::cells::Values;
use crate::columns::Inner;
use crate::dictionary::put;

/// Bytes that may be read behind a name.
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
    /// `,"name":` and some blanks.
    name: Vec<u8>,
    name_bytes: usize,
}

impl fmt::Debug for JsonFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.columns.table.fields();
        let names = self.fields.iter().map(|member| &fields[member.position].name);
        f.debug_list().entries(names).finish()
    }
}

impl JsonFields {
    pub(crate) fn new(columns: &Arc<Inner>, names: &[&str]) -> Result<Self> {
        let member = |name: &&str| {
            let position = columns.table.position(name)?;
            let mut name = vec![b','];
            name.extend_from_slice(columns.table.json_key(position));
            let name_bytes = name.len();
            name.extend_from_slice(&SPARE);
            Ok(Member { position, name, name_bytes })
        };
        let fields = names.iter().map(member).collect::<Result<_>>()?;
        Ok(Self { columns: Arc::clone(columns), fields })
    }

    /// Appends the members of a row, without the object's braces.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn members(&self, out: &mut Vec<u8>, row: u32) {
        for (number, member) in self.fields.iter().enumerate() {
            // The first has no comma before it.
            put(out, &member.name, usize::from(number == 0), member.name_bytes);
            let cells = &self.columns.cells[member.position];
            if let Values::Text(ids, dictionary) = &cells.values {
                dictionary.put_json(out, ids.at(row as usize));
            } else {
                let kind = &self.columns.table.fields()[member.position].kind;
                json::write_value_as(out, kind, cells.value(kind, row as usize));
            }
        }
    }

    /// Appends a row as an object.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn object(&self, out: &mut Vec<u8>, row: u32) {
        out.push(b'{');
        self.members(out, row);
        out.push(b'}');
    }

    /// Appends rows as an array of objects.
    ///
    /// # Panics
    /// If one of the rows is not there.
    pub fn array(&self, out: &mut Vec<u8>, rows: impl IntoIterator<Item = u32>) {
        out.push(b'[');
        for (number, row) in rows.into_iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            self.object(out, row);
        }
        out.push(b']');
    }
}
