//! Rights on the rows of related tables, on which a filter of the caller depends.
//!
//! The result of a condition on related rows depends on those rows, so the condition only sees those
//! that the caller may read. Rules of grants see all rows.

use std::sync::Arc;

use marmota_model::{
    Error, ErrorKind, FieldSet, FilterExpr, RelatedField, RelatedFieldStep, RelatedFilter, Result,
    Table,
};

use super::fields::FieldAccess;
use super::{Access, Right, Rights, is_internal};

impl Rights {
    /// Returns a caller's filter whose conditions on related rows only see the rows that the caller
    /// may read.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Denied`] for a related table of which the caller may not read
    /// any row.
    pub(crate) fn narrow_related(
        &self,
        table: &Table,
        filter: Option<&FilterExpr>,
    ) -> Result<Option<FilterExpr>> {
        match filter {
            Some(filter) if filter.has_relations() => self.seen(table, filter).map(Some),
            filter => Ok(filter.cloned()),
        }
    }

    /// Calls `visit` with each related table whose rows the rules for writes to a table read, by
    /// name. A table may come several times.
    ///
    /// # Errors
    /// Those of `visit`.
    pub(crate) fn each_related<E>(
        &self,
        table: &Table,
        visit: &mut impl FnMut(&str) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Ok(rights) = self.of(table) else { return Ok(()) };
        for access in [&rights.read, &rights.insert, &rights.update, &rights.delete] {
            access.each_related(visit)?;
        }
        for fields in [&rights.read_fields, &rights.insert_fields, &rights.update_fields] {
            fields
                .iter()
                .flat_map(FieldAccess::rows)
                .try_for_each(|rows| rows.each_related(visit))?;
        }
        rights.referring.iter().try_for_each(|referring| referring.access.each_related(visit))
    }

    /// Returns fields of related rows that only see the rows and fields that the caller may read.
    ///
    /// # Errors
    /// As [`Rights::narrow_related`], and that of an unknown field for one that may not be read.
    pub(crate) fn narrow_fields(
        &self,
        table: &Table,
        related: &[RelatedField],
    ) -> Result<Vec<RelatedField>> {
        let mut narrowed = related.to_vec();
        for RelatedField { steps, field, .. } in &mut narrowed {
            let mut from: Option<Arc<Table>> = None;
            for at in 0..steps.len() {
                let next = steps.get(at + 1).map_or(*field, |next| next.step.local);
                let RelatedFieldStep { step, rows } = &mut steps[at];
                let target = from.as_deref().unwrap_or(table).step_target(step)?;
                let rights = self.admit(Right::Read, &target)?;
                let used = FieldSet::EMPTY.with(step.target).with(next);
                *rows = rights.reading(used)?.narrow(rows.take());
                from = Some(target);
            }
        }
        Ok(narrowed)
    }

    fn seen(&self, table: &Table, filter: &FilterExpr) -> Result<FilterExpr> {
        filter.replace_related(table, &mut |table, related| {
            let target = table.step_target(&related.step)?;
            let rights = self.admit(Right::Read, &target)?;
            let used = related.filter.fields(&target).with(related.step.target);
            let inner = self.seen(&target, &related.filter)?;
            let filter = rights.reading(used)?.narrow(Some(inner)).unwrap_or(FilterExpr::ALL);
            let (step, quantifier) = (related.step.clone(), related.quantifier);
            Ok(FilterExpr::Related(Box::new(RelatedFilter { step, quantifier, filter })))
        })
    }
}

/// Checks that generic interfaces expose all related tables on whose rows a caller's filter depends.
/// The rights of the caller are checked when the filter is used.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an internal table.
pub fn check_exposed(table: &Table, filter: &FilterExpr) -> Result<()> {
    filter.each_related(&mut |name| check_table_exposed(table, name, "filter"))
}

/// Checks that generic interfaces expose all related tables whose fields a caller's query uses in
/// its `used_by`, such as `order`.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an internal table.
pub fn check_fields_exposed(table: &Table, related: &[RelatedField], used_by: &str) -> Result<()> {
    let steps = related.iter().flat_map(|by| &by.steps);
    steps
        .map(|step| &step.step.table)
        .try_for_each(|name| check_table_exposed(table, name, used_by))
}

fn check_table_exposed(table: &Table, name: &str, used_by: &str) -> Result<()> {
    if !table.related(name).is_ok_and(|related| is_internal(&related)) {
        return Ok(());
    }
    let message = format!(
        "the {used_by} uses rows of `{name}`, which is an internal table: use other relations of \
         `{}`",
        table.name()
    );
    Err(Error::new(ErrorKind::Invalid, message))
}

impl Access {
    /// Returns true if it depends on rows of related tables, so that only the engine can evaluate
    /// it.
    pub(crate) fn has_relations(&self) -> bool {
        match self {
            Self::Denied | Self::All => false,
            Self::Where(condition) => condition.filter().has_relations(),
        }
    }

    fn each_related<E>(
        &self,
        visit: &mut impl FnMut(&str) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        match self {
            Self::Denied | Self::All => Ok(()),
            Self::Where(condition) => condition.filter().each_related(visit),
        }
    }
}
