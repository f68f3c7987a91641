//! Copies a commit of a primary to the rows of a replica.
//!
//! A record has the final state of each row, in any order. So a row may have a value of a unique index
//! that another row loses by the same commit: it is entered after all others. References need no check,
//! and the effects of a delete on other rows are in the record.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table, ValueForm, ValueRef};
use smallvec::{SmallVec, smallvec};

use crate::catalog::Catalog;
use crate::catalog::locked_tables::LockedTables;
use crate::data_file::row_codec::Bytes;
use crate::journal::{Change, Definition};
use crate::table::table_rows::{TableRows, Values};

/// A commit of a primary.
pub(crate) struct RowCopy<'c> {
    /// The bytes of its log.
    pub(crate) log: &'c [u8],
    /// The tables in that log.
    pub(crate) definitions: &'c [Arc<Definition>],
    pub(crate) changes: &'c [Change],
}

/// The fields of a table in the log, with their places in its model.
struct Places<'c> {
    definition: &'c Definition,
    places: SmallVec<[Option<usize>; 16]>,
}

impl RowCopy<'_> {
    /// Returns the changed tables that have models.
    pub(crate) fn tables<'a>(&'a self, catalog: &'a Catalog) -> impl Iterator<Item = u32> + 'a {
        let runs = self.changes.chunk_by(|a, b| a.table == b.table);
        runs.filter_map(|run| catalog.number(&self.definitions.get(run[0].table)?.name))
    }

    /// Changes the rows of locked tables.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if a table has other fields here: nothing is changed. For rows that do not
    /// fit, a part may be changed.
    pub(crate) fn apply(&self, locked: &mut LockedTables<'_>) -> Result<()> {
        let mut runs: SmallVec<[(u32, Places<'_>, &[Change]); 4]> = SmallVec::new();
        for run in self.changes.chunk_by(|a, b| a.table == b.table) {
            let Some(definition) = self.definitions.get(run[0].table) else { continue };
            let Some(number) = locked.catalog.number(&definition.name) else { continue };
            runs.push((number, Places::new(definition, &locked.slot(number).table)?, run));
        }
        for (number, places, run) in runs {
            let rows = locked.rows_mut(number)?;
            self.apply_run(rows, &places, run).ok_or_else(|| {
                let message = format!(
                    "a row of `{}` in the log of the primary does not fit the rows of this replica: \
                     delete the files of the replica, and start it again",
                    rows.table.name()
                );
                Error::new(ErrorKind::Engine, message)
            })?;
        }
        Ok(())
    }

    /// Changes the rows of one table; `None` if they do not fit.
    fn apply_run(&self, rows: &mut TableRows, places: &Places<'_>, run: &[Change]) -> Option<()> {
        let form = places.definition.fields[places.definition.key].1;
        let key_field = rows.table.key();
        let mut later: Vec<Values<'_>> = Vec::new();
        for change in run {
            let key = Bytes { rest: self.log.get(change.key.clone())? }.value(form)?;
            let known = rows.keys.find(&rows.pages, key);
            let Some(range) = change.row.clone() else {
                rows.remove(known?);
                continue;
            };
            let mut row: Values<'_> = smallvec![ValueRef::Absent; rows.table.fields().len()];
            let mut bytes = Bytes { rest: self.log.get(range)? };
            bytes.row(&places.definition.fields, &places.places, &mut row)?;
            match known {
                None => {
                    if rows.insert(&row).is_err() {
                        later.push(row);
                    }
                }
                Some(number) => {
                    let key = std::mem::replace(&mut row[key_field], ValueRef::Absent);
                    if rows.check_update(number, &row).is_ok() {
                        rows.update(number, &row);
                    } else {
                        row[key_field] = key;
                        rows.remove(number);
                        later.push(row);
                    }
                }
            }
        }
        later.iter().try_for_each(|row| rows.insert(row).ok().map(drop))
    }
}

impl<'c> Places<'c> {
    /// # Errors
    /// [`ErrorKind::Invalid`] if the table of the model has other fields.
    fn new(definition: &'c Definition, table: &Table) -> Result<Self> {
        let place = |(name, form): &(String, ValueForm)| {
            let place = table.find(name)?;
            (table.fields()[place].kind.form() == *form).then_some(Some(place))
        };
        let places: Option<SmallVec<[Option<usize>; 16]>> =
            definition.fields.iter().map(place).collect();
        let is_key = |places: &SmallVec<_>| places.get(definition.key) == Some(&Some(table.key()));
        let places = places.filter(|all| all.len() == table.fields().len()).filter(is_key);
        let places = places.ok_or_else(|| other_fields(table))?;
        Ok(Self { definition, places })
    }
}

/// The error for a table that has other fields in the log of the primary.
#[cold]
pub(crate) fn other_fields(table: &Table) -> Error {
    let message = format!(
        "`{}` has other fields in the primary than in this program: start the replica with the \
         program of the primary",
        table.name()
    );
    Error::new(ErrorKind::Invalid, message)
}
