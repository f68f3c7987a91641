//! The verbs that write one row, or several rows of one table.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::contract::operation::{Keys, Operation, Outcome};
use crate::rows::prepare::{self, ValueSource, WriteTimestamp};
use crate::store::Store;
use crate::verbs::action::{Action, Verb};
use crate::verbs::read::check_key;
use marmota_model::{
    Column, Comparable, Error, ErrorKind, FieldSet, FieldValue, Filter, FilterExpr, Key, KeyKind,
    Model, NoRows, Record, Result, RowSink, RowSource, Scratch, Table, Value, ValueRef,
};

mod upsert;

pub use upsert::{InsertManyOver, InsertOver, InsertRecordOver};

/// Rows with at most this many fields are written without an allocation.
const ROW_FIELDS_FEW: usize = 24;

type Call<'c> = dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()> + 'c;

/// Memory for a row: on the stack, unless the model is wide.
struct RowBuffer<'a> {
    few: [ValueRef<'a>; ROW_FIELDS_FEW],
    many: Vec<ValueRef<'a>>,
}

impl<'a> RowBuffer<'a> {
    const fn new() -> Self {
        Self { few: [ValueRef::Absent; ROW_FIELDS_FEW], many: Vec::new() }
    }

    /// Returns a row of the table with every field absent.
    fn row(&mut self, table: &Table) -> &mut [ValueRef<'a>] {
        let fields = table.fields().len();
        if let Some(row) = self.few.get_mut(..fields) {
            return row;
        }
        self.many.resize(fields, ValueRef::Absent);
        &mut self.many
    }
}

/// Returns the version that a struct was read with; `None` for 0, which no stored row has.
fn version_of(table: &Table, row: &[ValueRef<'_>]) -> Option<i64> {
    row[table.version()?].as_int().filter(|&version| version != 0)
}

/// Refuses an expected version if the table has no version field.
///
/// # Errors
/// [`ErrorKind::Invalid`]; the message has an alternative.
pub fn check_version(table: &Table, version: Option<i64>) -> Result<()> {
    if version.is_none() || table.version().is_some() {
        return Ok(());
    }
    let message = format!(
        "`{}` has no version to compare with; add #[model(version)] to one of its fields",
        table.name()
    );
    Err(Error::new(ErrorKind::Invalid, message))
}

#[cold]
fn lost_key(table: &Table) -> Error {
    let message =
        format!("the engine did not return a key of the right kind for `{}`", table.name());
    Error::new(ErrorKind::Bug, message)
}

/// The verb of [`Store::insert`].
pub struct Insert<'m, M: Model> {
    model: &'m M,
    /// The generated key, kept so that an action that waits uses the same key again.
    key: Value,
}

impl<M: Model> Unpin for Insert<'_, M> {}

impl<M: Model> Verb for Insert<'_, M> {
    type Output = M::Key;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = store.registry().of::<M>()?;
        let scratch = Scratch::new();
        let mut buffer = RowBuffer::new();
        let row = buffer.row(table);
        self.model.write(row, &scratch);
        if let Value::Uuid(key) = self.key {
            row[table.key()] = ValueRef::Uuid(key);
        }
        prepare::insert(table, row, ValueSource::Struct, store.stamp(table))?;
        if let ValueRef::Uuid(_) | ValueRef::Int(_) = row[table.key()] {
            self.key = row[table.key()].to_value();
        }
        call(&mut Operation::insert(table, row), &mut NoRows)
    }

    fn finish(&mut self, store: &Store, outcome: &mut Outcome) -> Result<M::Key> {
        let given = match &outcome.keys {
            Keys::One(key) => M::Key::from_value(key),
            _ if self.key == Value::Absent => Some(self.model.key().clone()),
            _ => M::Key::from_value(&self.key),
        };
        given.ok_or_else(|| match store.registry().of::<M>() {
            Ok(table) => lost_key(table),
            Err(error) => error,
        })
    }
}

/// Structs as a source of prepared rows.
struct Structs<'a, M: Model> {
    table: &'a Table,
    models: std::slice::Iter<'a, M>,
    scratch: &'a Scratch,
    stamp: WriteTimestamp,
    updates: bool,
    /// The fields that every row has to have, if existing rows are written to.
    given: Option<FieldSet>,
    index: usize,
    /// Receives the keys of inserted rows, if the store generates them. It is a cell, because an
    /// operation keeps its source borrowed.
    keys: Option<&'a RefCell<Vec<M::Key>>>,
}

impl<'a, M: Model> RowSource<'a> for Structs<'a, M> {
    fn remaining(&self) -> usize {
        self.models.len()
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        let Some(model) = self.models.next() else { return Ok(false) };
        model.write(row, self.scratch);
        if self.given.is_some_and(|given| given != FieldSet::present(row)) {
            return Err(self.at(&prepare::not_the_same_fields()));
        }
        let prepared = if self.updates {
            let key = row[self.table.key()];
            let updated = prepare::update(self.table, row, ValueSource::Struct, self.stamp);
            row[self.table.key()] = key;
            updated
        } else {
            prepare::insert(self.table, row, ValueSource::Struct, self.stamp)
        };
        prepared.map_err(|error| self.at(&error))?;
        if let Some(keys) = self.keys {
            keys.borrow_mut().extend(M::Key::from_row(row[self.table.key()]));
        }
        self.index += 1;
        Ok(true)
    }
}

impl<M: Model> Structs<'_, M> {
    /// Adds the index of the row to an error.
    #[cold]
    fn at(&self, error: &Error) -> Error {
        error.at(format_args!("row {}", self.index))
    }
}

/// The verb of [`Store::insert_many`].
pub struct InsertMany<'m, M: Model> {
    models: &'m [M],
    /// The keys that the store generated; empty if it generates none.
    keys: Vec<M::Key>,
}

impl<M: Model> Unpin for InsertMany<'_, M> {}

impl<M: Model> Verb for InsertMany<'_, M> {
    type Output = Vec<M::Key>;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        if self.models.is_empty() {
            return Ok(());
        }
        let table = store.registry().of::<M>()?;
        let unset = |model: &&M| model.key().is_unset();
        if M::KEY_KIND == KeyKind::Auto
            && self.models.iter().any(|model| unset(&model))
            && !self.models.iter().all(|model| unset(&model))
        {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the rows of insert_many must all have a key, or none; split them, or use a batch",
            ));
        }
        let (scratch, keys) = (Scratch::new(), RefCell::new(Vec::new()));
        let mut rows = Structs {
            table,
            models: self.models.iter(),
            scratch: &scratch,
            stamp: store.stamp(table),
            updates: false,
            given: None,
            index: 0,
            keys: (M::KEY_KIND == KeyKind::Uuid).then_some(&keys),
        };
        call(&mut Operation::insert_many(table, &mut rows), &mut NoRows)?;
        // A call that continues one that waited may not read the rows again.
        let keys = keys.take();
        if !keys.is_empty() {
            self.keys = keys;
        }
        Ok(())
    }

    fn finish(&mut self, store: &Store, outcome: &mut Outcome) -> Result<Vec<M::Key>> {
        let keys: Option<Vec<M::Key>> = match &outcome.keys {
            Keys::Known if M::KEY_KIND == KeyKind::Uuid => Some(std::mem::take(&mut self.keys)),
            Keys::Known => Some(self.models.iter().map(|model| model.key().clone()).collect()),
            Keys::One(key) => M::Key::from_value(key).map(|key| vec![key]),
            Keys::Range { first } => (0..self.models.len() as i64)
                .map(|offset| M::Key::from_row(ValueRef::Int(first + offset)))
                .collect(),
            Keys::Each(keys) => keys.iter().map(M::Key::from_value).collect(),
            Keys::Upserted(rows) => rows.iter().map(|row| M::Key::from_value(&row.key)).collect(),
        };
        match keys {
            Some(keys) => Ok(keys),
            None => Err(lost_key(store.registry().of::<M>()?)),
        }
    }
}

/// The verb of [`Store::update_many`].
pub struct UpdateMany<'m, M> {
    models: &'m [M],
}

impl<M: Model> Verb for UpdateMany<'_, M> {
    type Output = u64;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        if self.models.is_empty() {
            return Ok(());
        }
        let table = store.registry().of::<M>()?;
        let scratch = Scratch::new();
        let mut rows = Structs {
            table,
            models: self.models.iter(),
            scratch: &scratch,
            stamp: store.stamp(table),
            updates: true,
            given: None,
            index: 0,
            keys: None,
        };
        call(&mut Operation::UpdateMany { table, rows: &mut rows }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<u64> {
        Ok(outcome.rows)
    }
}

/// The verb of [`Store::update`].
pub struct Update<'m, M> {
    model: &'m M,
}

impl<M: Model> Verb for Update<'_, M> {
    type Output = i64;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = store.registry().of::<M>()?;
        let scratch = Scratch::new();
        let mut buffer = RowBuffer::new();
        let row = buffer.row(table);
        self.model.write(row, &scratch);
        let version = version_of(table, row);
        prepare::update(table, row, ValueSource::Struct, store.stamp(table))?;
        let key = self.model.key().borrow();
        call(&mut Operation::Update { table, key, row, version }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<i64> {
        Ok(outcome.version.unwrap_or(0))
    }
}

/// The verb of [`Store::patch`].
pub struct Patch<M: Model> {
    key: M::Key,
    values: Vec<(usize, Value)>,
    version: Option<i64>,
}

impl<M: Model> Unpin for Patch<M> {}

impl<M: Model> Verb for Patch<M> {
    type Output = i64;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = store.registry().of::<M>()?;
        let mut buffer = RowBuffer::new();
        let row = buffer.row(table);
        for (position, value) in &self.values {
            row[*position] = value.as_ref();
        }
        prepare::update(table, row, ValueSource::Values, store.stamp(table))?;
        let (key, version) = (self.key.borrow(), self.version);
        check_version(table, version)?;
        call(&mut Operation::Update { table, key, row, version }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<i64> {
        Ok(outcome.version.unwrap_or(0))
    }
}

impl<M: Model> Action<'_, Patch<M>> {
    /// Adds a field to the patch.
    pub fn set<T: FieldValue>(mut self, column: Column<M, T>, value: impl Comparable<T>) -> Self {
        self.verb.values.push((column.position(), value.into_value()));
        self
    }

    /// Makes the write fail with [`ErrorKind::Stale`] unless this is the row's version.
    pub fn version(mut self, version: i64) -> Self {
        self.verb.version = Some(version);
        self
    }
}

/// The verb of [`Store::increment`].
pub struct Increment<M: Model, T> {
    key: M::Key,
    column: Column<M, T>,
    by: Value,
}

impl<M: Model, T> Unpin for Increment<M, T> {}

impl<M: Model, T: FieldValue> Verb for Increment<M, T> {
    type Output = T;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = store.registry().of::<M>()?;
        let (key, by) = (self.key.borrow(), self.by.as_ref());
        let field = self.column.position();
        let stamp = store.stamp(table).value();
        check_increment(table, field, by)?;
        call(&mut Operation::Increment { table, key, field, by, stamp }, &mut NoRows)
    }

    fn finish(&mut self, store: &Store, outcome: &mut Outcome) -> Result<T> {
        match T::from_row(outcome.value.as_ref()) {
            Some(sum) => Ok(sum),
            None => Err(lost_key(store.registry().of::<M>()?)),
        }
    }
}

/// Checks that this amount can be added to a field.
///
/// # Errors
/// [`ErrorKind::Invalid`] with the field and the value.
pub fn check_increment(table: &Table, field: usize, by: ValueRef<'_>) -> Result<()> {
    use marmota_model::{Kind, Role};
    let what = &table.fields()[field];
    let fits = matches!(
        (&what.kind, by),
        (Kind::Int { .. }, ValueRef::Int(_)) | (Kind::Currency, ValueRef::Currency(_))
    );
    if fits && what.role == Role::Plain {
        return Ok(());
    }
    let message = "only integer and currency fields that the store does not set can be \
                   incremented, by a value of the same kind";
    Err(Error::invalid(vec![marmota_model::rule::violation(what, by, "type", message)]))
}

/// The verb of [`Store::delete`].
pub struct Delete<M: Model> {
    key: M::Key,
    version: Option<i64>,
}

impl<M: Model> Unpin for Delete<M> {}

impl<M: Model> Verb for Delete<M> {
    type Output = ();

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = store.registry().of::<M>()?;
        let (key, version) = (self.key.borrow(), self.version);
        check_version(table, version)?;
        call(&mut Operation::Delete { table, key, version }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<()> {
        Ok(())
    }
}

impl<M: Model> Action<'_, Delete<M>> {
    /// Makes the delete fail with [`ErrorKind::Stale`] unless this is the row's version.
    pub fn version(mut self, version: i64) -> Self {
        self.verb.version = Some(version);
        self
    }
}

/// The verb of [`Store::delete_where`].
pub struct DeleteWhere<M> {
    filter: FilterExpr,
    model: PhantomData<fn() -> M>,
}

impl<M: Model> Verb for DeleteWhere<M> {
    type Output = u64;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = store.registry().of::<M>()?;
        self.filter.check(table)?;
        call(&mut Operation::DeleteWhere { table, filter: Some(&self.filter) }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<u64> {
        Ok(outcome.rows)
    }
}

/// The verb of [`Store::insert_record`].
pub struct InsertRecord<'r> {
    record: &'r Record,
    key: Value,
}

impl Verb for InsertRecord<'_> {
    type Output = Value;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = self.record.table();
        let mut row = self.record.as_row();
        if let Value::Uuid(key) = self.key {
            row[table.key()] = ValueRef::Uuid(key);
        }
        prepare::insert(table, &mut row, ValueSource::Values, store.stamp(table))?;
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

/// The verb of [`Store::update_record`].
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
        let mut row = self.record.as_row();
        let version = self.version;
        check_version(table, version)?;
        prepare::update(table, &mut row, ValueSource::Values, store.stamp(table))?;
        let key = self.key.as_ref();
        call(&mut Operation::Update { table, key, row: &row, version }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<i64> {
        Ok(outcome.version.unwrap_or(0))
    }
}

impl Action<'_, UpdateRecord<'_>> {
    /// Makes the write fail with [`ErrorKind::Stale`] unless this is the row's version.
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
    /// Inserts a row and returns its key. The store generates a key that is unset (0, the nil
    /// UUID), and sets `created_at`, `updated_at` and `version`. [`Action::or_ignore`],
    /// [`Action::or_replace`] and [`Action::or_update`] set the action if the row exists.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for broken rules, [`ErrorKind::Conflict`] for a unique value that is
    /// taken.
    pub fn insert<'s, 'm, M: Model>(&'s self, model: &'m M) -> Action<'s, Insert<'m, M>> {
        Action::new(self, Insert { model, key: Value::Absent })
    }

    /// Inserts rows, all or none, in one operation, and returns their keys.
    ///
    /// # Errors
    /// Those of [`Store::insert`], with the row's index in `models`.
    pub fn insert_many<'s, 'm, M: Model>(
        &'s self,
        models: &'m [M],
    ) -> Action<'s, InsertMany<'m, M>> {
        Action::new(self, InsertMany { models, keys: Vec::new() })
    }

    /// Writes every field of a stored row and returns its new version (0 for a model without one).
    /// A blob that was not read is unchanged.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Stale`] if the model has a version and the row was
    /// written to since it was read.
    pub fn update<'s, 'm, M: Model>(&'s self, model: &'m M) -> Action<'s, Update<'m, M>> {
        Action::new(self, Update { model })
    }

    /// Writes every field of stored rows, all or none, without comparing versions.
    ///
    /// # Errors
    /// Those of [`Store::update`].
    pub fn update_many<'s, 'm, M: Model>(
        &'s self,
        models: &'m [M],
    ) -> Action<'s, UpdateMany<'m, M>> {
        Action::new(self, UpdateMany { models })
    }

    /// Writes the fields set with [`Action::set`] and returns the new version.
    ///
    /// # Errors
    /// Those of [`Store::update`].
    pub fn patch<M: Model>(&self, key: impl Into<M::Key>) -> Action<'_, Patch<M>> {
        Action::new(self, Patch { key: key.into(), values: Vec::new(), version: None })
    }

    /// Adds to an integer or currency field, atomically, and returns the sum.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Invalid`] if the sum is out of the field's range.
    pub fn increment<M: Model, T: FieldValue>(
        &self,
        column: Column<M, T>,
        key: impl Into<M::Key>,
        by: impl Into<Value>,
    ) -> Action<'_, Increment<M, T>> {
        Action::new(self, Increment { key: key.into(), column, by: by.into() })
    }

    /// Deletes the row with this key.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Conflict`] if a row refers to it.
    pub fn delete<M: Model>(&self, key: impl Into<M::Key>) -> Action<'_, Delete<M>> {
        Action::new(self, Delete { key: key.into(), version: None })
    }

    /// Deletes the rows that match a filter and returns their number.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if a row refers to one of them; then none is deleted.
    pub fn delete_where<M: Model>(&self, filter: Filter<M>) -> Action<'_, DeleteWhere<M>> {
        Action::new(self, DeleteWhere { filter: filter.into_expr(), model: PhantomData })
    }

    /// Inserts a row of a run-time table and returns its key.
    ///
    /// # Errors
    /// Those of [`Store::insert`].
    pub fn insert_record<'s, 'r>(&'s self, record: &'r Record) -> Action<'s, InsertRecord<'r>> {
        Action::new(self, InsertRecord { record, key: Value::Absent })
    }

    /// Writes the fields that `record` has a value for to the row with this key.
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
