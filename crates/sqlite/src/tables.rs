//! The tables that were prepared, each with a number by which statements are
//! found.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, FieldSet, Kind, Result, Table};
use parking_lot::RwLock;

/// A table that was prepared. It is kept as long as the engine, so that its
/// address names it.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) table: Arc<Table>,
    /// The fields that SQLite itself holds to their type and to not being NULL.
    pub(crate) certain: FieldSet,
}

/// The engine's tables, in the order of their numbers.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    list: RwLock<Vec<Arc<Prepared>>>,
    count: AtomicUsize,
}

impl Tables {
    /// Adds tables behind those that are there.
    pub(crate) fn add(&self, tables: impl IntoIterator<Item = Prepared>) {
        let mut list = self.list.write();
        list.extend(tables.into_iter().map(Arc::new));
        self.count.store(list.len(), Ordering::Release);
    }
}

/// One connection's view of the tables.
#[derive(Debug)]
pub(crate) struct KnownTables {
    all: Arc<Tables>,
    known: Vec<Arc<Prepared>>,
    by_address: HashMap<usize, u32>,
    /// The one asked for last.
    last: (usize, u32),
}

impl KnownTables {
    pub(crate) fn new(all: Arc<Tables>) -> Self {
        Self { all, known: Vec::new(), by_address: HashMap::new(), last: (0, 0) }
    }

    /// The number of a table.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it was not prepared.
    #[inline]
    pub(crate) fn number(&mut self, table: &Table) -> Result<u32> {
        let address = std::ptr::from_ref(table) as usize;
        if self.last.0 == address {
            return Ok(self.last.1);
        }
        self.look_up(table, address)
    }

    fn look_up(&mut self, table: &Table, address: usize) -> Result<u32> {
        if !self.by_address.contains_key(&address) {
            self.learn();
        }
        let Some(&number) = self.by_address.get(&address) else {
            let message = format!(
                "the table `{}` is not prepared on this engine; register its model first",
                table.name()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        self.last = (address, number);
        Ok(number)
    }

    /// Takes over the tables that were prepared since.
    pub(crate) fn learn(&mut self) {
        if self.all.count.load(Ordering::Acquire) == self.known.len() {
            return;
        }
        let list = self.all.list.read();
        for prepared in &list[self.known.len()..] {
            let address = Arc::as_ptr(&prepared.table) as usize;
            self.by_address.insert(address, self.known.len() as u32);
            self.known.push(Arc::clone(prepared));
        }
    }

    /// The table with a number that [`KnownTables::number`] gave.
    pub(crate) fn at(&self, number: u32) -> &Prepared {
        &self.known[number as usize]
    }

    /// The last prepared table called `name`.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Table>> {
        let mut tables = self.known.iter().rev().map(|prepared| &prepared.table);
        tables.find(|table| table.name().eq_ignore_ascii_case(name))
    }

    /// Every field that refers to rows of `name`, with its table.
    pub(crate) fn references_to(&self, name: &str) -> Vec<(Arc<Table>, usize)> {
        let mut found = Vec::new();
        for table in self.known.iter().map(|prepared| &prepared.table) {
            for (position, field) in table.fields().iter().enumerate() {
                if matches!(&field.kind, Kind::Reference { table: to, .. } if to == name) {
                    found.push((Arc::clone(table), position));
                }
            }
        }
        found
    }
}
