//! Rows in groups: which rows, by which fields, and what is computed for each group.

use std::borrow::Cow;

use super::group_parse;
use super::related_field::{RELATED_FIELDS_MAX, RelatedField, parse_path};
use crate::value::excerpt::excerpt;
use crate::{
    Collation, Error, ErrorKind, Field, FieldSet, FilterExpr, Kind, RelationStep, Result, Schema,
    SortKey, Table, Violation,
};

/// The maximum number of fields to group by.
pub const GROUP_FIELDS_MAX: usize = 8;
/// The maximum number of values that are computed for each group.
pub const GROUP_AGGREGATES_MAX: usize = 16;

/// A function of the values of a field in a group of rows.
///
/// | function | fields | result | of a group without values |
/// |---|---|---|---|
/// | `count` | any, or none: the rows | integer | 0 |
/// | `sum` | integer, float, currency | the kind of the field | NULL |
/// | `avg` | integer, float, currency | float | NULL |
/// | `min`, `max` | integer, float, currency, text, date, time, timestamp | the kind of the field | NULL |
///
/// Each function ignores NULL.
///
/// ```
/// use marmota_model::AggregateFunction;
/// assert_eq!(AggregateFunction::Sum.name(), "sum");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// The number of values, or of rows.
    Count,
    /// The sum. A sum of integers or amounts beyond the range of 64 bits is an error.
    Sum,
    /// The mean, as a float.
    Avg,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
}

impl AggregateFunction {
    /// All functions.
    pub const ALL: [Self; 5] = [Self::Count, Self::Sum, Self::Avg, Self::Min, Self::Max];

    /// Returns the name of the function, as in the text form.
    ///
    /// ```
    /// assert_eq!(marmota_model::AggregateFunction::Avg.name(), "avg");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Min => "min",
            Self::Max => "max",
        }
    }

    /// Returns the kind of the result for a field of this kind, or `None` if the function does not
    /// apply to it.
    fn result(self, kind: &Kind) -> Option<Kind> {
        match (self, kind) {
            (Self::Count, _) => Some(Kind::Int { min: 0, max: i64::MAX }),
            (Self::Sum, Kind::Int { .. }) => Some(Kind::I64),
            (Self::Sum, Kind::Float | Kind::Currency) => Some(kind.clone()),
            (Self::Avg, Kind::Int { .. } | Kind::Float | Kind::Currency) => Some(Kind::Float),
            (
                Self::Min | Self::Max,
                Kind::Int { .. }
                | Kind::Float
                | Kind::Currency
                | Kind::Text { .. }
                | Kind::Date
                | Kind::Time
                | Kind::Timestamp,
            ) => Some(kind.clone()),
            _ => None,
        }
    }
}

/// A value that is computed for each group.
///
/// ```
/// use marmota_model::{AggregateColumn, AggregateFunction};
/// let count = AggregateColumn::new(AggregateFunction::Count, None).named("people");
/// assert_eq!(count.name.as_deref(), Some("people"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregateColumn {
    /// The function.
    pub function: AggregateFunction,
    /// The field whose values are aggregated. `None` counts rows.
    pub field: Option<usize>,
    /// The name of the result. Default: the function and the field, such as `sum_estimate`, and
    /// `count` for the number of rows.
    pub name: Option<Cow<'static, str>>,
}

impl AggregateColumn {
    /// Creates a column with the default name. `field` is a position in the table; `None` counts
    /// rows.
    ///
    /// ```
    /// use marmota_model::{AggregateColumn, AggregateFunction};
    /// assert_eq!(AggregateColumn::new(AggregateFunction::Sum, Some(2)).field, Some(2));
    /// ```
    #[must_use]
    pub const fn new(function: AggregateFunction, field: Option<usize>) -> Self {
        Self { function, field, name: None }
    }

    /// Sets the name of the result.
    ///
    /// ```
    /// use marmota_model::{AggregateColumn, AggregateFunction};
    /// let total = AggregateColumn::new(AggregateFunction::Sum, Some(2)).named("total");
    /// assert_eq!(total.name.as_deref(), Some("total"));
    /// ```
    #[must_use]
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns the field of the result.
    fn result(&self, table: &Table, is_grouped: bool) -> Result<Field> {
        let Some(position) = self.field else {
            if self.function != AggregateFunction::Count {
                let message = format!(
                    "`{0}` needs a field, such as `{0}(estimate)`; only `count` has none",
                    self.function.name()
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            let name = self.name.clone().unwrap_or(Cow::Borrowed("count"));
            return Ok(Field::named(name, Kind::Int { min: 0, max: i64::MAX }));
        };
        let field = field_at(table, position)?;
        let Some(kind) = self.function.result(&field.kind) else {
            let message = format!(
                "`{}` does not apply to a field of type {}; it applies to {}",
                self.function.name(),
                field.kind.name(),
                match self.function {
                    AggregateFunction::Sum | AggregateFunction::Avg =>
                        "integer, float and currency",
                    _ => "integer, float, currency, text, date, time and timestamp",
                }
            );
            return Err(refused(&field.name, self.function.name(), "aggregate", message));
        };
        let name = match &self.name {
            Some(name) => name.clone(),
            None => Cow::Owned(format!("{}_{}", self.function.name(), field.name)),
        };
        let nullable = self.function != AggregateFunction::Count && (field.nullable || !is_grouped);
        Ok(Field::named(name, kind).nullable(nullable))
    }
}

/// Rows in groups: the rows that a filter selects, grouped by the values of fields, with computed
/// values for each group.
///
/// The result has a row for each group: the fields of [`GroupQuery::by`], then
/// [`GroupQuery::aggregates`]. [`GroupQuery::result`] describes these rows; [`GroupQuery::having`]
/// and [`GroupQuery::order`] use its positions. Without fields in `by`, all rows are one group, and
/// the result has one row, also if there are no rows.
///
/// Rows with NULL in a field are a group. Texts that are equal under the collation of their field
/// are one group; under [`Collation::NoCase`], the result has the text in lower case, also for
/// `min` and `max`.
///
/// ```
/// # use marmota_model::{Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("issue", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("state", Kind::TEXT),
/// #     Field::new("estimate", Kind::I64).nullable(true)]))?;
/// use marmota_model::{GroupQuery, parse_filter};
/// let mut query = GroupQuery::new();
/// query.by = vec![1];
/// query.select(&table, "count,sum(estimate)")?;
/// let result = query.result(&table)?;
/// let names: Vec<&str> = result.fields().iter().map(|field| &*field.name).collect();
/// assert_eq!(names, ["state", "count", "sum_estimate"]);
/// query.having = Some(parse_filter(&result, "count > 3")?.into_expr_for(&result)?);
/// query.check(&table)?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupQuery {
    /// The condition on rows; `None` for all rows.
    pub filter: Option<FilterExpr>,
    /// The fields to group by; empty for one group of all rows.
    pub by: Vec<usize>,
    /// The fields of related rows that replace references in [`GroupQuery::by`], at most
    /// [`RELATED_FIELDS_MAX`].
    pub related: Vec<RelatedField>,
    /// The values to compute for each group.
    pub aggregates: Vec<AggregateColumn>,
    /// The condition on groups, with the fields of [`GroupQuery::result`]; `None` for all groups.
    pub having: Option<FilterExpr>,
    /// The order of groups, with the fields of [`GroupQuery::result`]. Groups that are equal in all
    /// of them come in the order of the fields of `by`.
    pub order: Vec<SortKey>,
    /// The maximum number of groups to return.
    pub limit: Option<u64>,
}

impl GroupQuery {
    /// Creates a query of one group with all rows, and no computed values.
    ///
    /// ```
    /// assert!(marmota_model::GroupQuery::new().by.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds fields to group by from their text form: names separated by commas. A path such as
    /// `assignee.name` leads through references to a field of a related row; its column of the
    /// result is `assignee_name`, and NULL for rows without a related row.
    ///
    /// ```
    /// # use marmota_model::{Field, GroupQuery, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("issue", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("state", Kind::TEXT)]))?;
    /// let mut query = GroupQuery::new();
    /// query.group_by(&table, "state")?;
    /// assert_eq!(query.by, [1]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a name that is not a field, and for a path through a relation that
    /// is not a reference.
    pub fn group_by(&mut self, table: &Table, text: &str) -> Result<()> {
        for name in text.split(',').map(str::trim) {
            match name.rsplit_once('.') {
                None => self.by.push(table.position(name)?),
                Some((path, name)) => {
                    let (steps, _, field) = parse_path(table, path, name)?;
                    self.group_by_related(steps, field);
                }
            }
        }
        Ok(())
    }

    /// Adds a field of the row to which steps lead. They are not empty.
    pub(super) fn group_by_related(&mut self, steps: Vec<RelationStep>, field: usize) {
        let reference = steps.first().map_or(0, |first| first.local);
        self.related.push(RelatedField::new(self.by.len(), steps, field));
        self.by.push(reference);
    }

    /// Adds computed values from their text form, such as `count,sum(estimate),last:max(due)`:
    /// functions with the field in parentheses, each with an optional name before a colon.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("issue", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("due", Kind::Date)]))?;
    /// let mut query = marmota_model::GroupQuery::new();
    /// query.select(&table, "count,last:max(due)")?;
    /// assert_eq!(query.aggregates[1].name.as_deref(), Some("last"));
    /// assert!(query.select(&table, "median(due)").is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the part of the text, and what is allowed.
    pub fn select(&mut self, table: &Table, text: &str) -> Result<()> {
        self.aggregates.extend(group_parse::aggregates(table, text)?);
        Ok(())
    }

    /// Returns a description of the rows of the result: a table without a key.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("issue", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key)]))?;
    /// let mut query = marmota_model::GroupQuery::new();
    /// query.select(&table, "count")?;
    /// assert_eq!(&*query.result(&table)?.fields()[0].name, "count");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the query has too many or no columns, if a function or a group does
    /// not apply to a field, or if two columns have the same name.
    pub fn result(&self, table: &Table) -> Result<Table> {
        if self.by.is_empty() && self.aggregates.is_empty() {
            let message = "a query of groups needs at least one computed value or one field to \
                           group by: select `count`";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        for (what, count, max) in [
            ("fields to group by", self.by.len(), GROUP_FIELDS_MAX),
            ("fields of related rows", self.related.len(), RELATED_FIELDS_MAX),
            ("computed values", self.aggregates.len(), GROUP_AGGREGATES_MAX),
        ] {
            if count > max {
                let message = format!("a query of groups has at most {max} {what}, not {count}");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        let mut fields = Vec::with_capacity(self.by.len() + self.aggregates.len());
        for (place, &position) in self.by.iter().enumerate() {
            let field = match self.related.iter().find(|related| related.place == place) {
                None => {
                    let field = field_at(table, position)?;
                    Field::named(field.name.clone(), field.kind.clone()).nullable(field.nullable)
                }
                Some(related) => {
                    related.check(table, Some(position), false)?;
                    related.named_field(table)?
                }
            };
            if fields.iter().any(|other: &Field| other.name == field.name) {
                let message = "occurs twice in the fields to group by".to_owned();
                return Err(refused(&field.name, &field.name, "twice", message));
            }
            if matches!(field.kind, Kind::Float | Kind::Blob | Kind::Json | Kind::Vector { .. }) {
                let message =
                    format!("rows cannot be grouped by a field of type {}", field.kind.name());
                return Err(refused(&field.name, &field.name, "group", message));
            }
            fields.push(field);
        }
        for aggregate in &self.aggregates {
            let field = aggregate.result(table, !self.by.is_empty())?;
            if fields.iter().any(|other: &Field| other.name.eq_ignore_ascii_case(&field.name)) {
                let message = "two columns of the result have this name; give one another name, \
                               such as `total:sum(estimate)`";
                return Err(refused(&field.name, &field.name, "twice", message.to_owned()));
            }
            fields.push(field);
        }
        Table::of_results(Schema::new(table.name().to_owned(), fields))
    }

    /// Checks that the query fits a table, and returns its [`GroupQuery::result`].
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("issue", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key)]))?;
    /// let query = marmota_model::GroupQuery { by: vec![7], ..Default::default() };
    /// assert!(query.check(&table).is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`GroupQuery::result`], and [`ErrorKind::Invalid`] for a filter or order that does not fit.
    pub fn check(&self, table: &Table) -> Result<Table> {
        if let Some(filter) = &self.filter {
            filter.check(table)?;
        }
        let result = self.result(table)?;
        if let Some(having) = &self.having {
            having.check(&result)?;
        }
        self.order.iter().try_for_each(|by| by.check(&result))?;
        Ok(result)
    }

    /// Returns the order with the fields of [`GroupQuery::by`] that it lacks: each group has one
    /// place.
    ///
    /// ```
    /// use marmota_model::{GroupQuery, SortKey};
    /// let query = GroupQuery { by: vec![4, 2], ..GroupQuery::new() };
    /// assert_eq!(query.total_order()[1], SortKey { field: 1, descending: false });
    /// ```
    #[must_use]
    pub fn total_order(&self) -> Vec<SortKey> {
        let mut order = self.order.clone();
        for field in 0..self.by.len() {
            if order.iter().all(|by| by.field != field) {
                order.push(SortKey { field, descending: false });
            }
        }
        order
    }

    /// Returns the fields of the table that it reads, without those of the filter.
    ///
    /// ```
    /// use marmota_model::GroupQuery;
    /// let query = GroupQuery { by: vec![4, 2], ..GroupQuery::new() };
    /// assert_eq!(query.fields().iter().collect::<Vec<_>>(), [2, 4]);
    /// ```
    #[must_use]
    pub fn fields(&self) -> FieldSet {
        let aggregated = self.aggregates.iter().filter_map(|column| column.field);
        self.by.iter().copied().chain(aggregated).fold(FieldSet::EMPTY, FieldSet::with)
    }

    /// Returns the error for a sum of integers or amounts that does not fit in 64 bits. `table` is
    /// that of the rows.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("issue", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key), Field::new("estimate", Kind::I64)]))?;
    /// let mut query = marmota_model::GroupQuery::new();
    /// query.select(&table, "sum(estimate)")?;
    /// assert!(query.overflow(&table).to_string().contains("`estimate`"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    #[cold]
    pub fn overflow(&self, table: &Table) -> Error {
        let sums = self.aggregates.iter().filter(|it| it.function == AggregateFunction::Sum);
        let names: Vec<String> = sums
            .filter_map(|column| Some(format!("`{}`", table.fields().get(column.field?)?.name)))
            .collect();
        let message = format!(
            "a sum of {} exceeds the range of its type; select fewer rows, or use `avg`",
            names.join(" or ")
        );
        Error::new(ErrorKind::Invalid, message)
    }

    /// Returns true if the texts of a field are lower case in the result: its collation ignores
    /// case.
    ///
    /// ```
    /// use marmota_model::{Field, GroupQuery, Kind};
    /// assert!(!GroupQuery::folds(&Field::new("name", Kind::TEXT)));
    /// ```
    #[must_use]
    pub fn folds(field: &Field) -> bool {
        matches!(field.kind, Kind::Text { collation: Collation::NoCase, .. })
    }
}

/// Returns the field at a position.
fn field_at(table: &Table, position: usize) -> Result<&Field> {
    table.fields().get(position).ok_or_else(|| {
        let message = format!(
            "a query of groups uses field number {position}, which `{}` does not have",
            table.name()
        );
        Error::new(ErrorKind::Invalid, message)
    })
}

/// Returns the error for a column that the query cannot have.
#[cold]
pub(super) fn refused(field: &str, value: &str, rule: &str, message: String) -> Error {
    Error::invalid(vec![Violation {
        field: excerpt(field),
        value: format!("{:?}", excerpt(value)),
        rule: rule.to_owned(),
        message,
    }])
}
