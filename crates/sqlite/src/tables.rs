//! The tables that were prepared, each with a number by which statements are
//! found.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, Kind, Result, Table};
use parking_lot::RwLock;

/// The engine's tables, in the order of their numbers. They are kept as long
/// as the engine, so that the address of one names it.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    list: RwLock<Vec<Arc<Table>>>,
    count: AtomicUsize,
}

impl Tables {
    /// Adds tables behind those that are there.
    pub(crate) fn add(&self, tables: &[Arc<Table>]) {
        let mut list = self.list.write();
        list.extend_from_slice(tables);
        self.count.store(list.len(), Ordering::Release);
    }
}

/// One connection's view of the tables.
#[derive(Debug)]
pub(crate) struct KnownTables {
    all: Arc<Tables>,
    known: Vec<Arc<Table>>,
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

    /// The table itself, to be kept beyond the caller's use of it.
    ///
    /// # Errors
    /// As [`Self::number`].
    pub(crate) fn kept(&mut self, table: &Table) -> Result<Arc<Table>> {
        let number = self.number(table)?;
        Ok(Arc::clone(&self.known[number as usize]))
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
        for table in &list[self.known.len()..] {
            let address = Arc::as_ptr(table) as usize;
            self.by_address.insert(address, self.known.len() as u32);
            self.known.push(Arc::clone(table));
        }
    }

    /// The last prepared table called `name`.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Table>> {
        self.known.iter().rev().find(|table| table.name().eq_ignore_ascii_case(name))
    }

    /// Every field that refers to rows of `name`, with its table.
    pub(crate) fn references_to(&self, name: &str) -> Vec<(Arc<Table>, usize)> {
        let mut found = Vec::new();
        for table in &self.known {
            for (position, field) in table.fields().iter().enumerate() {
                if matches!(&field.kind, Kind::Reference { table: to, .. } if to == name) {
                    found.push((Arc::clone(table), position));
                }
            }
        }
        found
    }
}
