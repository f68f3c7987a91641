//! The verbs that insert with a conflict action: an existing row is ignored, replaced or updated.
//! Their result is the key and the effect ([`UpsertResult`]).

use marmota_model::{
    FieldSet, Key, Model, NoRows, Record, Result, Scratch, Table, Value, ValueRef,
};

use super::insert::{Insert, InsertMany};
use super::records::InsertRecord;
use super::row::{Call, RowBuffer, Structs, lost_key};
use crate::contract::operation::{Keys, OnConflict, Operation, Outcome, UpsertResult};
use crate::rows::prepare::{self, ValueSource};
use crate::store::Store;
use crate::verbs::action::{Action, Verb};

/// The verb of [`Store::upsert`], and of an insert with one of
/// [`Action::or_ignore`], [`Action::or_replace`] and [`Action::or_update`].
pub struct InsertOver<'m, M: Model> {
    model: &'m M,
    on_conflict: OnConflict,
    /// The generated key, kept so that an action that waits uses the same key again.
    key: Value,
}

impl<M: Model> Unpin for InsertOver<'_, M> {}

impl<M: Model> Verb for InsertOver<'_, M> {
    type Output = UpsertResult<M::Key>;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = store.registry().of::<M>()?;
        let scratch = Scratch::new();
        let mut buffer = RowBuffer::new();
        let row = buffer.row(table);
        self.model.write(row, &scratch);
        let on_conflict = self.on_conflict.with_given(table, FieldSet::present(row));
        keep_uuid(table, row, &mut self.key, |row| {
            prepare::insert(table, row, ValueSource::Struct, store.stamp(table), &scratch)
        })?;
        call(&mut Operation::Insert { table, row, on_conflict }, &mut NoRows)
    }

    fn finish(&mut self, store: &Store, outcome: &mut Outcome) -> Result<UpsertResult<M::Key>> {
        let key = match &outcome.keys {
            Keys::One(key) => M::Key::from_value(key),
            _ => None,
        };
        match key {
            Some(key) => Ok(UpsertResult { key, effect: outcome.effect }),
            None => Err(lost_key(store.registry().of::<M>()?)),
        }
    }
}

/// Prepares a row; if it got a UUID in an earlier call, it keeps that.
fn keep_uuid<'a>(
    table: &Table,
    row: &mut [ValueRef<'a>],
    kept: &mut Value,
    prepare: impl FnOnce(&mut [ValueRef<'a>]) -> Result<()>,
) -> Result<()> {
    if let Value::Uuid(key) = *kept {
        row[table.key()] = ValueRef::Uuid(key);
    }
    prepare(row)?;
    if let ValueRef::Uuid(key) = row[table.key()] {
        *kept = Value::Uuid(key);
    }
    Ok(())
}

/// The verb of [`Store::upsert_many`], and of an insert of many with one of
/// [`Action::or_ignore`], [`Action::or_replace`] and [`Action::or_update`].
pub struct InsertManyOver<'m, M> {
    models: &'m [M],
    on_conflict: OnConflict,
}

impl<M: Model> Verb for InsertManyOver<'_, M> {
    type Output = Vec<UpsertResult<M::Key>>;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let Some(first) = self.models.first() else { return Ok(()) };
        let table = store.registry().of::<M>()?;
        let scratch = Scratch::new();
        let given = {
            let mut buffer = RowBuffer::new();
            let row = buffer.row(table);
            first.write(row, &scratch);
            FieldSet::present(row)
        };
        let on_conflict = self.on_conflict.with_given(table, given);
        let updates = matches!(on_conflict, OnConflict::Update { .. });
        let mut rows = Structs {
            table,
            models: self.models.iter(),
            scratch: &scratch,
            stamp: store.stamp(table),
            updates: false,
            given: updates.then_some(given),
            index: 0,
            keys: None,
        };
        call(&mut Operation::InsertMany { table, rows: &mut rows, on_conflict }, &mut NoRows)
    }

    fn finish(
        &mut self,
        store: &Store,
        outcome: &mut Outcome,
    ) -> Result<Vec<UpsertResult<M::Key>>> {
        let rows = match std::mem::take(&mut outcome.keys) {
            Keys::Upserted(rows) => rows,
            _ => Vec::new(),
        };
        let typed = |row: &UpsertResult<Value>| {
            let key = M::Key::from_value(&row.key)?;
            Some(UpsertResult { key, effect: row.effect })
        };
        match rows.iter().map(typed).collect::<Option<Vec<_>>>() {
            Some(placed) if placed.len() == self.models.len() => Ok(placed),
            _ => Err(lost_key(store.registry().of::<M>()?)),
        }
    }
}

/// The verb of [`Store::upsert_record`], and of an insert of a record with one
/// of [`Action::or_ignore`], [`Action::or_replace`] and [`Action::or_update`].
pub struct InsertRecordOver<'r> {
    record: &'r Record,
    on_conflict: OnConflict,
    key: Value,
}

impl Verb for InsertRecordOver<'_> {
    type Output = UpsertResult<Value>;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = self.record.table();
        let scratch = Scratch::new();
        let mut row = self.record.as_row();
        let on_conflict = self.on_conflict.with_given(table, FieldSet::present(&row));
        keep_uuid(table, &mut row, &mut self.key, |row| {
            prepare::insert(table, row, ValueSource::Values, store.stamp(table), &scratch)
        })?;
        call(&mut Operation::Insert { table, row: &row, on_conflict }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<UpsertResult<Value>> {
        match std::mem::take(&mut outcome.keys) {
            Keys::One(key) => Ok(UpsertResult { key, effect: outcome.effect }),
            _ => Err(lost_key(self.record.table())),
        }
    }
}

/// Adds the conflict actions to an insert.
macro_rules! ways {
    ($insert:ty => $over:ty, $make:expr, [$($generics:tt)*]) => {
        impl<'s, $($generics)*> Action<'s, $insert> {
            /// Leaves an existing row as it is: [`OnConflict::Ignore`].
            ///
            /// ```
            /// # use marmota_derive::Model;
            /// # use marmota_memory::Memory;
            /// # use marmota_store::Store;
            /// # #[derive(Clone, Debug, PartialEq, Model)]
            /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
            /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
            /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
            /// use marmota_store::operation::UpsertEffect;
            ///
            /// let bourges = city("Bourges", 64_000);
            /// assert_eq!(store.insert(&bourges).or_ignore().run()?.effect, UpsertEffect::Inserted);
            /// assert_eq!(store.insert(&bourges).or_ignore().run()?.effect, UpsertEffect::Ignored);
            /// # Ok::<(), marmota_model::Error>(())
            /// ```
            pub fn or_ignore(self) -> Action<'s, $over> {
                self.over(OnConflict::Ignore)
            }

            /// Replaces the conflicting rows by this row: [`OnConflict::Replace`].
            ///
            /// ```
            /// # use marmota_derive::Model;
            /// # use marmota_memory::Memory;
            /// # use marmota_store::Store;
            /// # #[derive(Clone, Debug, PartialEq, Model)]
            /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
            /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
            /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
            /// let old = store.insert(&city("Bourges", 64_000)).run()?;
            /// let new = store.insert(&city("Bourges", 65_000)).or_replace().run()?;
            /// assert!(new.key != old, "a replaced row is deleted");
            /// # Ok::<(), marmota_model::Error>(())
            /// ```
            pub fn or_replace(self) -> Action<'s, $over> {
                self.over(OnConflict::Replace)
            }

            /// Writes this row over the existing one: [`OnConflict::Update`].
            ///
            /// ```
            /// # use marmota_derive::Model;
            /// # use marmota_memory::Memory;
            /// # use marmota_store::Store;
            /// # #[derive(Clone, Debug, PartialEq, Model)]
            /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
            /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
            /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
            /// let old = store.insert(&city("Bourges", 64_000)).run()?;
            /// let updated = store.insert(&city("Bourges", 65_000)).or_update().run()?;
            /// assert_eq!(updated.key, old);
            /// # Ok::<(), marmota_model::Error>(())
            /// ```
            pub fn or_update(self) -> Action<'s, $over> {
                self.over(OnConflict::UPDATE)
            }

            fn over(self, on_conflict: OnConflict) -> Action<'s, $over> {
                self.with_verb(|verb| ($make)(verb, on_conflict))
            }
        }
    };
}

ways!(Insert<'m, M> => InsertOver<'m, M>, |verb: &Insert<'m, M>, on_conflict| InsertOver {
    model: verb.model,
    on_conflict,
    key: Value::Absent,
}, ['m, M: Model]);
ways!(InsertMany<'m, M> => InsertManyOver<'m, M>, |verb: &InsertMany<'m, M>, on_conflict| {
    InsertManyOver { models: verb.models, on_conflict }
}, ['m, M: Model]);
ways!(InsertRecord<'r> => InsertRecordOver<'r>, |verb: &InsertRecord<'r>, on_conflict| {
    InsertRecordOver { record: verb.record, on_conflict, key: Value::Absent }
}, ['r]);

impl Store {
    /// Inserts a row, or updates the existing one: the row with its key, or otherwise with the same
    /// unique values. An existing row keeps its key and its created-at time, and one is added to
    /// its version, which is not compared; a blob that was not read is unchanged. It is short for
    /// an insert with [`Action::or_update`].
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// use marmota_store::operation::UpsertEffect;
    ///
    /// store.upsert(&city("Bourges", 64_000)).run()?;
    /// let again = store.upsert(&city("Bourges", 65_000)).run()?;
    /// assert_eq!((again.key, again.effect), (1, UpsertEffect::Updated));
    /// assert_eq!(store.get::<City>(1).run()?.people, 65_000);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Store::insert`]; a conflict only if two rows conflict with this one.
    pub fn upsert<'s, 'm, M: Model>(&'s self, model: &'m M) -> Action<'s, InsertOver<'m, M>> {
        self.insert(model).or_update()
    }

    /// Upserts rows like [`Store::upsert`], all or none. A row may conflict with a later one. Rows
    /// may refer to earlier rows.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// store.insert(&city("Bourges", 64_000)).run()?;
    /// let rows = [city("Bourges", 65_000), city("Lyon", 520_000)];
    /// let keys = store.upsert_many(&rows).run()?.into_iter().map(|row| row.key);
    /// assert_eq!(keys.collect::<Vec<_>>(), [1, 2]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Store::upsert`], with the row's index in `models`.
    pub fn upsert_many<'s, 'm, M: Model>(
        &'s self,
        models: &'m [M],
    ) -> Action<'s, InsertManyOver<'m, M>> {
        self.insert_many(models).or_update()
    }

    /// [`Store::upsert`] of a row of a run-time table: the fields that the record has a value for
    /// are written to the existing row, the others are unchanged.
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
    /// let key = store.upsert_record(&note).run()?.key;
    /// note.set("id", key.clone())?;
    /// note.set("text", "second")?;
    /// assert_eq!(store.upsert_record(&note).run()?.key, key);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Store::upsert`].
    pub fn upsert_record<'s, 'r>(&'s self, record: &'r Record) -> Action<'s, InsertRecordOver<'r>> {
        self.insert_record(record).or_update()
    }
}
