//! Relations by the columns of references: conditions on related rows, orders and groups by their
//! fields.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use crate::{
    Column, Comparison, FieldValue, Filter, FilterExpr, GroupQuery, Model, Order, Quantifier, Ref,
    RelatedFilter, RelationStep,
};

/// A type of fields that refer to rows of a model: [`Ref<M>`] and `Option<Ref<M>>`.
pub trait Reference: FieldValue {
    /// The model to which it refers.
    type Target: Model;
}

impl<M: Model> Reference for Ref<M> {
    type Target = M;
}

impl<M: Model> Reference for Option<Ref<M>> {
    type Target = M;
}

impl<M: Model, T: Reference> Column<M, T> {
    /// Rows whose referenced row matches a filter. Rows without a reference do not match.
    ///
    /// ```no_run
    /// # use marmota_model::{Column, Filter, Model, Ref};
    /// # fn example<Issue: Model, Person: Model>(
    /// #     assignee: Column<Issue, Option<Ref<Person>>>, name: Column<Person, String>) {
    /// // With derived models: `Issue::ASSIGNEE.to(Person::NAME.eq("Ada"))`.
    /// let hers: Filter<Issue> = assignee.to(name.eq("Ada"));
    /// # }
    /// ```
    pub fn to(self, filter: Filter<T::Target>) -> Filter<M> {
        let step = RelationStep {
            table: Cow::Borrowed(T::Target::TABLE),
            local: self.position(),
            target: T::Target::schema().key,
            to_one: true,
        };
        related(step, Quantifier::Any, filter)
    }

    /// Rows of the referenced model to which at least one row refers by this field and matches a
    /// filter.
    ///
    /// ```no_run
    /// # use marmota_model::{Column, Filter, Model, Ref};
    /// # fn example<Issue: Model, Comment: Model>(
    /// #     issue: Column<Comment, Ref<Issue>>, text: Column<Comment, String>) {
    /// // With derived models: `Comment::ISSUE.any(Comment::TEXT.contains("crash"))`.
    /// let crashes: Filter<Issue> = issue.any(text.contains("crash"));
    /// # }
    /// ```
    pub fn any(self, filter: Filter<M>) -> Filter<T::Target> {
        related(self.backwards(), Quantifier::Any, filter)
    }

    /// Rows of the referenced model to which no row refers by this field and matches a filter.
    ///
    /// ```no_run
    /// # use marmota_model::{Column, Filter, Model, Ref};
    /// # fn example<Issue: Model, Comment: Model>(issue: Column<Comment, Ref<Issue>>) {
    /// // With derived models: `Comment::ISSUE.none(Filter::all([]))`.
    /// let silent: Filter<Issue> = issue.none(Filter::all([]));
    /// # }
    /// ```
    pub fn none(self, filter: Filter<M>) -> Filter<T::Target> {
        !self.any(filter)
    }

    /// Rows of the referenced model for which the number of rows that refer to them by this field
    /// and match a filter compares to `number`.
    ///
    /// ```no_run
    /// # use marmota_model::{Column, Comparison, Filter, Model, Ref};
    /// # fn example<Issue: Model, Comment: Model>(issue: Column<Comment, Ref<Issue>>) {
    /// let discussed: Filter<Issue> = issue.count(Filter::all([]), Comparison::Greater, 3);
    /// # }
    /// ```
    pub fn count(
        self,
        filter: Filter<M>,
        comparison: Comparison,
        number: u32,
    ) -> Filter<T::Target> {
        related(self.backwards(), Quantifier::Count { comparison, number }, filter)
    }

    fn backwards(self) -> RelationStep {
        let field = M::schema().fields.get(self.position());
        RelationStep {
            table: Cow::Borrowed(M::TABLE),
            local: T::Target::schema().key,
            target: self.position(),
            to_one: field.is_some_and(|field| field.unique),
        }
    }
}

fn related<A: Model, B: Model>(
    step: RelationStep,
    quantifier: Quantifier,
    filter: Filter<A>,
) -> Filter<B> {
    let filter = filter.into_expr();
    Filter::of_model(FilterExpr::Related(Box::new(RelatedFilter { step, quantifier, filter })))
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
#[must_use = "a path does nothing by itself; call `ascending` or `descending`, or group by it"]
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

impl<M: Model, T> ColumnPath<M, T> {
    /// Groups the rows of a query by the field, after the fields added before.
    pub fn append_to_groups(&self, query: &mut GroupQuery) {
        query.group_by_related(self.steps.clone(), self.field);
    }
}

impl<M, T> Clone for ColumnPath<M, T> {
    fn clone(&self) -> Self {
        Self { steps: self.steps.clone(), field: self.field, model: PhantomData }
    }
}

impl<M, T> fmt::Debug for ColumnPath<M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
