//! The verbs that read: get, list, count.

use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{
    Column, Error, ErrorKind, FieldSet, FieldValue, Filter, FilterExpr, Key, Model, NoRows, Order,
    Record, Records, Result, RowQuery, RowSink, Table, Value, ValueRef, read_field,
};

use crate::contract::operation::{Operation, Outcome};
use crate::rows::refusal::no_row;
use crate::store::Store;
use crate::verbs::action::{Action, Verb};

/// Checks that a value can be a key of the table.
///
/// # Errors
/// [`ErrorKind::Invalid`] with the field and the value.
pub fn check_key(table: &Table, key: ValueRef<'_>) -> Result<()> {
    use marmota_model::KeyKind;
    match (table.key_kind(), key) {
        (KeyKind::Auto, ValueRef::Int(_))
        | (KeyKind::Uuid, ValueRef::Uuid(_))
        | (KeyKind::Text, ValueRef::Text(_)) => Ok(()),
        _ => {
            let mut row = vec![ValueRef::Absent; table.fields().len()];
            // A key of the wrong kind is refused even where NULL is allowed.
            row[table.key()] = if key.is_absent() { ValueRef::Null } else { key };
            table.validate(&row)
        }
    }
}

/// Reads one row into a struct.
struct One<M> {
    read: Option<Result<M>>,
}

impl<M: Model> RowSink for One<M> {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.read = Some(M::read(row));
        ControlFlow::Break(())
    }
}

/// The verb of [`Store::get`].
pub struct Get<M: Model> {
    key: M::Key,
    fields: Option<FieldSet>,
    one: One<M>,
}

impl<M: Model> Unpin for Get<M> {}

impl<M: Model> Verb for Get<M> {
    type Output = M;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let table = store.registry().of::<M>()?;
        let fields = self.fields.unwrap_or(table.read_by_default());
        let mut operation = Operation::Get { table, key: self.key.borrow(), fields };
        call(&mut operation, &mut self.one)
    }

    fn finish(&mut self, store: &Store, _: &mut Outcome) -> Result<M> {
        match self.one.read.take() {
            Some(read) => read,
            None => Err(no_row(store.registry().of::<M>()?, self.key.borrow())),
        }
    }
}

impl<'s, M: Model> Action<'s, Get<M>> {
    /// Reads the blobs as well.
    pub fn with_blobs(mut self) -> Self {
        self.verb.fields = Some(FieldSet::first(M::schema().fields.len()));
        self
    }

    /// Returns `None` instead of an error if the row does not exist.
    pub fn optional(self) -> Action<'s, Optional<Get<M>>> {
        // Nothing was submitted yet, so nothing has to be cancelled.
        let verb =
            Get { key: self.verb.key.clone(), fields: self.verb.fields, one: One { read: None } };
        Action::new(self.store, Optional(verb))
    }
}

/// The verb of [`Action::optional`].
pub struct Optional<V>(V);

impl<V: Verb> Verb for Optional<V> {
    type Output = Option<V::Output>;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        self.0.operate(store, call)
    }

    fn finish(&mut self, store: &Store, outcome: &mut Outcome) -> Result<Self::Output> {
        match self.0.finish(store, outcome) {
            Ok(output) => Ok(Some(output)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Collects structs until a row cannot be read as one.
struct Many<M> {
    rows: Vec<M>,
    error: Option<Error>,
}

impl<M: Model> RowSink for Many<M> {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        match M::read(row) {
            Ok(model) => {
                self.rows.push(model);
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// The verb of [`Store::list`].
pub struct ListModels<M> {
    query: RowQuery,
    many: Many<M>,
}

impl<M> Unpin for ListModels<M> {}

impl<M: Model> Verb for ListModels<M> {
    type Output = Vec<M>;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let table = store.registry().of::<M>()?;
        self.query.check(table)?;
        call(&mut Operation::List { table, query: &self.query }, &mut self.many)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Vec<M>> {
        match self.many.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut self.many.rows)),
        }
    }
}

/// Adds a condition to those set before.
fn narrow(filter: &mut Option<FilterExpr>, with: FilterExpr) {
    *filter = Some(match filter.take() {
        Some(before) => before.and(with),
        None => with,
    });
}

/// Continues after a row, whose values by position are given.
fn continue_after(query: &mut RowQuery, key: usize, value: impl Fn(usize) -> Value) {
    let mut after: Vec<Value> = query.order.iter().map(|by| value(by.field)).collect();
    match query.order.iter().position(|by| by.field == key) {
        Some(last) => after.truncate(last + 1),
        None => after.push(value(key)),
    }
    query.after = Some(after);
}

impl<M: Model> Action<'_, ListModels<M>> {
    /// Selects rows that match the filter, and those set before.
    pub fn filter(mut self, filter: Filter<M>) -> Self {
        narrow(&mut self.verb.query.filter, filter.into_expr());
        self
    }

    /// Sorts by this, after the orders set before.
    pub fn order(mut self, order: Order<M>) -> Self {
        self.verb.query.order.push(order.into_key());
        self
    }

    /// Reads at most this many rows.
    pub fn limit(mut self, rows: u64) -> Self {
        self.verb.query.limit = Some(rows);
        self
    }

    /// Continues after `last` in the list's order: the next page (keyset pagination). Set the order
    /// first.
    pub fn after(mut self, last: &M) -> Self {
        let schema = M::schema();
        let scratch = marmota_model::Scratch::new();
        let mut row = vec![ValueRef::Absent; schema.fields.len()];
        last.write(&mut row, &scratch);
        continue_after(&mut self.verb.query, schema.key, |field| row[field].to_value());
        self
    }

    /// Reads the blobs as well.
    pub fn with_blobs(mut self) -> Self {
        self.verb.query.fields = Some(FieldSet::first(M::schema().fields.len()));
        self
    }
}

impl<'s, M: Model> Action<'s, ListModels<M>> {
    /// Reads one field of each row, instead of the rows.
    pub fn column<T: FieldValue>(self, column: Column<M, T>) -> Action<'s, Pluck<M, T>> {
        let mut query = self.verb.query.clone();
        query.fields = Some(FieldSet::EMPTY.with(column.position()));
        Action::new(self.store, Pluck { query, column, values: Vec::new(), error: None })
    }
}

/// The verb of [`Action::column`].
pub struct Pluck<M, T> {
    query: RowQuery,
    column: Column<M, T>,
    values: Vec<T>,
    error: Option<Error>,
}

impl<M, T> Unpin for Pluck<M, T> {}

impl<M: Model, T: FieldValue> Verb for Pluck<M, T> {
    type Output = Vec<T>;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let table = store.registry().of::<M>()?;
        self.query.check(table)?;
        let Self { query, column, values, error } = self;
        let mut sink = |row: &[ValueRef<'_>]| match read_field(row, column.position(), M::schema())
        {
            Ok(value) => {
                values.push(value);
                ControlFlow::Continue(())
            }
            Err(why) => {
                *error = Some(why);
                ControlFlow::Break(())
            }
        };
        call(&mut Operation::List { table, query }, &mut sink)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Vec<T>> {
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut self.values)),
        }
    }
}

/// The verb of [`Store::count`].
pub struct Count<M> {
    filter: Option<FilterExpr>,
    model: PhantomData<fn() -> M>,
}

impl<M: Model> Verb for Count<M> {
    type Output = u64;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let table = store.registry().of::<M>()?;
        if let Some(filter) = &self.filter {
            filter.check(table)?;
        }
        call(&mut Operation::Count { table, filter: self.filter.as_ref() }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<u64> {
        Ok(outcome.rows)
    }
}

impl<M: Model> Action<'_, Count<M>> {
    /// Counts rows that match the filter, and those set before.
    pub fn filter(mut self, filter: Filter<M>) -> Self {
        narrow(&mut self.verb.filter, filter.into_expr());
        self
    }
}

/// The verb of [`Store::get_record`].
pub struct GetRecord {
    table: Arc<Table>,
    key: Value,
    records: Records,
}

impl Verb for GetRecord {
    type Output = Record;

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { table, key, records } = self;
        check_key(table, key.as_ref())?;
        let fields = table.read_by_default();
        call(&mut Operation::Get { table, key: key.as_ref(), fields }, records)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Record> {
        self.records.rows.pop().ok_or_else(|| no_row(&self.table, self.key.as_ref()))
    }
}

/// The verb of [`Store::list_records`].
pub struct ListRecords {
    table: Arc<Table>,
    query: RowQuery,
    /// The first filter or order that was made with another table.
    refused: Option<Error>,
    records: Records,
}

impl Verb for ListRecords {
    type Output = Vec<Record>;

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { table, query, refused, records } = self;
        if let Some(error) = refused.take() {
            return Err(error);
        }
        query.check(table)?;
        call(&mut Operation::List { table, query }, records)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Vec<Record>> {
        Ok(std::mem::take(&mut self.records.rows))
    }
}

impl Action<'_, ListRecords> {
    /// Selects rows that match the filter, and those set before.
    ///
    /// The list fails with [`ErrorKind::Invalid`] if the filter was made with
    /// another table.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, parse_filter, parse_order};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let fields = || vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("n", Kind::I64)];
    /// # let store = Store::builder(Memory::new())
    /// #     .schema(Schema::new("note", fields())).schema(Schema::new("page", fields())).open()?;
    /// let (note, page) = (store.table("note")?, store.table("page")?);
    /// let filter = parse_filter(&note, "n > 3")?;
    /// store.list_records(&note).filter(filter.clone()).limit(10).run()?;
    /// assert!(store.list_records(&page).filter(filter).run().is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn filter(mut self, filter: Filter) -> Self {
        match filter.into_expr_for(&self.verb.table) {
            Ok(expr) => narrow(&mut self.verb.query.filter, expr),
            Err(error) => self.refuse(error),
        }
        self
    }

    /// Sorts by this, after the orders set before. Rows that are equal in all
    /// of them come in the order of keys, in the direction of the last order.
    ///
    /// The list fails with [`ErrorKind::Invalid`] if the order was made with
    /// another table.
    pub fn order(mut self, order: Order) -> Self {
        match order.into_key_for(&self.verb.table) {
            Ok(key) => self.verb.query.order.push(key),
            Err(error) => self.refuse(error),
        }
        self
    }

    /// Reads at most this many rows. Default: no limit.
    pub fn limit(mut self, rows: u64) -> Self {
        self.verb.query.limit = Some(rows);
        self
    }

    /// Continues after `last` in the list's order: the next page. Set the
    /// order first.
    pub fn after(mut self, last: &Record) -> Self {
        let key = self.verb.table.key();
        let values = last.values();
        if values.len() == self.verb.table.fields().len() {
            continue_after(&mut self.verb.query, key, |field| values[field].clone());
        } else {
            let message = format!(
                "a list of `{}` cannot continue after a row of `{}`",
                self.verb.table.name(),
                last.table().name()
            );
            self.refuse(Error::new(ErrorKind::Invalid, message));
        }
        self
    }

    /// Replaces the filter, order, limit, page and fields set before by a query
    /// that names fields by their positions in this table.
    pub fn query(mut self, query: RowQuery) -> Self {
        self.verb.query = query;
        self
    }

    fn refuse(&mut self, error: Error) {
        self.verb.refused.get_or_insert(error);
    }
}

impl Store {
    /// Reads the row with this key.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the row does not exist; see [`Action::optional`].
    pub fn get<M: Model>(&self, key: impl Into<M::Key>) -> Action<'_, Get<M>> {
        Action::new(self, Get { key: key.into(), fields: None, one: One { read: None } })
    }

    /// Lists rows. Default: all, in the order of keys.
    pub fn list<M: Model>(&self) -> Action<'_, ListModels<M>> {
        let many = Many { rows: Vec::new(), error: None };
        Action::new(self, ListModels { query: RowQuery::new(), many })
    }

    /// Counts rows. Default: all.
    pub fn count<M: Model>(&self) -> Action<'_, Count<M>> {
        Action::new(self, Count { filter: None, model: PhantomData })
    }

    /// Reads the row with this key of a run-time table.
    pub fn get_record(&self, table: &Arc<Table>, key: impl Into<Value>) -> Action<'_, GetRecord> {
        let records = Records::new(Arc::clone(table));
        Action::new(self, GetRecord { table: Arc::clone(table), key: key.into(), records })
    }

    /// Lists rows of a run-time table, in the order of keys unless [`Action::order`] sets another.
    pub fn list_records(&self, table: &Arc<Table>) -> Action<'_, ListRecords> {
        let records = Records::new(Arc::clone(table));
        let (table, query) = (Arc::clone(table), RowQuery::new());
        Action::new(self, ListRecords { table, query, refused: None, records })
    }
}
