//! Rights on the rows of related tables, on which a filter of the caller depends.
//!
//! The result of a condition on related rows depends on those rows, so the condition only sees those
//! that the caller may read. Rules of grants see all rows.

use marmota_model::{Error, ErrorKind, FilterExpr, RelatedFilter, Result, Table};

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
    filter.each_related(&mut |name| {
        if !table.related(name).is_ok_and(|related| is_internal(&related)) {
            return Ok(());
        }
        let message = format!(
            "the filter uses rows of `{name}`, which is an internal table: use other relations of \
             `{}`",
            table.name()
        );
        Err(Error::new(ErrorKind::Invalid, message))
    })
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
