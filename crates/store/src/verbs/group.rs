//! Groups of rows: their fields, and values that are computed for each group.
//!
//! ```
//! # use marmota_derive::Model;
//! # use marmota_memory::Memory;
//! # use marmota_store::Store;
//! # #[derive(Clone, Debug, PartialEq, Model)]
//! # struct City { id: i64, country: String, people: i64 }
//! # let city = |country: &str, people| City { id: 0, country: country.to_owned(), people };
//! # let store = Store::builder(Memory::new()).model::<City>().open()?;
//! # store.insert_many(&[city("FR", 64_000), city("FR", 520_000), city("IT", 850_000)]).run()?;
//! use marmota_store::group::{count, sum};
//!
//! let countries = store
//!     .list::<City>()
//!     .group_by(City::COUNTRY)
//!     .select((count(), sum(City::PEOPLE)))
//!     .having(count().gt(1))
//!     .order(sum(City::PEOPLE).descending())
//!     .run()?;
//! assert_eq!(countries, [("FR".to_owned(), (2, Some(584_000)))]);
//! # Ok::<(), marmota_model::Error>(())
//! ```

mod records;
mod value;

use std::marker::PhantomData;
use std::ops::ControlFlow;

use marmota_model::{
    AggregateColumn, Column, ColumnPath, Error, ErrorKind, FieldValue, FilterExpr, GroupQuery,
    Model, Result, RowSink, Schema, SortKey, ValueRef, read_field,
};

pub use records::{GroupRecords, ReadGroups};
pub use value::{GroupCondition, GroupOrder, GroupValue, Ordered, Summable, avg, count, count_of};
pub use value::{max, min, sum};

use super::read::ListModels;
use crate::contract::operation::{Operation, Outcome};
use crate::store::Store;
use crate::verbs::action::{Action, Verb};

/// The columns to group by: a column, a field of a related row
/// (`Issue::ASSIGNEE.then(Person::NAME)`), or a tuple of up to four.
pub trait GroupKey<M> {
    /// The type of their values in a group.
    type Output;

    /// Adds the columns to a query.
    fn add_to(&self, query: &mut GroupQuery);

    /// Reads their values from the row of a group; `at` is the position of the next value.
    ///
    /// # Errors
    /// If a value does not have the type of its column.
    fn read(row: &[ValueRef<'_>], at: &mut usize, schema: &Schema) -> Result<Self::Output>;
}

/// The values to compute for each group: one, or a tuple of up to six.
pub trait GroupValues<M> {
    /// The type of the values of a group.
    type Output;

    /// Adds the computed columns.
    fn columns(&self, columns: &mut Vec<AggregateColumn>);

    /// Reads the values from the row of a group; `at` is the position of the next one.
    ///
    /// # Errors
    /// If a value does not have its type.
    fn read(row: &[ValueRef<'_>], at: &mut usize, schema: &Schema) -> Result<Self::Output>;
}

fn read_next<T: FieldValue>(row: &[ValueRef<'_>], at: &mut usize, schema: &Schema) -> Result<T> {
    let value = read_field(row, *at, schema)?;
    *at += 1;
    Ok(value)
}

impl<M: Model, T: FieldValue> GroupKey<M> for Column<M, T> {
    type Output = T;

    fn add_to(&self, query: &mut GroupQuery) {
        query.by.push(self.position());
    }

    fn read(row: &[ValueRef<'_>], at: &mut usize, schema: &Schema) -> Result<T> {
        read_next(row, at, schema)
    }
}

/// The value is `None` for rows without a related row.
impl<M: Model, T: FieldValue> GroupKey<M> for ColumnPath<M, T> {
    type Output = Option<T>;

    fn add_to(&self, query: &mut GroupQuery) {
        self.append_to_groups(query);
    }

    fn read(row: &[ValueRef<'_>], at: &mut usize, schema: &Schema) -> Result<Option<T>> {
        if matches!(row[*at], ValueRef::Null) {
            *at += 1;
            return Ok(None);
        }
        read_next(row, at, schema).map(Some)
    }
}

impl<M: Model, T: FieldValue> GroupValues<M> for GroupValue<M, T> {
    type Output = T;

    fn columns(&self, columns: &mut Vec<AggregateColumn>) {
        columns.push(self.column());
    }

    fn read(row: &[ValueRef<'_>], at: &mut usize, schema: &Schema) -> Result<T> {
        read_next(row, at, schema)
    }
}

macro_rules! tuples {
    ($trait:ident, $add:ident, $of:ty: $(($($part:ident),*))*) => {$(
        impl<M, $($part: $trait<M>),*> $trait<M> for ($($part,)*) {
            type Output = ($($part::Output,)*);

            fn $add(&self, to: &mut $of) {
                #[expect(non_snake_case, reason = "a variable for each type")]
                let ($($part,)*) = self;
                $($part.$add(to);)*
            }

            fn read(row: &[ValueRef<'_>], at: &mut usize, schema: &Schema) -> Result<Self::Output> {
                Ok(($($part::read(row, at, schema)?,)*))
            }
        }
    )*};
}

tuples!(GroupKey, add_to, GroupQuery: (A, B) (A, B, C) (A, B, C, D));
tuples!(GroupValues, columns, Vec<AggregateColumn>:
    (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F));

/// No columns to group by: all rows are one group.
impl<M> GroupKey<M> for () {
    type Output = ();

    fn add_to(&self, _: &mut GroupQuery) {}

    fn read(_: &[ValueRef<'_>], _: &mut usize, _: &Schema) -> Result<()> {
        Ok(())
    }
}

/// No computed values: the different values of the columns.
impl<M> GroupValues<M> for () {
    type Output = ();

    fn columns(&self, _: &mut Vec<AggregateColumn>) {}

    fn read(_: &[ValueRef<'_>], _: &mut usize, _: &Schema) -> Result<()> {
        Ok(())
    }
}

/// The verb of [`Action::select`]: groups with computed values. Without them, [`Action::group_by`]
/// returns the different values of the columns.
pub struct Groups<M, K: GroupKey<M>, V: GroupValues<M>> {
    query: GroupQuery,
    found: Vec<(K::Output, V::Output)>,
    error: Option<Error>,
    model: PhantomData<fn() -> M>,
}

impl<M, K: GroupKey<M>, V: GroupValues<M>> Unpin for Groups<M, K, V> {}

impl<M: Model, K: GroupKey<M>, V: GroupValues<M>> Groups<M, K, V> {
    const fn new(query: GroupQuery) -> Self {
        Self { query, found: Vec::new(), error: None, model: PhantomData }
    }

    /// Returns the position of a computed value in the result. It is added if it is not selected.
    fn position(&mut self, column: AggregateColumn) -> usize {
        let query = &mut self.query;
        let is_same =
            |one: &AggregateColumn| (one.function, one.field) == (column.function, column.field);
        let place = query.aggregates.iter().position(is_same).unwrap_or_else(|| {
            add(&mut query.aggregates, column);
            query.aggregates.len() - 1
        });
        query.by.len() + place
    }

    fn operate_groups(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let table = store.registry().of::<M>()?;
        let Self { query, found, error, .. } = self;
        let result = &query.check(table)?;
        let mut sink = |row: &[ValueRef<'_>]| {
            let (mut at, schema) = (0, result.schema());
            let fields = K::read(row, &mut at, schema);
            match fields.and_then(|fields| Ok((fields, V::read(row, &mut at, schema)?))) {
                Ok(group) => {
                    found.push(group);
                    ControlFlow::Continue(())
                }
                Err(why) => {
                    *error = Some(why);
                    ControlFlow::Break(())
                }
            }
        };
        call(&mut Operation::Group { table, query, result }, &mut sink)
    }

    fn take(&mut self) -> Result<Vec<(K::Output, V::Output)>> {
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut self.found)),
        }
    }
}

/// Adds a computed column with a name that no field has.
fn add(columns: &mut Vec<AggregateColumn>, column: AggregateColumn) {
    let name = format!("marmota_value_{}", columns.len());
    columns.push(column.named(name));
}

impl<M: Model, K: GroupKey<M>, V: GroupValues<M>> Verb for Groups<M, K, V> {
    type Output = Vec<(K::Output, V::Output)>;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        self.operate_groups(store, call)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Self::Output> {
        self.take()
    }
}

/// The verb of [`Action::group_by`]: the different values of columns. [`Action::select`] adds
/// computed values.
pub struct Distinct<M: Model, K: GroupKey<M>>(Groups<M, K, ()>);

impl<M: Model, K: GroupKey<M>> Verb for Distinct<M, K> {
    type Output = Vec<K::Output>;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        self.0.operate_groups(store, call)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Self::Output> {
        Ok(self.0.take()?.into_iter().map(|(fields, ())| fields).collect())
    }
}

/// The verb of [`Action::aggregate`]: values that are computed from all listed rows.
pub struct Total<M: Model, V: GroupValues<M>>(Groups<M, (), V>);

impl<M: Model, V: GroupValues<M>> Verb for Total<M, V> {
    type Output = V::Output;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        self.0.operate_groups(store, call)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<V::Output> {
        let one = self.0.take()?.pop();
        one.map(|((), values)| values)
            .ok_or_else(|| Error::new(ErrorKind::Bug, "a group of all rows was not returned"))
    }
}

impl<'s, M: Model> Action<'s, ListModels<M>> {
    /// Groups the listed rows by columns, and returns the different values of these. Add computed
    /// values with [`Action::select`]. The order and limit of the list do not apply to groups.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, country: String, people: i64 }
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// # let country = "FR".to_owned();
    /// store.insert(&City { id: 0, country, people: 64_000 }).run()?;
    /// assert_eq!(store.list::<City>().group_by(City::COUNTRY).run()?, ["FR"]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "columns are passed as constants")]
    pub fn group_by<K: GroupKey<M>>(self, columns: K) -> Action<'s, Distinct<M, K>> {
        let (store, query) = self.group_query(&columns);
        Action::new(store, Distinct(Groups::new(query)))
    }

    /// Computes values from the listed rows, and returns them. The order and limit of the list do
    /// not apply.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, country: String, people: i64 }
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// use marmota_store::group::{avg, count};
    /// let (cities, mean) = store.list::<City>().aggregate((count(), avg(City::PEOPLE))).run()?;
    /// assert_eq!((cities, mean), (0, None));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "columns are passed as constants")]
    pub fn aggregate<V: GroupValues<M>>(self, values: V) -> Action<'s, Total<M, V>> {
        let (store, mut query) = self.group_query(&());
        select(&mut query, &values);
        Action::new(store, Total(Groups::new(query)))
    }

    fn group_query(self, columns: &impl GroupKey<M>) -> (&'s Store, GroupQuery) {
        let mut query =
            GroupQuery { filter: self.verb.query_of_rows().filter, ..GroupQuery::new() };
        columns.add_to(&mut query);
        (self.store, query)
    }
}

fn select<M>(query: &mut GroupQuery, values: &impl GroupValues<M>) {
    let mut columns = Vec::new();
    values.columns(&mut columns);
    columns.into_iter().for_each(|column| add(&mut query.aggregates, column));
}

impl<'s, M: Model, K: GroupKey<M>> Action<'s, Distinct<M, K>> {
    /// Computes values for each group.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, country: String, people: i64 }
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// use marmota_store::group::max;
    /// let largest = store.list::<City>().group_by(City::COUNTRY).select(max(City::PEOPLE)).run()?;
    /// assert!(largest.is_empty());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "columns are passed as constants")]
    pub fn select<V: GroupValues<M>>(self, values: V) -> Action<'s, Groups<M, K, V>> {
        let mut query = self.verb.0.query.clone();
        select(&mut query, &values);
        Action::new(self.store, Groups::new(query))
    }

    /// Returns at most this many groups. Default: no limit.
    pub fn limit(mut self, groups: u64) -> Self {
        self.verb.0.query.limit = Some(groups);
        self
    }
}

impl<M: Model, K: GroupKey<M>, V: GroupValues<M>> Action<'_, Groups<M, K, V>> {
    /// Selects groups by a computed value, in addition to the conditions set before. The value need
    /// not be selected.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, country: String, people: i64 }
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// use marmota_store::group::{count, max};
    /// let groups = store.list::<City>().group_by(City::COUNTRY).select(max(City::PEOPLE));
    /// assert!(groups.having(count().ge(2)).run()?.is_empty());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn having(mut self, condition: GroupCondition<M>) -> Self {
        let (column, comparison, value) = condition.into_parts();
        let field = self.verb.position(column);
        let condition = FilterExpr::Compare { field, comparison, value };
        let having = &mut self.verb.query.having;
        *having = Some(match having.take() {
            Some(before) => before.and(condition),
            None => condition,
        });
        self
    }

    /// Sorts the groups by a computed value or a column, after the orders set before. Groups that
    /// are equal in all of them come in the order of the columns.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, country: String, people: i64 }
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// use marmota_store::group::count;
    /// let groups = store.list::<City>().group_by(City::COUNTRY).select(count());
    /// let groups = groups.order(count().descending()).order(City::COUNTRY.descending());
    /// assert!(groups.limit(3).run()?.is_empty());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn order(mut self, order: impl Into<GroupOrder<M>>) -> Self {
        let key = match order.into() {
            GroupOrder::Value { column, descending } => {
                SortKey { field: self.verb.position(column), descending }
            }
            // A column that is not grouped by has no position: the check of the query refuses it.
            GroupOrder::Column(order) => order
                .into_group_key(&self.verb.query)
                .unwrap_or(SortKey { field: usize::MAX, descending: false }),
        };
        self.verb.query.order.push(key);
        self
    }

    /// Returns at most this many groups. Default: no limit.
    pub fn limit(mut self, groups: u64) -> Self {
        self.verb.query.limit = Some(groups);
        self
    }
}
