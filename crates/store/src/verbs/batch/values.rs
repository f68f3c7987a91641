//! Writes of a batch that are given as records or values, for tables made at run time.

use std::sync::Arc;

use marmota_model::{FieldSet, KeyKind, Record, Scratch, Table, Value, ValueRef};

use super::{Added, Batch};
use crate::contract::operation::Write;
use crate::rows::prepare::{self, ValueSource};
use crate::verbs::read::check_key;
use crate::verbs::write::{check_increment, check_version};

impl<'s> Batch<'s> {
    /// Adds an insert of a record.
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
    /// let mut batch = store.batch();
    /// batch.insert_record(&note);
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.list_records(&notes).run()?.len(), 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn insert_record(&mut self, record: &Record) -> Added<'_, 's> {
        self.insert_values(record.table(), record.values())
    }

    /// Adds an insert of a row given as values in the order of fields.
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
    /// let mut batch = store.batch();
    /// batch.insert_values(&notes, note.values());
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.list_records(&notes).run()?.len(), 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn insert_values(&mut self, table: &Arc<Table>, values: &[Value]) -> Added<'_, 's> {
        let scratch = Scratch::new();
        let mut row: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        let given = FieldSet::present(&row);
        if table.key_kind() == KeyKind::Uuid && !given.contains(table.key()) {
            self.made_keys.push(self.writes.len());
        }
        let made = prepare::insert(
            table,
            &mut row,
            ValueSource::Values,
            self.store.stamp(table),
            &scratch,
        );
        let row = row.iter().map(ValueRef::to_value).collect();
        self.add(made.map(|()| Write::insert(Arc::clone(table), row)));
        Added::new(self, given)
    }

    /// Adds an update of the fields that have a value in a row given as values.
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
    /// let mut batch = store.batch();
    /// let key = store.insert_record(&note).run()?;
    /// note.set("text", "second")?;
    /// batch.update_values(&notes, key.clone(), note.values(), None);
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.get_record(&notes, key).run()?.value("text")?, &"second".into());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn update_values(
        &mut self,
        table: &Arc<Table>,
        key: Value,
        values: &[Value],
        version: Option<i64>,
    ) -> &mut Self {
        let scratch = Scratch::new();
        let mut row: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        let made = check_key(table, key.as_ref())
            .and_then(|()| check_version(table, version))
            .and_then(|()| {
                prepare::update(
                    table,
                    &mut row,
                    ValueSource::Values,
                    self.store.stamp(table),
                    &scratch,
                )
            });
        let row = row.iter().map(ValueRef::to_value).collect();
        let table = Arc::clone(table);
        self.add(made.map(|()| Write::Update { table, key, row, version }))
    }

    /// Adds a delete with the key as a value.
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
    /// let mut batch = store.batch();
    /// let key = store.insert_record(&note).run()?;
    /// batch.delete_value(notes.clone(), key, None);
    /// batch.all_or_nothing().run()?;
    /// assert!(store.list_records(&notes).run()?.is_empty());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn delete_value(
        &mut self,
        table: Arc<Table>,
        key: Value,
        version: Option<i64>,
    ) -> &mut Self {
        let checked = check_key(&table, key.as_ref()).and_then(|()| check_version(&table, version));
        self.add(checked.map(|()| Write::Delete { table, key, version }))
    }

    /// Adds an increment with the key and the amount as values.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Record, Role, Schema};
    /// # use marmota_store::Store;
    /// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("n", Kind::I64)];
    /// # let store = Store::builder(Memory::new()).schema(Schema::new("counter", fields)).open()?;
    /// let counters = store.table("counter")?;
    /// let mut counter = Record::new(counters.clone());
    /// counter.set("n", 1)?;
    /// let key = store.insert_record(&counter).run()?;
    /// let mut batch = store.batch();
    /// batch.increment_value(counters.clone(), key.clone(), 1, 5.into());
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.get_record(&counters, key).run()?.value("n")?, &6.into());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn increment_value(
        &mut self,
        table: Arc<Table>,
        key: Value,
        field: usize,
        by: Value,
    ) -> &mut Self {
        let checked = check_key(&table, key.as_ref())
            .and_then(|()| check_increment(&table, field, by.as_ref()));
        let stamp = self.store.stamp(&table).value().to_value();
        self.add(checked.map(|()| Write::Increment { table, key, field, by, stamp }))
    }
}
