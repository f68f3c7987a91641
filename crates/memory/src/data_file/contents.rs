//! What a file has, and what one is to have.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table, Uuid};
use marmota_store::plan::Destructive;

use super::binary_section::BinarySection;
use super::json_section;
use crate::catalog::comparison::Shape;
use crate::table::table_rows::TableRows;

/// The content of a file.
#[derive(Default)]
pub(crate) struct Loaded {
    /// The path of the file.
    pub(crate) path: PathBuf,
    /// The schema version of the program that wrote it.
    pub(crate) schema: u32,
    /// Its tables that were not prepared yet.
    pub(crate) tables: BTreeMap<String, Section>,
}

impl Loaded {
    /// Returns the rows for a table and their name in the file: the table's name, or its previous
    /// one if no other table has that.
    pub(crate) fn section(&self, table: &Table, all: &[Arc<Table>]) -> Option<(&str, &Section)> {
        let find = |name: &str| {
            let (name, section) = self.tables.get_key_value(name)?;
            Some((&**name, section))
        };
        find(table.name()).or_else(|| {
            let was = table.schema().was.as_deref()?;
            find(was).filter(|_| all.iter().all(|other| other.name() != was))
        })
    }
}

/// The content of a file, as it was read.
pub(crate) struct ReadFile {
    pub(crate) schema: u32,
    pub(crate) tables: BTreeMap<String, Section>,
    /// The link to the log, in a snapshot that has one.
    pub(crate) link: Option<Link>,
}

/// One table of a file, as it was read.
pub(crate) enum Section {
    Json(Box<serde_json::value::RawValue>),
    Binary(BinarySection),
}

impl Section {
    /// Copies the rows to an empty table.
    pub(crate) fn fill(&self, rows: &mut TableRows, destructive: &Destructive) -> Result<()> {
        match self {
            Self::Json(text) => json_section::fill(text, rows, destructive),
            Self::Binary(section) => section.fill(rows, destructive),
        }
    }

    /// Returns the shape of the rows, for a plan.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the list does not consist of rows.
    pub(crate) fn shape(&self) -> Result<Shape> {
        match self {
            Self::Json(text) => json_section::shape(text),
            Self::Binary(section) => Ok(section.shape()),
        }
    }

    /// Returns true if its rows are known to have exactly the fields of this table.
    pub(crate) fn is_shaped_as(&self, rows: &TableRows) -> bool {
        match self {
            Self::Json(_) => false,
            Self::Binary(section) => section.is_shaped_as(rows),
        }
    }
}

/// The content to write to a file: tables with their rows, and loaded sections whose models are not
/// registered.
pub(crate) struct Contents<'c> {
    pub(crate) schema: u32,
    pub(crate) tables: Vec<&'c TableRows>,
    pub(crate) sections: &'c BTreeMap<String, Section>,
}

/// The link from a snapshot to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The identity that all snapshots and logs of a database share.
    pub(crate) lineage: Uuid,
    /// The first log to read after the snapshot.
    pub(crate) generation: u64,
    /// The minimum length of that log.
    pub(crate) position: u64,
}

/// The error for a table that would be written in another format than it was loaded from.
#[cold]
pub(crate) fn other_format(table: &str, format: &str) -> Error {
    let message = format!(
        "table `{table}` was loaded from a file of another format and cannot be written as \
         {format} because its model is not registered; register the model first"
    );
    Error::new(ErrorKind::Unsupported, message)
}
