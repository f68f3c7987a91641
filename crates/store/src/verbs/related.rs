//! Related rows: the row to which a reference leads, and the rows that refer to a row. They are read
//! for many rows together, never one by one.
//!
//! ```
//! # use marmota_derive::Model;
//! # use marmota_memory::Memory;
//! # use marmota_model::Ref;
//! # use marmota_store::Store;
//! # #[derive(Clone, Debug, PartialEq, Model)]
//! # struct Person { id: i64, name: String }
//! # #[derive(Clone, Debug, PartialEq, Model)]
//! # struct Issue { id: i64, assignee: Option<Ref<Person>> }
//! # #[derive(Clone, Debug, PartialEq, Model)]
//! # struct Comment { id: i64, issue: Ref<Issue>, text: String }
//! # let store = Store::builder(Memory::new())
//! #     .model::<Person>().model::<Issue>().model::<Comment>().open()?;
//! # let ann = store.insert(&Person { id: 0, name: "Ann".to_owned() }).run()?;
//! # let issue = store.insert(&Issue { id: 0, assignee: Some(Ref::new(ann)) }).run()?;
//! # for text in ["Why?", "Done"] {
//! #     let text = text.to_owned();
//! #     store.insert(&Comment { id: 0, issue: Ref::new(issue), text }).run()?;
//! # }
//! use marmota_store::related::{many, one};
//!
//! let newest = many(Comment::ISSUE).order(Comment::ID.descending()).limit(1);
//! let issues = store.list::<Issue>().with((one(Issue::ASSIGNEE), newest)).run()?;
//! for (issue, (assignee, comments)) in &issues {
//!     let name = assignee.as_ref().map(|person| &*person.name);
//!     assert_eq!((name, &*comments[0].text), (Some("Ann"), "Done"));
//! }
//! # Ok::<(), marmota_model::Error>(())
//! ```

mod value_numbers;
mod with;

use std::marker::PhantomData;
use std::sync::Arc;

use marmota_model::{
    Column, Filter, FilterExpr, Model, Order, Reference, Result, RowQuery, Table, Value,
};

pub use value_numbers::ValueNumbers;
pub use with::{ListWith, RelatedQuery, RelatedRows};

use super::read::ListModels;
use crate::contract::operation::Operation;
use crate::store::Store;
use crate::verbs::action::Action;

/// Relations of the rows of a model: [`one`], [`many`], or a tuple of up to four.
pub trait Relations<M> {
    /// The related rows of a row: an `Option` for [`one`], a `Vec` for [`many`].
    type Output;

    /// Adds the reads of the relations.
    fn parts(&self, parts: &mut Vec<RelatedQuery>);

    /// Takes the related rows of a row from the rows of each relation, which come with the value by
    /// which they are found.
    ///
    /// # Errors
    /// If a row cannot be read as its model.
    fn read<'r>(
        rows: &mut dyn Iterator<Item = (&'r RelatedRows, &'r Value)>,
    ) -> Result<Self::Output>;
}

/// The relation of [`one`].
pub struct One<M, R>(Column<M, R>);

/// Relates each row to the row to which its reference leads; `None` if it is NULL, or if the caller
/// may not read that row.
pub const fn one<M: Model, R: Reference>(reference: Column<M, R>) -> One<M, R> {
    One(reference)
}

/// The relation of [`many`], with its rows selected, sorted and limited.
pub struct Many<C, R> {
    reference: Column<C, R>,
    query: RowQuery,
    limit: Option<u64>,
    model: PhantomData<fn() -> (C, R)>,
}

/// Relates each row to the rows that refer to it by this column, which the caller may read. Default:
/// all of them, in the order of keys.
pub fn many<C: Model, R: Reference>(reference: Column<C, R>) -> Many<C, R> {
    Many { reference, query: RowQuery::new(), limit: None, model: PhantomData }
}

impl<C: Model, R> Many<C, R> {
    /// Selects related rows that match the filter, and those set before.
    #[must_use]
    pub fn filter(mut self, filter: Filter<C>) -> Self {
        let filter = filter.into_expr();
        self.query.filter = Some(match self.query.filter.take() {
            Some(before) => before.and(filter),
            None => filter,
        });
        self
    }

    /// Sorts the related rows of each row, after the orders set before.
    #[must_use]
    pub fn order(mut self, order: Order<C>) -> Self {
        order.append_to(&mut self.query);
        self
    }

    /// Reads at most this many related rows for each row. Default: no limit.
    #[must_use]
    pub const fn limit(mut self, rows: u64) -> Self {
        self.limit = Some(rows);
        self
    }
}

fn table_of<M: Model>(store: &Store) -> Result<Arc<Table>> {
    store.registry().of::<M>().map(Arc::clone)
}

impl<M: Model, R: Reference> Relations<M> for One<M, R> {
    type Output = Option<R::Target>;

    fn parts(&self, parts: &mut Vec<RelatedQuery>) {
        parts.push(RelatedQuery {
            local: self.0.position(),
            table: table_of::<R::Target>,
            by: R::Target::schema().key,
            query: RowQuery::new(),
            limit: None,
        });
    }

    fn read<'r>(
        rows: &mut dyn Iterator<Item = (&'r RelatedRows, &'r Value)>,
    ) -> Result<Self::Output> {
        let Some((rows, local)) = rows.next() else { return Ok(None) };
        Ok(rows.of(local)?.pop())
    }
}

impl<M: Model, C: Model, R: Reference<Target = M>> Relations<M> for Many<C, R> {
    type Output = Vec<C>;

    fn parts(&self, parts: &mut Vec<RelatedQuery>) {
        parts.push(RelatedQuery {
            local: M::schema().key,
            table: table_of::<C>,
            by: self.reference.position(),
            query: self.query.clone(),
            limit: self.limit,
        });
    }

    fn read<'r>(
        rows: &mut dyn Iterator<Item = (&'r RelatedRows, &'r Value)>,
    ) -> Result<Self::Output> {
        let Some((rows, local)) = rows.next() else { return Ok(Vec::new()) };
        rows.of(local)
    }
}

macro_rules! relations {
    ($(($($part:ident),*))*) => {$(
        impl<Of, $($part: Relations<Of>),*> Relations<Of> for ($($part,)*) {
            type Output = ($($part::Output,)*);

            fn parts(&self, parts: &mut Vec<RelatedQuery>) {
                #[expect(non_snake_case, reason = "a variable for each type")]
                let ($($part,)*) = self;
                $($part.parts(parts);)*
            }

            fn read<'r>(
                rows: &mut dyn Iterator<Item = (&'r RelatedRows, &'r Value)>,
            ) -> Result<Self::Output> {
                Ok(($($part::read(rows)?,)*))
            }
        }
    )*};
}

relations!((A, B)(A, B, C)(A, B, C, D));

impl<'s, M: Model> Action<'s, ListModels<M>> {
    /// Reads related rows in addition to the listed ones: one operation for each relation, and for
    /// each 400 rows.
    ///
    /// A relation begins at a column of the model ([`one`]) or leads to it ([`many`]), so the
    /// compiler checks it.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Issue { id: i64, title: String }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Comment { id: i64, issue: Ref<Issue> }
    /// # let store =
    /// #     Store::builder(Memory::new()).model::<Issue>().model::<Comment>().open()?;
    /// use marmota_store::related::many;
    /// let issues: Vec<(Issue, Vec<Comment>)> =
    ///     store.list::<Issue>().limit(20).with(many(Comment::ISSUE)).run()?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn with<W: Relations<M>>(self, with: W) -> ListWith<'s, M, W> {
        let (store, query) = (self.store, self.verb.query_of_rows());
        ListWith { store, query, with, model: PhantomData }
    }
}

/// The maximum number of values in one operation: with the terms of its own filter, it is a filter
/// that every engine accepts.
const KEYS_MAX: usize = 400;

/// A read of the rows of a table whose field has one of some values, as one operation for each 400
/// different values.
///
/// Execute each operation with [`RelatedRead::with_operation`], then call [`RelatedRead::advance`].
///
/// ```
/// # use marmota_memory::Memory;
/// # use marmota_model::{Field, Kind, NoRows, Role, RowQuery, Schema, Value};
/// # use marmota_store::Store;
/// # let id = Field::new("id", Kind::I64).role(Role::Key);
/// # let note = Schema::new("note", vec![id, Field::new("page", Kind::I64)]);
/// # let store = Store::builder(Memory::new()).schema(note).open()?;
/// use marmota_store::related::RelatedRead;
///
/// let notes = store.table("note")?;
/// // The first three notes of each page.
/// let pages = [Value::Int(1), Value::Int(2), Value::Int(1)];
/// let mut read = RelatedRead::new(notes, 1, RowQuery::new(), Some(3), pages.into_iter().collect());
/// while let Some(done) = read.with_operation(|operation, _| store.run(operation, &mut NoRows)) {
///     done?;
///     read.advance();
/// }
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Debug)]
pub struct RelatedRead {
    table: Arc<Table>,
    by: usize,
    limit: Option<u64>,
    filter: Option<FilterExpr>,
    /// The query of the current operation.
    query: RowQuery,
    keys: ValueNumbers,
    /// The number of keys of the operations so far.
    read: usize,
    is_begun: bool,
}

impl RelatedRead {
    /// Creates a read of the rows whose field `by` has one of `keys`, and which the query selects.
    /// `limit` is the maximum number of rows for each key; `None` for no limit.
    ///
    /// The query needs the fields that it reads, with `by`, and has neither a limit nor a start.
    #[must_use]
    pub fn new(
        table: Arc<Table>,
        by: usize,
        mut query: RowQuery,
        limit: Option<u64>,
        keys: ValueNumbers,
    ) -> Self {
        let filter = query.filter.take();
        Self { table, by, limit, filter, query, keys, read: 0, is_begun: false }
    }

    /// Returns whether one operation reads all rows, so that they come in the order of the query.
    #[must_use]
    pub fn is_one_operation(&self) -> bool {
        self.keys.values().len() <= KEYS_MAX
    }

    /// Returns the keys.
    #[must_use]
    pub fn into_keys(self) -> ValueNumbers {
        self.keys
    }

    /// Calls `run` with the current operation, which is the same until [`RelatedRead::advance`], and
    /// with the keys, by whose numbers the rows are related. Returns `None` after the last operation.
    pub fn with_operation<T>(
        &mut self,
        run: impl FnOnce(&mut Operation<'_>, &ValueNumbers) -> T,
    ) -> Option<T> {
        let values = self.keys.values();
        if self.read >= values.len() {
            return None;
        }
        if !self.is_begun {
            let end = values.len().min(self.read + KEYS_MAX);
            let values = values[self.read..end].to_vec();
            let of_keys = FilterExpr::In { field: self.by, values };
            self.query.filter = Some(match &self.filter {
                Some(filter) => of_keys.and(filter.clone()),
                None => of_keys,
            });
            self.is_begun = true;
        }
        let (table, query, by) = (&*self.table, &self.query, self.by);
        Some(match self.limit {
            Some(limit) => run(&mut Operation::ListEach { table, query, by, limit }, &self.keys),
            None => run(&mut Operation::List { table, query }, &self.keys),
        })
    }

    /// Continues with the next operation, after one that has succeeded.
    pub fn advance(&mut self) {
        self.read += KEYS_MAX;
        self.is_begun = false;
    }
}
