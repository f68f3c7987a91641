//! Orders through references: `order=assignee.name`, as data and typed.

use std::borrow::Cow;
use std::marker::PhantomData;

use super::check::check_field;
use crate::{
    Column, Error, ErrorKind, FilterExpr, Kind, Model, Order, Reference, RelationStep, Result,
    RowQuery, SortKey, Table,
};

/// The maximum number of orders through references in one query.
pub const RELATED_ORDERS_MAX: usize = 4;

/// An order by a field of the row to which references lead, in the form for the store. It replaces
/// one of the sort keys of [`RowQuery::order`], which names the reference.
///
/// A row without a reference, and one whose related row is not selected, is ordered as NULL.
///
/// ```
/// use marmota_model::{RelatedOrder, RelatedOrderStep, RelationStep, RowQuery, SortKey};
/// let to_person = RelationStep { table: "person".into(), local: 2, target: 0, to_one: true };
/// let steps = vec![RelatedOrderStep { step: to_person, rows: None }];
/// let by_name = RelatedOrder { place: 0, steps, field: 1 };
/// let mut query = RowQuery::new();
/// query.order = vec![SortKey { field: 2, descending: false }];
/// query.related = vec![by_name];
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RelatedOrder {
    /// The index in [`RowQuery::order`] of the sort key that it replaces.
    pub place: usize,
    /// The steps to the related row, at least one. The first begins at the field of the sort key.
    pub steps: Vec<RelatedOrderStep>,
    /// The position of the field in the table of the last step.
    pub field: usize,
}

/// A step of a [`RelatedOrder`].
#[derive(Clone, Debug, PartialEq)]
pub struct RelatedOrderStep {
    /// The step, from a reference to the key of its table.
    pub step: RelationStep,
    /// The related rows that count; the others are ordered as if they did not exist. `None` for
    /// all rows.
    pub rows: Option<FilterExpr>,
}

impl RelatedOrder {
    /// Checks that it fits a query of rows of `table`; with the filters on related rows, if those
    /// are of the caller.
    fn check(&self, table: &Table, order: &[SortKey], with_rows: bool) -> Result<()> {
        let first = self.steps.first().map(|first| first.step.local);
        let replaced = order.get(self.place).map(|by| by.field);
        if first.is_none() || first != replaced {
            let message = "an order through a relation does not begin at the field of its sort key";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut at: Option<std::sync::Arc<Table>> = None;
        for RelatedOrderStep { step, rows } in &self.steps {
            let from = at.as_deref().unwrap_or(table);
            let kind = from.fields().get(step.local).map(|field| &field.kind);
            if !matches!(kind, Some(Kind::Reference { .. })) {
                return Err(no_reference(from, &step.table));
            }
            let target = from.step_target(step)?;
            if let Some(rows) = rows.as_ref().filter(|_| with_rows) {
                rows.check(&target)?;
            }
            at = Some(target);
        }
        check_field(at.as_deref().unwrap_or(table), self.field)
    }
}

impl RowQuery {
    /// Checks the orders through references.
    pub(super) fn check_related(&self, table: &Table) -> Result<()> {
        if self.related.len() > RELATED_ORDERS_MAX {
            let message = format!(
                "`order` has {} fields of related rows; at most {RELATED_ORDERS_MAX} are allowed",
                self.related.len()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.related.iter().try_for_each(|by| by.check(table, &self.order, true))
    }

    /// Checks the paths of orders through references, and the number of values of the start.
    /// [`RowQuery::check`] includes it; this is for queries that rights have narrowed.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let table = Table::new(Schema::new("person", vec![id]))?;
    /// use marmota_model::{RowQuery, Value};
    /// assert!(RowQuery::new().check_paths(&table).is_ok());
    /// let query = RowQuery { after: Some(Vec::new()), ..RowQuery::new() };
    /// assert!(query.check_paths(&table).is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the relation or the field.
    pub fn check_paths(&self, table: &Table) -> Result<()> {
        self.order.iter().try_for_each(|by| by.check(table))?;
        self.related.iter().try_for_each(|by| by.check(table, &self.order, false))?;
        self.check_start(table)
    }

    /// Refuses orders through references, for a read that does not have them; `read` names it.
    ///
    /// ```
    /// use marmota_model::RowQuery;
    /// assert!(RowQuery::new().refuse_related("a live query").is_ok());
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the query has such an order.
    pub fn refuse_related(&self, read: &str) -> Result<()> {
        if self.related.is_empty() {
            return Ok(());
        }
        let message = format!(
            "{read} cannot be ordered by a field of related rows: order it by fields of its own \
             table, or read pages of a list"
        );
        Err(Error::new(ErrorKind::Invalid, message))
    }
}

fn no_reference(from: &Table, relation: &str) -> Error {
    let message = format!(
        "`order` follows references only, and the relation of `{}` to `{relation}` is not one",
        from.name()
    );
    Error::new(ErrorKind::Invalid, message)
}

/// Resolves the path of an order, such as `assignee.name` or `project.owner.name`. Returns the
/// steps, the table of the last one, and the position of the field in it.
pub(super) fn parse_path(
    table: &Table,
    path: &str,
    name: &str,
) -> Result<(Vec<RelationStep>, std::sync::Arc<Table>, usize)> {
    let relation = table.relation(path)?;
    let mut from: Option<std::sync::Arc<Table>> = None;
    for step in &relation.steps {
        let at = from.as_deref().unwrap_or(table);
        if !matches!(at.fields()[step.local].kind, Kind::Reference { .. }) {
            return Err(no_reference(at, &step.table));
        }
        from = Some(at.related(&step.table)?);
    }
    let field = relation.target.position(name)?;
    Ok((relation.steps, relation.target, field))
}

/// A field of the row to which references of the model `M` lead:
/// `Issue::ASSIGNEE.then(Person::NAME)`.
///
/// ```no_run
/// # use marmota_model::{Column, Model, Order, Ref};
/// # fn example<Issue: Model, Project: Model, Person: Model>(
/// #     project: Column<Issue, Ref<Project>>, owner: Column<Project, Option<Ref<Person>>>,
/// #     name: Column<Person, String>) {
/// // With derived models: `Issue::PROJECT.then(Project::OWNER).then(Person::NAME)`.
/// let by_owner: Order<Issue> = project.then(owner).then(name).ascending();
/// # }
/// ```
#[must_use = "a path sorts nothing by itself; call `ascending` or `descending`"]
pub struct ColumnPath<M, T> {
    steps: Vec<RelationStep>,
    field: usize,
    model: PhantomData<fn() -> (M, T)>,
}

impl<M, T: Reference> Column<M, T> {
    /// Returns a field of the row to which this field refers, to sort by.
    ///
    /// ```no_run
    /// # use marmota_model::{Column, Model, Order, Ref};
    /// # fn example<Issue: Model, Person: Model>(
    /// #     assignee: Column<Issue, Option<Ref<Person>>>, name: Column<Person, String>) {
    /// // With derived models: `Issue::ASSIGNEE.then(Person::NAME)`.
    /// let by_assignee: Order<Issue> = assignee.then(name).descending();
    /// # }
    /// ```
    pub fn then<V>(self, column: Column<T::Target, V>) -> ColumnPath<M, V> {
        let steps = vec![step_of::<T>(self.position())];
        ColumnPath { steps, field: column.position(), model: PhantomData }
    }
}

impl<M, T: Reference> ColumnPath<M, T> {
    /// Returns a field of the row to which the field at the end of this path refers.
    pub fn then<V>(mut self, column: Column<T::Target, V>) -> ColumnPath<M, V> {
        self.steps.push(step_of::<T>(self.field));
        ColumnPath { steps: self.steps, field: column.position(), model: PhantomData }
    }
}

impl<M, T> ColumnPath<M, T> {
    /// Ascending order; rows without such a value first.
    pub fn ascending(self) -> Order<M> {
        Order::through(self.steps, self.field, false)
    }

    /// Descending order; rows without such a value last.
    pub fn descending(self) -> Order<M> {
        Order::through(self.steps, self.field, true)
    }
}

impl<M, T> Clone for ColumnPath<M, T> {
    fn clone(&self) -> Self {
        Self { steps: self.steps.clone(), field: self.field, model: PhantomData }
    }
}

impl<M, T> std::fmt::Debug for ColumnPath<M, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColumnPath")
            .field("steps", &self.steps)
            .field("field", &self.field)
            .finish()
    }
}

fn step_of<T: Reference>(local: usize) -> RelationStep {
    let table = Cow::Borrowed(T::Target::TABLE);
    RelationStep { table, local, target: T::Target::schema().key, to_one: true }
}
