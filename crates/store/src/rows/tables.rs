//! The tables that an engine has prepared, each with a number by which a session finds its
//! statements. This is for engines whose sessions have prepared statements.
//!
//! ```
//! use std::sync::Arc;
//! use marmota_model::{Field, Kind, Role, Schema, Table};
//! use marmota_store::tables::{KnownTables, Tables};
//!
//! let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
//! let city = Arc::new(Table::new(city)?);
//! let all = Arc::new(Tables::default());
//! let mut known = KnownTables::new(Arc::clone(&all));
//! assert!(known.number(&city).is_err(), "it is not prepared yet");
//!
//! // `Engine::migrate` adds the tables; sessions learn them at their next lookup.
//! all.add(&[Arc::clone(&city)]);
//! let number = known.number(&city)?;
//! assert_eq!(known.at(number as usize).map(|table| table.name()), Some("city"));
//! assert_eq!(known.named("CITY").map(|table| table.name()), Some("city"));
//! # Ok::<(), marmota_model::Error>(())
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, Kind, Result, Table};
use parking_lot::RwLock;

/// The engine's tables, in the order of their numbers. They are kept as long as the engine, so that
/// an address identifies a table.
#[derive(Debug, Default)]
pub struct Tables {
    /// Only grows; the place of a table is its number.
    list: RwLock<Vec<Arc<Table>>>,
    /// The length of `list`, which a session compares without the lock.
    count: AtomicUsize,
}

impl Tables {
    /// Adds tables after the existing ones.
    ///
    /// A table that is prepared again, by a second call of `Engine::migrate`, gets another number.
    pub fn add(&self, tables: &[Arc<Table>]) {
        let mut list = self.list.write();
        list.extend_from_slice(tables);
        self.count.store(list.len(), Ordering::Release);
    }
}

/// One session's view of the tables.
#[derive(Debug)]
pub struct KnownTables {
    /// The engine's tables.
    all: Arc<Tables>,
    /// The tables that the session has learned, by number.
    known: Vec<Arc<Table>>,
    /// The number of each table, by the address of the table.
    by_address: HashMap<usize, u32>,
    /// The table of the last lookup.
    ///
    /// Most sessions use the same table several times in a row.
    last: (usize, u32),
}

impl KnownTables {
    /// Creates a view without any table.
    #[must_use]
    pub fn new(all: Arc<Tables>) -> Self {
        Self { all, known: Vec::new(), by_address: HashMap::new(), last: (0, 0) }
    }

    /// Returns the number of a table.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the table was not prepared.
    #[inline]
    pub fn number(&mut self, table: &Table) -> Result<u32> {
        let address = std::ptr::from_ref(table) as usize;
        if self.last.0 == address {
            return Ok(self.last.1);
        }
        self.look_up(table, address)
    }

    /// Returns the table with a number.
    #[must_use]
    pub fn at(&self, number: usize) -> Option<&Arc<Table>> {
        self.known.get(number)
    }

    /// Returns the table itself, which can outlive the caller's reference.
    ///
    /// # Errors
    /// Those of [`Self::number`].
    pub fn kept(&mut self, table: &Table) -> Result<Arc<Table>> {
        let number = self.number(table)?;
        Ok(Arc::clone(&self.known[number as usize]))
    }

    /// [`Self::number`] of a table other than the last one.
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

    /// Adds the tables that were prepared since the last call.
    ///
    /// Without new tables it costs one atomic load.
    pub fn learn(&mut self) {
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

    /// Returns the last prepared table called `name`.
    ///
    /// ASCII case is ignored, as in SQL.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<Table>> {
        self.known.iter().rev().find(|table| table.name().eq_ignore_ascii_case(name))
    }

    /// Returns the number of the last prepared table called `name`.
    #[must_use]
    pub fn number_of(&self, name: &str) -> Option<u32> {
        let place = self.known.iter().rposition(|table| table.name() == name)?;
        u32::try_from(place).ok()
    }

    /// Returns the audited tables and the table of the history.
    ///
    /// Engines with SQL use them to refuse statements that would bypass the history.
    pub fn audited(&self) -> impl Iterator<Item = &Arc<Table>> {
        let is_kept = |table: &&Arc<Table>| {
            table.schema().audit || table.name() == crate::rows::history::HISTORY_TABLE
        };
        let any = self.known.iter().any(|table| table.schema().audit);
        self.known.iter().filter(move |table| any && is_kept(table))
    }

    /// Returns every field that refers to rows of `name`, with its table.
    #[must_use]
    pub fn references_to(&self, name: &str) -> Vec<(Arc<Table>, usize)> {
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
