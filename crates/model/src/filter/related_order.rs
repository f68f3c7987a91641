//! Orders through references, as data: `order=assignee.name`.

use std::sync::Arc;

use super::check::check_field;
use crate::{Error, ErrorKind, FilterExpr, Kind, RelationStep, Result, SortKey, Table};

/// The maximum number of orders through references in one query.
pub const RELATED_ORDERS_MAX: usize = 4;

/// An order by a field of the row to which references lead, in the form for the store. It replaces
/// one of the sort keys of [`RowQuery::order`](crate::RowQuery::order), which names the reference.
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
    /// The index in [`RowQuery::order`](crate::RowQuery::order) of the sort key that it replaces.
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
    pub(super) fn check(&self, table: &Table, order: &[SortKey], with_rows: bool) -> Result<()> {
        let first = self.steps.first().map(|first| first.step.local);
        let replaced = order.get(self.place).map(|by| by.field);
        if first.is_none() || first != replaced {
            let message = "an order through a relation does not begin at the field of its sort key";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut at: Option<Arc<Table>> = None;
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
