//! Groups by fields of related rows, as reads that engines execute.
//!
//! | stage | read | result |
//! |---|---|---|
//! | groups | groups by the references | a row for each combination of references |
//! | related | the values to which the references lead | references replaced by values |
//! | merge, lend | none | groups of the values, sorted |
//!
//! Rows with the same values are one group. Counts and sums of them are added, and a mean is made of
//! a sum and a count.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{
    AggregateColumn, AggregateFunction, Error, ErrorKind, GROUP_AGGREGATES_MAX, GroupQuery, Result,
    RowSink, Table, Value, ValueRef,
};

use super::related_lookup::RelatedLookup;
use super::staged_read::{StageQuery, StagedRead};
use crate::contract::operation::Operation;
use crate::rows::best_rows::bytes_of;
use crate::rows::row_groups::{Merged, PART, RowGroups, SortedGroups};

/// The maximum size of the groups by references, in bytes.
const BYTES_MAX: usize = 64 << 20;

/// Groups by fields of related rows, between the reads of its stages.
#[derive(Debug)]
pub(super) struct RelatedGroups {
    /// The query of groups by references, and the table that describes them.
    query: GroupQuery,
    result: Arc<Table>,
    /// Where each value to group by, or its reference, is in a row of these groups.
    by: Vec<usize>,
    /// The values to which references lead, by their index in `by`.
    looked_up: Vec<(usize, RelatedLookup)>,
    /// How the computed values are put together.
    merged: Vec<Merged>,
    rows: Vec<Box<[Value]>>,
    bytes: usize,
    stage: Stage,
    lent: u64,
}

#[derive(Debug)]
enum Stage {
    Groups,
    /// The values of one of [`GroupQuery::related`], by its index.
    Related(usize, RelatedLookup),
    Merge(Box<Merge>),
    Lend(Box<SortedGroups>),
    Done,
}

/// The groups by references that are put together.
#[derive(Debug)]
struct Merge {
    rows: std::vec::IntoIter<Box<[Value]>>,
    groups: RowGroups,
}

impl RelatedGroups {
    /// Begins groups of rows of `table`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if there are too many computed values.
    pub(super) fn new(table: &Table, query: &GroupQuery) -> Result<Self> {
        // Two fields of one related row have the same reference.
        let mut references = query.by.clone();
        references.sort_unstable();
        references.dedup();
        let place = |field| references.iter().position(|one| *one == field).unwrap_or_default();
        let by = query.by.iter().map(|&field| place(field)).collect();
        let (aggregates, merged) = parts_of(query);
        let count = aggregates.len();
        let filter = query.filter.clone();
        let query = GroupQuery { filter, by: references, aggregates, ..GroupQuery::new() };
        let result = query.result(table).map_err(|error| match count {
            0..=GROUP_AGGREGATES_MAX => error,
            _ => {
                let message = format!(
                    "groups by fields of related rows have at most {GROUP_AGGREGATES_MAX} computed \
                     values, of which a mean is two, not {count}"
                );
                Error::new(ErrorKind::Invalid, message)
            }
        })?;
        Ok(Self {
            query,
            result: Arc::new(result),
            by,
            looked_up: Vec::new(),
            merged,
            rows: Vec::new(),
            bytes: 0,
            stage: Stage::Groups,
            lent: 0,
        })
    }

    /// Prepares the first list for one of the related fields, or the merge if none remains.
    fn next_field(
        &mut self,
        (table, result): (&Table, &Table),
        query: &GroupQuery,
        at: usize,
    ) -> Result<()> {
        let Some(path) = query.related.get(at) else {
            let rows = std::mem::take(&mut self.rows).into_iter();
            let groups = RowGroups::of_groups(result, &self.merged);
            self.stage = Stage::Merge(Box::new(Merge { rows, groups }));
            return Ok(());
        };
        let reference = self.by[path.place];
        let references = self.rows.iter().map(|row| row[reference].clone());
        match RelatedLookup::new(table, path, references)? {
            Some(lookup) => {
                self.stage = Stage::Related(at, lookup);
                Ok(())
            }
            None => self.next_field((table, result), query, at + 1),
        }
    }

    /// Puts some rows into the groups of their values.
    fn merge(&mut self, query: &GroupQuery, merge: &mut Merge) {
        let is_related = |place: usize| query.related.iter().any(|path| path.place == place);
        let Merge { rows, groups } = merge;
        let is_full = rows.by_ref().take(PART).any(|row| {
            let values = self.by.iter().enumerate().map(|(place, &at)| {
                let lookup = self.looked_up.iter().find(|(looked_up, _)| *looked_up == place);
                match lookup {
                    Some((_, lookup)) => lookup.value(row[at].as_ref()),
                    None if is_related(place) => Value::Null,
                    None => row[at].clone(),
                }
            });
            let values: Vec<Value> = values.collect();
            let computed = &row[self.query.by.len()..];
            let row: Vec<ValueRef<'_>> = values.iter().chain(computed).map(Value::as_ref).collect();
            groups.row(&row).is_break()
        });
        if is_full {
            // The groups report the error at their end.
            *rows = Vec::new().into_iter();
        }
    }
}

/// Returns what is computed for each combination of references, and how that is put together.
fn parts_of(query: &GroupQuery) -> (Vec<AggregateColumn>, Vec<Merged>) {
    let (mut parts, first) = (Vec::new(), query.by.len());
    let mut add = |function, field| {
        let name = format!("marmota_part_{}", parts.len());
        parts.push(AggregateColumn::new(function, field).named(name));
        first + parts.len() - 1
    };
    let merged = query.aggregates.iter().map(|column| {
        let (field, function) = (column.field, column.function);
        match function {
            AggregateFunction::Avg => {
                let values = add(AggregateFunction::Sum, field);
                Merged { function, values, counts: Some(add(AggregateFunction::Count, field)) }
            }
            AggregateFunction::Count => {
                let function_of_counts = AggregateFunction::Sum;
                Merged { function: function_of_counts, values: add(function, field), counts: None }
            }
            _ => Merged { function, values: add(function, field), counts: None },
        }
    });
    let merged = merged.collect();
    (parts, merged)
}

impl StagedRead for RelatedGroups {
    fn table(&self) -> Option<Option<&str>> {
        match &self.stage {
            Stage::Groups | Stage::Merge(_) | Stage::Lend(_) => Some(None),
            Stage::Related(_, lookup) => Some(Some(lookup.table())),
            Stage::Done => None,
        }
    }

    fn has_read(&self) -> bool {
        !matches!(self.stage, Stage::Merge(_) | Stage::Lend(_))
    }

    fn query(&self) -> StageQuery {
        match &self.stage {
            Stage::Related(_, lookup) => StageQuery::List(lookup.list()),
            _ => StageQuery::Group(self.query.clone(), Arc::clone(&self.result)),
        }
    }

    fn advance(&mut self, operation: &Operation<'_>, sink: &mut dyn RowSink) -> Result<()> {
        let Operation::Group { table, query, result } = operation else { return Ok(()) };
        if self.bytes > BYTES_MAX {
            let message = format!(
                "groups by fields of related rows keep more than {BYTES_MAX} bytes, one row for each \
                 combination of references; select fewer rows"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Groups => self.next_field((table, result), query, 0),
            Stage::Related(at, mut lookup) => {
                if lookup.advance(table)? {
                    self.stage = Stage::Related(at, lookup);
                    return Ok(());
                }
                self.looked_up.push((query.related[at].place, lookup));
                self.next_field((table, result), query, at + 1)
            }
            Stage::Merge(mut merge) => {
                self.merge(query, &mut merge);
                self.stage = match merge.rows.as_slice().is_empty() {
                    true => Stage::Lend(Box::new(merge.groups.end(result, query)?)),
                    false => Stage::Merge(merge),
                };
                Ok(())
            }
            Stage::Lend(mut groups) => {
                let remains = groups.advance((table, result), query, sink)?;
                self.lent = groups.lent();
                if remains {
                    self.stage = Stage::Lend(groups);
                }
                Ok(())
            }
            Stage::Done => Ok(()),
        }
    }

    fn lent(&self) -> u64 {
        self.lent
    }
}

/// Takes the rows of the read of the stage.
impl RowSink for RelatedGroups {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        match &mut self.stage {
            Stage::Groups => {
                let row: Box<[Value]> = row.iter().map(ValueRef::to_value).collect();
                self.bytes += size_of::<Box<[Value]>>() + row.iter().map(bytes_of).sum::<usize>();
                self.rows.push(row);
            }
            Stage::Related(_, lookup) => self.bytes += lookup.add(row),
            Stage::Merge(_) | Stage::Lend(_) | Stage::Done => return ControlFlow::Break(()),
        }
        if self.bytes > BYTES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
