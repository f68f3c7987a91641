//! Conditions on related rows. The related rows are read first, and each condition becomes a list of
//! the values that the joining field may have, so that it is evaluated in reads, counts and deletes
//! alike, by every server. `$lookup` is a stage of pipelines: deletes cannot use it, and FerretDB
//! lacks it.
//!
//! In a transaction, related rows and rows are of one moment.

use std::pin::Pin;
use std::sync::Arc;

use marmota_model::{
    Comparison, Error, ErrorKind, FieldSet, FilterExpr, Quantifier, RelatedFilter, Result, Value,
    ValueRef,
};
use marmota_store::predicate::Condition;
use marmota_store::related_values::{JoiningValues, condition, only_key};

use crate::database::{Database, Find, each_document};
use crate::fault;
use crate::filter::matching;
use crate::shape::{Lender, OrderPart, Shape};
use crate::shared::Shared;

/// The most bytes of all lists of a filter. The server refuses commands of more than 16 MB.
const LISTS_BYTES_MAX: usize = 8 << 20;
/// The bytes of a value in a list, in addition to its content.
const VALUE_BYTES: usize = 16;

/// Returns a filter without conditions on related rows.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if a condition selects too many rows, and the errors of reads.
pub(crate) async fn resolved(
    shared: &Shared,
    database: &Database,
    shape: &Arc<Shape>,
    filter: &FilterExpr,
) -> Result<FilterExpr> {
    Lists { shared, database, left: LISTS_BYTES_MAX }.replace(shape, filter).await
}

/// Makes the lists of a filter.
struct Lists<'d> {
    shared: &'d Shared,
    database: &'d Database,
    /// The number of bytes that further values may have.
    left: usize,
}

/// The rows that a filter can select, as far as this is known.
enum Candidates {
    Any,
    /// A row with this key.
    Key(Value),
    /// This row.
    Row(Vec<Value>),
    None,
}

impl Lists<'_> {
    /// Returns the filter with a list in place of each condition.
    fn replace<'a>(
        &'a mut self,
        shape: &'a Arc<Shape>,
        filter: &'a FilterExpr,
    ) -> Pin<Box<dyn Future<Output = Result<FilterExpr>> + Send + 'a>> {
        Box::pin(async move {
            let mut conditions = Vec::new();
            filter.replace_related(&shape.table, &mut |_, related| {
                conditions.push(related.clone());
                Ok(FilterExpr::ALL)
            })?;
            let candidates = match conditions.is_empty() {
                true => return Ok(filter.clone()),
                false => self.candidates(shape, filter, &conditions).await?,
            };
            let mut lists = Vec::with_capacity(conditions.len());
            for related in &conditions {
                lists.push(self.list(shape, related, &candidates).await?);
            }
            let mut lists = lists.into_iter();
            filter.replace_related(&shape.table, &mut |_, _| {
                lists.next().ok_or_else(fault::unexpected)
            })
        })
    }

    /// Returns the row to which a filter on a key is limited, so that only rows related to this row
    /// are read. Outside of a transaction its values may change before it is read again, except for
    /// the key.
    async fn candidates(
        &self,
        shape: &Arc<Shape>,
        filter: &FilterExpr,
        conditions: &[RelatedFilter],
    ) -> Result<Candidates> {
        let Some(key) = only_key(&shape.table, filter) else { return Ok(Candidates::Any) };
        if self.database.transaction().is_none() {
            // A key in another case would not be found in the related rows.
            return Ok(match shape.columns[shape.table.key()].order_part {
                Some(OrderPart::Written) => Candidates::Any,
                _ => Candidates::Key(key.clone()),
            });
        }
        let fields = conditions.iter().map(|related| related.step.local).collect::<FieldSet>();
        let find = Find {
            collection: shape.name().to_owned(),
            filter: shape.by_key(key.as_ref()),
            projection: shape.projection(fields),
            limit: Some(1),
            ..Find::default()
        };
        let found = self.database.fetch(&find).await?;
        let Some(document) = found.first() else { return Ok(Candidates::None) };
        let row = |row: &[ValueRef<'_>]| row.iter().map(ValueRef::to_value).collect();
        Lender::new(shape, fields).lend(document, row).map(Candidates::Row)
    }

    /// Returns the list for a condition on rows of `shape`.
    async fn list(
        &mut self,
        shape: &Arc<Shape>,
        related: &RelatedFilter,
        candidates: &Candidates,
    ) -> Result<FilterExpr> {
        let (table, step) = (&shape.table, &related.step);
        let only = match candidates {
            Candidates::Row(row) => Some(&row[step.local]),
            Candidates::Key(key) if step.local == table.key() => Some(key),
            Candidates::Key(_) | Candidates::Any => None,
            Candidates::None => Some(&Value::Null),
        };
        if only == Some(&Value::Null) {
            return Ok(condition(table, related, std::iter::empty()));
        }
        let joined = only.map(|value| FilterExpr::Compare {
            field: step.target,
            comparison: Comparison::Equal,
            value: value.clone(),
        });
        let filter = FilterExpr::And(joined.into_iter().chain([related.filter.clone()]).collect());
        let target = table.step_target(step)?;
        let target = self.shared.shape(&target)?;
        let filter = self.replace(&target, &filter).await?;
        // One row with the only value is enough.
        let limit = (only.is_some() && related.quantifier == Quantifier::Any).then_some(1);
        let fields = FieldSet::EMPTY.with(step.target);
        let (mut values, left) = (JoiningValues::default(), &mut self.left);
        each_selected(self.database, &target, Some(&filter), fields, limit, |row| {
            let value = row[step.target];
            let bytes = match value {
                ValueRef::Text(text) => text.len(),
                ValueRef::Blob(bytes) => bytes.len(),
                _ => size_of::<u128>(),
            };
            if values.add(value) {
                *left = left
                    .checked_sub(bytes + VALUE_BYTES)
                    .ok_or_else(|| too_many(shape, related))?;
            }
            Ok(())
        })
        .await?;
        Ok(values.condition(table, related))
    }
}

/// Calls `with` with each row that a filter without conditions on related rows selects; other fields
/// than `fields` may be absent. If the server evaluates the filter, at most `limit` rows are read.
///
/// # Errors
/// Those of `with`, and those of the read.
pub(crate) async fn each_selected(
    database: &Database,
    shape: &Arc<Shape>,
    filter: Option<&FilterExpr>,
    fields: FieldSet,
    limit: Option<i64>,
    mut with: impl FnMut(&[ValueRef<'_>]) -> Result<()>,
) -> Result<()> {
    let asked = matching(shape, filter);
    let filter = filter.filter(|_| !asked.exact);
    let read = filter.map_or(FieldSet::EMPTY, |filter| filter.fields(&shape.table)).union(fields);
    let find = Find {
        collection: shape.name().to_owned(),
        filter: asked.document,
        projection: shape.projection(read),
        limit: limit.filter(|_| asked.exact),
        ..Find::default()
    };
    let condition = filter.map(|filter| Condition::new(filter.clone(), &shape.table));
    let mut lender = Lender::new(shape, read);
    let mut batches = database.find(&find).await?;
    while let Some(batch) = batches.next().await? {
        let ready =
            condition.as_ref().map(|condition| condition.asked(&shape.table)).transpose()?;
        each_document(&batch, |document| {
            lender.lend(document, |row| {
                let is_selected = ready.as_ref().is_none_or(|ready| ready.selects(row));
                if is_selected { with(row) } else { Ok(()) }
            })?
        })?;
    }
    Ok(())
}

#[cold]
fn too_many(shape: &Shape, related: &RelatedFilter) -> Error {
    let message = format!(
        "the condition on rows of `{}` in a filter of `{}` selects too many of them: on MongoDB, the \
         values that join the tables may have {} MB in a filter; narrow the condition, or list the \
         related rows first",
        related.step.table,
        shape.name(),
        LISTS_BYTES_MAX >> 20
    );
    Error::new(ErrorKind::Unsupported, message)
}
