//! The verbs that read: get, list, count.
//!
//! Each makes an [`Action`]: set its conditions, then await it or call [`Action::run`]. Rows of a
//! model are read into structs, and rows of a table made at run time into records.

pub(super) mod ranked;
mod records;

use std::marker::PhantomData;
use std::ops::ControlFlow;

use marmota_model::{
    Column, Error, ErrorKind, FieldSet, FieldValue, Filter, FilterExpr, Key, Model, NoRows, Order,
    Result, RowQuery, RowSink, Schema, Table, Value, ValueRef, read_field,
};

pub use ranked::{ListRanked, ListScored};
pub use records::{GetRecord, ListRecords};

use crate::contract::operation::{Operation, Outcome};
use crate::rows::refusal::no_row;
use crate::store::Store;
use crate::verbs::action::{Action, Verb};

/// Checks that a value can be a key of the table: an integer, a UUID or a text, by the kind of the
/// table's key. It is for layers that make operations themselves; the verbs check their keys.
///
/// ```
/// # use marmota_memory::Memory;
/// # use marmota_model::{Field, Kind, Record, Role, Schema};
/// # use marmota_store::Store;
/// # let id = Field::new("id", Kind::I64).role(Role::Key);
/// # let note = Schema::new("note", vec![id, Field::new("text", Kind::TEXT)]);
/// # let store = Store::builder(Memory::new()).schema(note).open()?;
/// # let notes = store.table("note")?;
/// use marmota_model::ValueRef;
/// use marmota_store::read::check_key;
///
/// check_key(&notes, ValueRef::Int(1))?;
/// let error = check_key(&notes, ValueRef::Text("first")).unwrap_err();
/// assert_eq!(error.violations()[0].field, "id");
/// # Ok::<(), marmota_model::Error>(())
/// ```
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
///
/// [`Action::optional`] makes a missing row a result, and [`Action::with_blobs`] reads blobs.
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
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let id = store.insert(&city("Bourges", 64_000)).run()?;
    /// let bourges = store.get::<City>(id).with_blobs().run()?;
    /// assert_eq!(bourges.name, "Bourges");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn with_blobs(mut self) -> Self {
        self.verb.fields = Some(FieldSet::first(M::schema().fields.len()));
        self
    }

    /// Returns `None` instead of an error if the row does not exist.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// assert_eq!(store.get::<City>(1).optional().run()?, None);
    /// let id = store.insert(&city("Bourges", 64_000)).run()?;
    /// assert!(store.get::<City>(id).optional().run()?.is_some());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn optional(self) -> Action<'s, Optional<Get<M>>> {
        // Nothing was submitted yet, so nothing has to be cancelled.
        let verb =
            Get { key: self.verb.key.clone(), fields: self.verb.fields, one: One { read: None } };
        Action::new(self.store, Optional(verb))
    }
}

/// The verb of [`Action::optional`]: the result of another verb, or `None` if its row does not
/// exist.
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

/// The verb of [`Store::list`]. Its rows can be selected ([`Action::filter`]), sorted
/// ([`Action::order`]), limited ([`Action::limit`]) and continued after a row ([`Action::after`]);
/// [`Action::column`] reads one field of them.
pub struct ListModels<M> {
    query: RowQuery,
    many: Many<M>,
}

impl<M> Unpin for ListModels<M> {}

impl<M> ListModels<M> {
    /// Returns the query, for verbs that continue a list.
    pub(super) fn query_of_rows(&self) -> RowQuery {
        self.query.clone()
    }
}

impl<M: Model> ListModels<M> {
    /// Returns the list of a query.
    pub(super) fn of(query: RowQuery) -> Self {
        Self { query, many: Many { rows: Vec::new(), error: None } }
    }

    /// Sets the maximum number of rows.
    pub(super) fn limit(&mut self, rows: u64) {
        self.query.limit = Some(rows);
    }

    /// Continues after a row in the order of the list.
    pub(super) fn continue_after(&mut self, last: &M) {
        let schema = M::schema();
        let scratch = marmota_model::Scratch::new();
        let mut row = vec![ValueRef::Absent; schema.fields.len()];
        last.write(&mut row, &scratch);
        continue_after(&mut self.query, schema, |field| row[field].to_value());
    }
}

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
fn continue_after(query: &mut RowQuery, schema: &Schema, value: impl Fn(usize) -> Value) {
    let order = query.order_with_key_of(schema);
    query.after = Some(order.iter().map(|by| value(by.field)).collect());
}

impl<M: Model> Action<'_, ListModels<M>> {
    /// Selects rows that match the filter, and those set before. Default: all rows.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// store.insert_many(&[city("Bourges", 64_000), city("Lyon", 520_000)]).run()?;
    /// let large = store.list::<City>().filter(City::PEOPLE.gt(100_000)).run()?;
    /// assert_eq!(large[0].name, "Lyon");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn filter(mut self, filter: Filter<M>) -> Self {
        narrow(&mut self.verb.query.filter, filter.into_expr());
        self
    }

    /// Sorts by this, after the orders set before. Rows that are equal in all of them come in the
    /// order of keys, in the direction of the last one. Default: the order of keys.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// store.insert_many(&[city("Lyon", 520_000), city("Bourges", 64_000)]).run()?;
    /// let by_size = store.list::<City>().order(City::PEOPLE.ascending()).run()?;
    /// assert_eq!(by_size[0].name, "Bourges");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn order(mut self, order: Order<M>) -> Self {
        order.append_to(&mut self.verb.query);
        self
    }

    /// Reads at most this many rows. Default: no limit.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// store.insert_many(&[city("Lyon", 520_000), city("Bourges", 64_000)]).run()?;
    /// assert_eq!(store.list::<City>().limit(1).run()?.len(), 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn limit(mut self, rows: u64) -> Self {
        self.verb.query.limit = Some(rows);
        self
    }

    /// Continues after `last` in the list's order: the next page (keyset pagination). Set the order
    /// first.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// store.insert_many(&[city("Lyon", 520_000), city("Bourges", 64_000)]).run()?;
    /// let page = || store.list::<City>().order(City::NAME.ascending()).limit(1);
    /// let first = page().run()?;
    /// let second = page().after(&first[0]).run()?;
    /// assert_eq!((&*first[0].name, &*second[0].name), ("Bourges", "Lyon"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn after(mut self, last: &M) -> Self {
        self.verb.continue_after(last);
        self
    }

    /// Reads the blobs as well, which a list leaves out by default.
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
    /// assert_eq!(store.list::<City>().with_blobs().run()?.len(), 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn with_blobs(mut self) -> Self {
        self.verb.query.fields = Some(FieldSet::first(M::schema().fields.len()));
        self
    }
}

impl<'s, M: Model> Action<'s, ListModels<M>> {
    /// Reads one field of each row, instead of the rows.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// store.insert_many(&[city("Lyon", 520_000), city("Bourges", 64_000)]).run()?;
    /// assert_eq!(store.list::<City>().column(City::NAME).run()?, ["Lyon", "Bourges"]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn column<T: FieldValue>(self, column: Column<M, T>) -> Action<'s, Pluck<M, T>> {
        let mut query = self.verb.query.clone();
        query.fields = Some(FieldSet::EMPTY.with(column.position()));
        Action::new(self.store, Pluck { query, column, values: Vec::new(), error: None })
    }
}

/// The verb of [`Action::column`]: one field of the listed rows.
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
    estimated: bool,
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
        let filter = self.filter.as_ref();
        let mut operation = match self.estimated && store.capability().estimates {
            true => Operation::Estimate { table, filter },
            false => Operation::Count { table, filter },
        };
        call(&mut operation, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<u64> {
        Ok(outcome.rows)
    }
}

impl<M: Model> Action<'_, Count<M>> {
    /// Counts rows that match the filter, and those set before. Default: all rows.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// store.insert_many(&[city("Lyon", 520_000), city("Bourges", 64_000)]).run()?;
    /// assert_eq!(store.count::<City>().filter(City::NAME.eq("Lyon")).run()?, 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn filter(mut self, filter: Filter<M>) -> Self {
        narrow(&mut self.verb.filter, filter.into_expr());
        self
    }

    /// Returns an estimate from the statistics of the database, if the engine has them
    /// ([`Capability::estimates`](crate::engine::Capability::estimates)); otherwise the exact
    /// number.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// assert_eq!(store.count::<City>().estimated().run()?, 0);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub const fn estimated(mut self) -> Self {
        self.verb.estimated = true;
        self
    }
}

impl Store {
    /// Reads the row with this key.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let id = store.insert(&city("Bourges", 64_000)).run()?;
    /// let bourges = store.get::<City>(id).run()?; // in async code: `.await?`
    /// assert_eq!(bourges.people, 64_000);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the row does not exist; see [`Action::optional`].
    pub fn get<M: Model>(&self, key: impl Into<M::Key>) -> Action<'_, Get<M>> {
        Action::new(self, Get { key: key.into(), fields: None, one: One { read: None } })
    }

    /// Lists rows. Default: all, in the order of keys.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// store.insert_many(&[city("Lyon", 520_000), city("Bourges", 64_000)]).run()?;
    /// let cities = store.list::<City>().filter(City::PEOPLE.lt(100_000)).run()?;
    /// assert_eq!(cities[0].name, "Bourges");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn list<M: Model>(&self) -> Action<'_, ListModels<M>> {
        let many = Many { rows: Vec::new(), error: None };
        Action::new(self, ListModels { query: RowQuery::new(), many })
    }

    /// Counts rows. Default: all.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// assert_eq!(store.count::<City>().run()?, 0);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn count<M: Model>(&self) -> Action<'_, Count<M>> {
        Action::new(self, Count { filter: None, estimated: false, model: PhantomData })
    }
}
