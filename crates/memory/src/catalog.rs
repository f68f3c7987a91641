//! The catalog: the tables of an engine and the references between them. It is immutable; `prepare`
//! replaces it as a whole.

pub(crate) mod comparison;
pub(crate) mod locked_tables;

use std::sync::Arc;

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, KeyKind, Kind, OnDelete, Result, Table, ValueRef};
use marmota_store::plan::Destructive;
use parking_lot::RwLock;
use smallvec::{SmallVec, smallvec};

use crate::catalog::comparison::Shape;
use crate::lock::long_reads::LongReads;
use crate::table::table_rows::{TableRows, Values};

/// The tables, by number.
#[derive(Default)]
pub(super) struct Catalog {
    pub(super) slots: Vec<Slot>,
    /// The number of a table by its address, which stays the same as long as the slot holds the
    /// table.
    by_address: HashMap<usize, u32>,
    by_name: HashMap<String, u32>,
}

/// A table, its rows and the long reads of them.
pub(super) type CatalogEntry = (Arc<Table>, Arc<RwLock<TableRows>>, Arc<LongReads>);

/// One table and the tables that are connected to it by references.
pub(super) struct Slot {
    pub(super) table: Arc<Table>,
    pub(super) rows: Arc<RwLock<TableRows>>,
    pub(super) long_reads: Arc<LongReads>,
    /// The fields with references, each with the number of the table that it refers to.
    pub(super) refers: SmallVec<[(usize, u32); 4]>,
    /// The fields that refer to this table, each with the number of its table.
    pub(super) referred: SmallVec<[(usize, u32); 4]>,
}

impl Catalog {
    /// Creates the catalog of these tables.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a reference whose kind is not that of the target's key.
    pub(super) fn new(tables: Vec<CatalogEntry>) -> Result<Self> {
        let mut catalog = Self::default();
        for (number, (table, rows, long_reads)) in tables.into_iter().enumerate() {
            catalog.by_address.insert(Arc::as_ptr(&table) as usize, number as u32);
            catalog.by_name.insert(table.name().to_owned(), number as u32);
            let (refers, referred) = (smallvec![], smallvec![]);
            catalog.slots.push(Slot { table, rows, long_reads, refers, referred });
        }
        for number in 0..catalog.slots.len() {
            let table = Arc::clone(&catalog.slots[number].table);
            for (field, target) in catalog.references(&table)? {
                catalog.slots[number].refers.push((field, target));
                catalog.slots[target as usize].referred.push((field, number as u32));
            }
        }
        Ok(catalog)
    }

    fn references(&self, table: &Table) -> Result<Vec<(usize, u32)>> {
        let mut references = Vec::new();
        for (position, field) in table.fields().iter().enumerate() {
            let Kind::Reference { table: name, key } = &field.kind else { continue };
            // References to tables of another engine cannot be checked.
            let Some(&target) = self.by_name.get(&**name) else { continue };
            let target_kind = self.slots[target as usize].table.key_kind();
            if target_kind != *key {
                let message = format!(
                    "field `{}` of model `{}` refers to `{name}` with a key of type {}, but its \
                     key is {}; use the same type",
                    field.name,
                    table.name(),
                    key_name(*key),
                    key_name(target_kind)
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            references.push((position, target));
        }
        Ok(references)
    }

    /// Returns the number of a table.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it was not prepared, or was prepared with other fields.
    #[inline]
    pub(super) fn find(&self, table: &Table) -> Result<u32> {
        match self.by_address.get(&(std::ptr::from_ref(table) as usize)) {
            Some(&number) => Ok(number),
            None => self.find_by_name(table),
        }
    }

    #[cold]
    fn find_by_name(&self, table: &Table) -> Result<u32> {
        let refuse = |why: &str| {
            let message =
                format!("table `{}` {why}; register its model with the store first", table.name());
            Error::new(ErrorKind::Invalid, message)
        };
        let number = self.number(table.name()).ok_or_else(|| refuse("is not known"))?;
        if same_shape(&self.slots[number as usize].table, table) {
            Ok(number)
        } else {
            Err(refuse("was prepared with other fields"))
        }
    }

    /// Returns what happens to rows of a table when those are deleted that the field refers to.
    pub(super) fn on_delete(&self, table: u32, field: usize) -> OnDelete {
        self.slots[table as usize].table.fields()[field].on_delete
    }

    /// Returns true if a delete from a table may delete or change other rows.
    pub(super) fn cascades(&self, table: u32) -> bool {
        let mut referred = self.slots[table as usize].referred.iter();
        referred.any(|&(field, source)| self.on_delete(source, field) != OnDelete::Restrict)
    }

    /// Returns the number of the table with this name.
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }
}

const fn key_name(kind: KeyKind) -> &'static str {
    match kind {
        KeyKind::Auto => "i64",
        KeyKind::Uuid => "uuid",
        KeyKind::Text => "text",
    }
}

/// Returns true if rows of one table can be used unchanged as rows of the other.
pub(super) fn same_shape(a: &Table, b: &Table) -> bool {
    let same_field = |(a, b): (&marmota_model::Field, &marmota_model::Field)| {
        a.name == b.name
            && a.nullable == b.nullable
            && a.kind.form() == b.kind.form()
            && a.kind.collation() == b.kind.collation()
            && a.role == b.role
    };
    a.fields().len() == b.fields().len()
        && a.key() == b.key()
        && a.fields().iter().zip(b.fields()).all(same_field)
        && a.indexes() == b.indexes()
}

/// Converts the rows of a table to its changed schema.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a change that would lose data without permission, or that has no
/// value for a field, with an alternative.
pub(super) fn rebuild(
    old: &TableRows,
    table: &Arc<Table>,
    destructive: &Destructive,
) -> Result<TableRows> {
    let mut new = TableRows::new(Arc::clone(table));
    if old.keys.len() == 0 {
        return Ok(new);
    }
    comparison::plan(&Shape::of(old), table).check(destructive)?;
    if old.table.fields()[old.table.key()].name != table.fields()[table.key()].name {
        let message = format!(
            "field `{}` of `{}`: the existing rows have another key field, which cannot be changed",
            table.fields()[table.key()].name,
            table.name()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let sources: Vec<Option<usize>> = table
        .fields()
        .iter()
        .map(|field| old.table.find(&field.name).or_else(|| old.table.find(field.was.as_deref()?)))
        .collect();
    old.try_each(|values| {
        let value = |source: &Option<usize>| source.map_or(ValueRef::Absent, |at| values[at]);
        let row: Values<'_> = sources.iter().map(value).collect();
        new.insert(&row).map(drop)
    })
    .map_err(|error| {
        let message = format!(
            "the rows of `{}` do not match the new schema: {error}; change those rows first",
            table.name()
        );
        Error::new(ErrorKind::Invalid, message)
    })?;
    Ok(new)
}
