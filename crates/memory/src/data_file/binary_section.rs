//! A table of a binary file, before its model is registered.

use std::ops::Range;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, ValueForm, ValueRef};
use marmota_store::plan::Destructive;
use smallvec::smallvec;

use crate::catalog::comparison::{Shape, place_of};
use crate::data_file::row_codec::Bytes;
use crate::table::table_rows::{TableRows, Values};

/// One table of a file that is not decoded yet: the rows of the file, and those of its log that
/// replace them.
pub(crate) struct BinarySection {
    pub(crate) parts: Vec<Part>,
}

/// Rows of a table that have the same fields.
pub(crate) struct Part {
    pub(crate) content: Arc<Vec<u8>>,
    pub(crate) fields: Vec<(String, ValueForm)>,
    /// The position of each block's rows, and their number.
    pub(crate) blocks: Vec<(Range<usize>, u32)>,
}

impl BinarySection {
    /// Returns true if its rows have the fields of this table.
    pub(crate) fn is_shaped_as(&self, rows: &TableRows) -> bool {
        let columns = rows.pages.layout.columns.iter();
        let fields = rows.table.fields().iter().zip(columns);
        let same = |part: &Part| {
            let named = part.fields.iter().map(|(name, form)| (&**name, *form));
            named.eq(fields.clone().map(|(field, column)| (&*field.name, column.form)))
        };
        self.parts.iter().all(same)
    }

    /// Copies the rows to an empty table.
    pub(crate) fn fill(&self, rows: &mut TableRows, destructive: &Destructive) -> Result<()> {
        self.parts.iter().try_for_each(|part| part.fill(rows, destructive))
    }

    /// Returns the shape of the rows, for a plan.
    pub(crate) fn shape(&self) -> Shape {
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
    pub(crate) fn retain(
        &mut self,
        key: &str,
        mut keep: impl FnMut(ValueForm, &[u8]) -> bool,
    ) -> Option<()> {
        self.parts.iter_mut().try_for_each(|part| part.retain(key, &mut keep))
    }
}

impl Part {
    fn retain(&mut self, key: &str, keep: &mut impl FnMut(ValueForm, &[u8]) -> bool) -> Option<()> {
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
            let message = format!("`{}` does not match its model: {what}", table.name());
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
                return Err(refuse(format!(
                    "field `{name}` is {form:?} in the file, and {kind} in \
                                           the model"
                )));
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
                return Err(refuse("a block has bytes after its last row".to_owned()));
            }
        }
        Ok(())
    }
}
