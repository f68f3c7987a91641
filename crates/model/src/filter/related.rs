//! Conditions on related rows, as data.

use crate::{Comparison, FilterExpr, RelationStep, Result, Table};

/// A condition on the rows to which a [`RelationStep`] leads, in the form for engines.
///
/// It is always true or false, also if the condition on the related rows is unknown for some of
/// them: those do not count.
///
/// ```
/// use marmota_model::{FilterExpr, Quantifier, RelatedFilter, RelationStep};
/// let comments = RelationStep { table: "comment".into(), local: 0, target: 1, to_one: false };
/// let any = RelatedFilter { step: comments, quantifier: Quantifier::Any, filter: FilterExpr::ALL };
/// let commented = FilterExpr::Related(Box::new(any));
/// assert!(commented.has_relations());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RelatedFilter {
    /// The step to the related rows.
    pub step: RelationStep,
    /// The number of related rows that have to satisfy the filter.
    pub quantifier: Quantifier,
    /// The filter on rows of the related table.
    pub filter: FilterExpr,
}

/// The number of related rows that have to satisfy a filter.
///
/// ```
/// use marmota_model::{Comparison, Quantifier};
/// let few = Quantifier::Count { comparison: Comparison::Less, number: 3 };
/// assert!(few.holds(0) && !Quantifier::Any.holds(0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// At least one.
    Any,
    /// A number for which a comparison is true.
    Count {
        /// The comparison of the number of rows with `number`.
        comparison: Comparison,
        /// The number to compare with.
        number: u32,
    },
}

impl Quantifier {
    /// Returns true if this number of related rows satisfies it.
    #[must_use]
    pub fn holds(self, rows: u64) -> bool {
        match self {
            Self::Any => rows > 0,
            Self::Count { comparison, number } => comparison.holds(rows.cmp(&u64::from(number))),
        }
    }
}

impl FilterExpr {
    /// A filter that selects every row.
    pub const ALL: Self = Self::And(Vec::new());

    /// Returns true if the filter depends on rows of related tables.
    #[must_use]
    pub fn has_relations(&self) -> bool {
        match self {
            Self::Related(_) => true,
            Self::Not(inner) => inner.has_relations(),
            Self::And(all) | Self::Or(all) => all.iter().any(Self::has_relations),
            _ => false,
        }
    }

    /// Calls `visit` with each related table on which the filter depends, by name. A table may come
    /// several times.
    ///
    /// # Errors
    /// Those of `visit`.
    pub fn each_related<E>(
        &self,
        visit: &mut impl FnMut(&str) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        match self {
            Self::Related(related) => {
                visit(&related.step.table)?;
                related.filter.each_related(visit)
            }
            Self::Not(inner) => inner.each_related(visit),
            Self::And(all) | Self::Or(all) => {
                all.iter().try_for_each(|one| one.each_related(visit))
            }
            _ => Ok(()),
        }
    }

    /// Returns the filter with each condition on related rows replaced: `replace` gets the table
    /// whose rows the condition selects, and the condition. Conditions inside of a replaced one are
    /// not visited.
    ///
    /// # Errors
    /// Those of `replace`.
    pub fn replace_related(
        &self,
        table: &Table,
        replace: &mut impl FnMut(&Table, &RelatedFilter) -> Result<Self>,
    ) -> Result<Self> {
        Ok(match self {
            Self::Related(related) => replace(table, related)?,
            Self::Not(inner) => Self::Not(Box::new(inner.replace_related(table, replace)?)),
            Self::And(all) | Self::Or(all) => {
                let all = all.iter().map(|one| one.replace_related(table, replace));
                let all = all.collect::<Result<_>>()?;
                if matches!(self, Self::And(_)) { Self::And(all) } else { Self::Or(all) }
            }
            other => other.clone(),
        })
    }

    /// Returns the condition that any row after these steps satisfies the filter.
    pub(crate) fn after_steps(steps: &[RelationStep], filter: Self) -> Self {
        steps.iter().rev().fold(filter, |filter, step| {
            let (step, quantifier) = (step.clone(), Quantifier::Any);
            Self::Related(Box::new(RelatedFilter { step, quantifier, filter }))
        })
    }
}
