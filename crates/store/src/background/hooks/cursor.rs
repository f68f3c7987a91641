//! The durable cursor of a hook: a row with the last commit that was handled, and a lease, by which
//! one process at a time calls the hook.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use marmota_model::{
    Comparison, ErrorKind, FilterExpr, NoRows, Result, RowQuery, Table, Timestamp, Uuid, Value,
    ValueRef,
};

use crate::contract::change::Position;
use crate::contract::operation::{OnConflict, Operation};
use crate::layers::feed::schema::cursor::{
    COLUMNS, FEED, HOLDER, KEY, NAME, NUMBER, UNTIL, VERSION,
};
use crate::store::Store;

/// The time for which a process may call a hook without renewing its lease.
pub(super) const LEASE: Duration = Duration::from_secs(10);

/// The cursor of a hook, as this process sees it.
pub(super) struct Cursor {
    table: Arc<Table>,
    name: String,
    /// This process, among those that register the hook.
    holder: Uuid,
    key: i64,
    version: i64,
    pub(super) position: Position,
}

/// The row of a cursor.
struct Stored {
    key: i64,
    position: Position,
    holder: Uuid,
    until: Timestamp,
    version: i64,
}

impl Cursor {
    /// Reads the cursor of a hook, and makes it at `start` if the hook is new.
    pub(super) fn open(store: &Store, name: &str, start: Position) -> Result<Self> {
        let table = Arc::clone(&store.feed()?.cursors);
        let row = [
            ValueRef::Absent,
            ValueRef::Text(name),
            ValueRef::Int(start.feed as i64),
            ValueRef::Int(start.number as i64),
            ValueRef::Uuid(Uuid::nil()),
            ValueRef::Timestamp(Timestamp::default()),
            ValueRef::Int(1),
        ];
        let on_conflict = OnConflict::Ignore;
        store.run(&mut Operation::Insert { table: &table, row: &row, on_conflict }, &mut NoRows)?;
        let (holder, name) = (Uuid::now_v7(), name.to_owned());
        let mut cursor = Self { table, name, holder, key: 0, version: 0, position: start };
        cursor.read(store)?;
        Ok(cursor)
    }

    /// Reads the row. Returns true if this process may take the lease.
    fn read(&mut self, store: &Store) -> Result<bool> {
        let filter = FilterExpr::Compare {
            field: NAME,
            comparison: Comparison::Equal,
            value: Value::Text(self.name.clone()),
        };
        let query = RowQuery {
            filter: Some(filter),
            fields: Some(self.table.all()),
            limit: Some(1),
            ..RowQuery::new()
        };
        let mut stored = None;
        let mut list = Operation::List { table: &self.table, query: &query };
        store.run(&mut list, &mut |row: &[ValueRef<'_>]| {
            stored = Stored::of(row);
            ControlFlow::Break(())
        })?;
        let Some(stored) = stored else { return Ok(false) };
        (self.key, self.version, self.position) = (stored.key, stored.version, stored.position);
        Ok(stored.holder == self.holder || stored.until <= Timestamp::now())
    }

    /// Takes the lease. Returns false if another process has it.
    pub(super) fn take(&mut self, store: &Store) -> Result<bool> {
        Ok(self.read(store)? && self.save(store)?)
    }

    /// Saves the position and renews the lease. Returns false if another process has taken it.
    pub(super) fn save(&mut self, store: &Store) -> Result<bool> {
        let until = Timestamp::now().micros() + LEASE.as_micros() as i64;
        self.write(store, Timestamp::from_micros(until).unwrap_or_default())
    }

    /// Saves the position and ends the lease, so that another process can take it at once.
    pub(super) fn release(&mut self, store: &Store) -> Result<bool> {
        self.write(store, Timestamp::default())
    }

    fn write(&mut self, store: &Store, until: Timestamp) -> Result<bool> {
        let mut row = [ValueRef::Absent; COLUMNS];
        row[FEED] = ValueRef::Int(self.position.feed as i64);
        row[NUMBER] = ValueRef::Int(self.position.number as i64);
        row[HOLDER] = ValueRef::Uuid(self.holder);
        row[UNTIL] = ValueRef::Timestamp(until);
        let key = ValueRef::Int(self.key);
        let version = Some(self.version);
        let mut update = Operation::Update { table: &self.table, key, row: &row, version };
        match store.run(&mut update, &mut NoRows) {
            Ok(outcome) => {
                self.version = outcome.version.unwrap_or(self.version + 1);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::Stale => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Stored {
    fn of(row: &[ValueRef<'_>]) -> Option<Self> {
        let int = |place: usize| row[place].as_int();
        let (ValueRef::Uuid(holder), ValueRef::Timestamp(until)) = (row[HOLDER], row[UNTIL]) else {
            return None;
        };
        let position = Position { feed: int(FEED)? as u64, number: int(NUMBER)? as u64 };
        Some(Self { key: int(KEY)?, position, holder, until, version: int(VERSION)? })
    }
}
