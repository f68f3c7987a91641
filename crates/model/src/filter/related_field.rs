//! Fields of the rows to which references lead, as data: `assignee.name` in an order or a group.

use std::borrow::Cow;
use std::sync::Arc;

use super::check::check_field;
use crate::{Error, ErrorKind, Field, FilterExpr, Kind, RelationStep, Result, Table};

/// The maximum number of fields of related rows in the order or the groups of one query.
pub const RELATED_FIELDS_MAX: usize = 4;

/// A field of the row to which references lead, in the form for the store. It replaces the reference
/// in a sort key of [`RowQuery::order`](crate::RowQuery::order), or in
/// [`GroupQuery::by`](crate::GroupQuery::by).
///
/// The value of a row without a reference is NULL. So is that of a row whose related row is not
/// selected.
///
/// ```
/// use marmota_model::{RelatedField, RelatedFieldStep, RelationStep, RowQuery, SortKey};
/// let to_person = RelationStep { table: "person".into(), local: 2, target: 0, to_one: true };
/// let steps = vec![RelatedFieldStep { step: to_person, rows: None }];
/// let by_name = RelatedField { place: 0, steps, field: 1 };
/// let mut query = RowQuery::new();
/// query.order = vec![SortKey { field: 2, descending: false }];
/// query.related = vec![by_name];
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RelatedField {
    /// The index in `order` or `by` of the reference that it replaces.
    pub place: usize,
    /// The steps to the related row, at least one. The first begins at the reference.
    pub steps: Vec<RelatedFieldStep>,
    /// The position of the field in the table of the last step.
    pub field: usize,
}

/// A step of a [`RelatedField`].
#[derive(Clone, Debug, PartialEq)]
pub struct RelatedFieldStep {
    /// The step, from a reference to the key of its table.
    pub step: RelationStep,
    /// The related rows that count; the others are taken as missing. `None` for all rows.
    pub rows: Option<FilterExpr>,
}

impl RelatedField {
    /// Creates the field at the end of steps between all rows.
    pub(super) fn new(place: usize, steps: Vec<RelationStep>, field: usize) -> Self {
        let steps = steps.into_iter().map(|step| RelatedFieldStep { step, rows: None });
        Self { place, steps: steps.collect(), field }
    }

    /// Checks that it fits a query of rows of `table`, in which it replaces the field at the
    /// position `replaced`; with the filters on related rows, if those are of the caller.
    pub(super) fn check(
        &self,
        table: &Table,
        replaced: Option<usize>,
        with_rows: bool,
    ) -> Result<()> {
        let first = self.steps.first().map(|first| first.step.local);
        if first.is_none() || first != replaced {
            let message =
                "a field of a related row does not begin at the reference that it replaces";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut at: Option<Arc<Table>> = None;
        for RelatedFieldStep { step, rows } in &self.steps {
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

    /// Returns the field with the name of its path, such as `assignee_name`, for one that fits a
    /// query of rows of `table`. It is nullable.
    pub(super) fn named_field(&self, table: &Table) -> Result<Field> {
        let (mut name, mut at): (String, Option<Arc<Table>>) = (String::new(), None);
        for RelatedFieldStep { step, .. } in &self.steps {
            let from = at.as_deref().unwrap_or(table);
            name.push_str(&from.fields()[step.local].name);
            name.push('_');
            at = Some(from.step_target(step)?);
        }
        let field = &at.as_deref().unwrap_or(table).fields()[self.field];
        name.push_str(&field.name);
        Ok(Field::named(Cow::Owned(name), field.kind.clone()).nullable(true))
    }

    /// Returns true if it leads to the same field as another, without regard to the rows that count.
    pub(super) fn has_path(&self, steps: &[RelationStep], field: usize) -> bool {
        self.field == field && self.steps.iter().map(|step| &step.step).eq(steps)
    }
}

fn no_reference(from: &Table, relation: &str) -> Error {
    let message = format!(
        "orders and groups follow references only, and the relation of `{}` to `{relation}` is not \
         one",
        from.name()
    );
    Error::new(ErrorKind::Invalid, message)
}

/// Resolves the path of an order or a group, such as `assignee.name` or `project.owner.name`.
/// Returns the steps, the table of the last one, and the position of the field in it.
pub(super) fn parse_path(
    table: &Table,
    path: &str,
    name: &str,
) -> Result<(Vec<RelationStep>, Arc<Table>, usize)> {
    let relation = table.relation(path)?;
    let mut from: Option<Arc<Table>> = None;
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
