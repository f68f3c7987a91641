//! The verbs that write rows of tables made at run time. A [`Record`] knows its table, so no model
//! is named; a field without a value is not written.

use std::sync::Arc;

use marmota_model::{NoRows, Record, Result, Scratch, Table, Value, ValueRef};

use super::check::check_version;
use super::row::Call;
use crate::contract::operation::{Keys, Operation, Outcome};
use crate::rows::prepare::{self, ValueSource};
use crate::store::Store;
use crate::verbs::action::{Action, Verb};
use crate::verbs::read::check_key;

/// The verb of [`Store::insert_record`], with the conflict actions [`Action::or_ignore`],
/// [`Action::or_replace`] and [`Action::or_update`].
pub struct InsertRecord<'r> {
    pub(super) record: &'r Record,
    key: Value,
}

impl Verb for InsertRecord<'_> {
    type Output = Value;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = self.record.table();
        let scratch = Scratch::new();
        let mut row = self.record.as_row();
        if let Value::Uuid(key) = self.key {
            row[table.key()] = ValueRef::Uuid(key);
        }
        prepare::insert(table, &mut row, ValueSource::Values, store.stamp(table), &scratch)?;
        self.key = row[table.key()].to_value();
        call(&mut Operation::insert(table, &row), &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<Value> {
        match std::mem::take(&mut outcome.keys) {
            Keys::One(key) => Ok(key),
            _ => Ok(std::mem::take(&mut self.key)),
        }
    }
}

/// The verb of [`Store::update_record`]; its result is the row's new version.
pub struct UpdateRecord<'r> {
    key: Value,
    record: &'r Record,
    version: Option<i64>,
}

impl Verb for UpdateRecord<'_> {
    type Output = i64;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = self.record.table();
        check_key(table, self.key.as_ref())?;
        let scratch = Scratch::new();
        let mut row = self.record.as_row();
        let version = self.version;
        check_version(table, version)?;
        prepare::update(table, &mut row, ValueSource::Values, store.stamp(table), &scratch)?;
        let key = self.key.as_ref();
        call(&mut Operation::Update { table, key, row: &row, version }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<i64> {
        Ok(outcome.version.unwrap_or(0))
    }
}

impl Action<'_, UpdateRecord<'_>> {
    /// Makes the write fail with [`ErrorKind::Stale`](marmota_model::ErrorKind::Stale) unless this
    /// is the row's version.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(note).open()?;
    /// # let notes = store.table("note")?;
    /// let mut note = Record::new(notes.clone());
    /// note.set("text", "first")?;
    /// let key = store.insert_record(&note).run()?;
    /// // The table has no version field.
    /// assert!(store.update_record(key, &note).version(1).run().is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn version(mut self, version: i64) -> Self {
        self.verb.version = Some(version);
        self
    }
}

/// The verb of [`Store::delete_record`].
pub struct DeleteRecord {
    table: Arc<Table>,
    key: Value,
}

impl Verb for DeleteRecord {
    type Output = ();

    fn operate(&mut self, _: &Store, call: &mut Call<'_>) -> Result<()> {
        let Self { table, key } = self;
        check_key(table, key.as_ref())?;
        let mut operation = Operation::Delete { table, key: key.as_ref(), version: None };
        call(&mut operation, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<()> {
        Ok(())
    }
}

impl Store {
    /// Inserts a row of a run-time table and returns its key.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(note).open()?;
    /// # let notes = store.table("note")?;
    /// let mut note = Record::new(notes.clone());
    /// note.set("text", "first")?;
    /// let key = store.insert_record(&note).run()?;
    /// assert_eq!(key, 1.into());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Store::insert`].
    pub fn insert_record<'s, 'r>(&'s self, record: &'r Record) -> Action<'s, InsertRecord<'r>> {
        Action::new(self, InsertRecord { record, key: Value::Absent })
    }

    /// Writes the fields that `record` has a value for to the row with this key.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(note).open()?;
    /// # let notes = store.table("note")?;
    /// let mut note = Record::new(notes.clone());
    /// note.set("text", "first")?;
    /// let key = store.insert_record(&note).run()?;
    /// note.set("text", "second")?;
    /// store.update_record(key.clone(), &note).run()?;
    /// assert_eq!(store.get_record(&notes, key).run()?.value("text")?, &"second".into());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Store::update`].
    pub fn update_record<'s, 'r>(
        &'s self,
        key: impl Into<Value>,
        record: &'r Record,
    ) -> Action<'s, UpdateRecord<'r>> {
        Action::new(self, UpdateRecord { key: key.into(), record, version: None })
    }

    /// Deletes a row of a run-time table.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(note).open()?;
    /// # let notes = store.table("note")?;
    /// let mut note = Record::new(notes.clone());
    /// note.set("text", "first")?;
    /// let key = store.insert_record(&note).run()?;
    /// store.delete_record(&notes, key).run()?;
    /// assert!(store.list_records(&notes).run()?.is_empty());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Store::delete`].
    pub fn delete_record(
        &self,
        table: &Arc<Table>,
        key: impl Into<Value>,
    ) -> Action<'_, DeleteRecord> {
        Action::new(self, DeleteRecord { table: Arc::clone(table), key: key.into() })
    }
}
