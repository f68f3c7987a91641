//! Dead letters: changes on which a hook has failed as often as it may.

use std::ops::ControlFlow;

use marmota_model::{
    Comparison, FilterExpr, NoRows, Result, RowQuery, SortKey, Timestamp, Value, ValueRef,
};

use crate::contract::change::{Change, Position};
use crate::contract::operation::Operation;
use crate::layers::feed::schema::dead_letter::{AT, ERROR, HOOK, KEY, POSITION, ROW, TABLE};
use crate::store::Store;

/// A change on which a hook has failed as often as it may ([`Store::dead_letters`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The key of the dead letter, by which it is removed.
    pub id: i64,
    /// The name of the hook.
    pub hook: String,
    /// The position of the commit.
    pub position: String,
    /// The table of the row; empty for changes that the hook has missed.
    pub table: String,
    /// The key of the row, as text.
    pub key: String,
    /// The last error.
    pub error: String,
    /// The time of the last attempt.
    pub at: Timestamp,
}

impl Store {
    /// Returns the dead letters of a hook, the oldest first; at most 1,000. Blocks the thread.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Unsupported`] if the store records no changes.
    pub fn dead_letters(&self, hook: &str) -> Result<Vec<DeadLetter>> {
        const LETTERS_MAX: u64 = 1_000;
        let table = &*self.feed()?.dead_letters;
        let filter = FilterExpr::Compare {
            field: HOOK,
            comparison: Comparison::Equal,
            value: Value::Text(hook.to_owned()),
        };
        let query = RowQuery {
            filter: Some(filter),
            order: vec![SortKey { field: KEY, descending: false }],
            fields: Some(table.all()),
            limit: Some(LETTERS_MAX),
            ..RowQuery::new()
        };
        let mut letters = Vec::new();
        let mut read = |row: &[ValueRef<'_>]| {
            letters.extend(DeadLetter::of(row));
            ControlFlow::Continue(())
        };
        self.run(&mut Operation::List { table, query: &query }, &mut read)?;
        Ok(letters)
    }

    /// Removes a dead letter. Blocks the thread.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::NotFound`] if no dead letter has this key.
    pub fn remove_dead_letter(&self, id: i64) -> Result<()> {
        let table = &*self.feed()?.dead_letters;
        let mut delete = Operation::Delete { table, key: ValueRef::Int(id), version: None };
        self.run(&mut delete, &mut NoRows).map(drop)
    }
}

impl DeadLetter {
    fn of(row: &[ValueRef<'_>]) -> Option<Self> {
        let text = |place: usize| row[place].as_text().map(str::to_owned);
        let ValueRef::Timestamp(at) = row[AT] else { return None };
        Some(Self {
            id: row[KEY].as_int()?,
            hook: text(HOOK)?,
            position: text(POSITION)?,
            table: text(TABLE)?,
            key: text(ROW)?,
            error: text(ERROR)?,
            at,
        })
    }
}

/// Keeps a change on which a hook has failed; `None` for changes that it has missed.
pub(super) fn keep(
    store: &Store,
    hook: &str,
    position: Position,
    change: Option<&Change>,
    error: &str,
) -> Result<()> {
    let table = &*store.feed()?.dead_letters;
    let position = position.to_string();
    let (of_table, key) = match change {
        Some(change) => (change.table.name(), key_text(change.key())),
        None => ("", String::new()),
    };
    let row = [
        ValueRef::Absent,
        ValueRef::Text(hook),
        ValueRef::Text(&position),
        ValueRef::Text(of_table),
        ValueRef::Text(&key),
        ValueRef::Text(error),
        ValueRef::Timestamp(Timestamp::now()),
    ];
    store.run(&mut Operation::insert(table, &row), &mut NoRows).map(drop)
}

fn key_text(key: &Value) -> String {
    match key {
        Value::Int(key) => key.to_string(),
        Value::Text(key) => key.clone(),
        Value::Uuid(key) => key.to_string(),
        key => format!("{key:?}"),
    }
}
