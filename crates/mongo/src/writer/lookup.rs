//! Look-ups before and after writes: rows with the same unique values, referenced rows, and rows
//! that refer to a deleted one.

use std::collections::HashSet;
use std::sync::Arc;

use marmota_model::rule::violation;
use marmota_model::{Error, ErrorKind, Kind, Result, Value, ValueRef};
use marmota_store::refusal::still_referred_to;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use super::{Writer, borrowed};
use crate::database::Find;
use crate::filter::whole;
use crate::refusal::taken;
use crate::shape::{OrderPart, Shape};

/// The most rows that one command looks for duplicates of.
const CONDITIONS_MAX: usize = 100;

/// Returns true if a write of these values refers to other rows.
pub(crate) fn refers(shape: &Shape, row: &[ValueRef<'_>]) -> bool {
    references(shape, row).next().is_some()
}

/// Returns true if a unique index contains one of the fields that a row writes.
pub(crate) fn is_unique_of(shape: &Shape, row: &[ValueRef<'_>]) -> bool {
    let indexes = shape.table.indexes();
    let mut fields = indexes.iter().filter(|index| index.unique).flat_map(|index| &*index.fields);
    fields.any(|&field| !row[field].is_absent())
}

/// Returns the fields of a row that refer to a row, with the referenced table.
pub(crate) fn references<'s>(
    shape: &'s Shape,
    row: &'s [ValueRef<'s>],
) -> impl Iterator<Item = (usize, &'s str, ValueRef<'s>)> {
    shape.table.fields().iter().zip(row).enumerate().filter_map(|(at, (field, value))| match &field
        .kind
    {
        Kind::Reference { table, .. } if !value.is_null() && !value.is_absent() => {
            Some((at, &**table, *value))
        }
        _ => None,
    })
}

/// Returns the error for references to missing rows.
#[cold]
pub(crate) fn no_targets(shape: &Shape, row: &[ValueRef<'_>], missing: &[usize]) -> Error {
    let violations = missing.iter().filter_map(|&at| {
        let field = &shape.table.fields()[at];
        let Kind::Reference { table, .. } = &field.kind else { return None };
        let message = format!("there is no `{table}` with this key");
        Some(violation(field, row[at], "reference", message))
    });
    Error::invalid(violations.collect())
}

impl Writer {
    /// Returns the rows that a row conflicts with, except the one with the key `own`: first by the
    /// key, then in the order of the unique indexes.
    pub(crate) async fn in_the_way(
        &self,
        shape: &Shape,
        row: &[ValueRef<'_>],
        own: Option<ValueRef<'_>>,
    ) -> Result<Vec<RawDocumentBuf>> {
        let mut found: Vec<RawDocumentBuf> = Vec::new();
        for fields in unique_sets(shape) {
            let Some(filter) = same(shape, &fields, row) else { continue };
            let find = Find { collection: shape.name().to_owned(), filter, ..Find::default() };
            for document in self.database().fetch(&find).await? {
                let key = shape.key_of(&document);
                let is_own =
                    own.is_some_and(|own| key.as_ref().is_some_and(|key| key.as_ref() == own));
                if !is_own && found.iter().all(|other| shape.key_of(other) != key) {
                    found.push(document);
                }
            }
        }
        Ok(found)
    }

    /// Refuses values that exist in a unique index, in a row other than the one with the key `own`.
    pub(crate) async fn check_free(
        &self,
        shape: &Shape,
        row: &[ValueRef<'_>],
        own: Option<ValueRef<'_>>,
    ) -> Result<()> {
        let merged;
        let row = match own {
            None => row,
            // An index may contain a field that is not written.
            Some(key) => {
                let Some(there) = self.row(shape, key).await? else { return Ok(()) };
                let over = |(new, old): (&ValueRef<'_>, &Value)| match new {
                    ValueRef::Absent => old.clone(),
                    new => new.to_value(),
                };
                merged = row.iter().zip(&there).map(over).collect::<Vec<_>>();
                &borrowed(&merged)
            }
        };
        for fields in unique_sets(shape) {
            let Some(mut filter) = same(shape, &fields, row) else { continue };
            if let Some(own) = own {
                filter = doc! { "$and": [filter, { "_id": { "$ne": shape.key(own) } }] };
            }
            if self.database().has(shape.name(), filter).await? {
                return Err(taken(&shape.table, &fields, row));
            }
        }
        Ok(())
    }

    /// Returns the error for a row after the server reported a duplicate value.
    pub(crate) async fn collision(
        &self,
        shape: &Shape,
        row: &[ValueRef<'_>],
        own: Option<ValueRef<'_>>,
    ) -> Result<Error> {
        Ok(match self.check_free(shape, row, own).await {
            Err(error) => error,
            Ok(()) => {
                let message = format!(
                    "another row of `{}` had a value that must be unique, and may have been \
                     deleted since",
                    shape.name()
                );
                Error::new(ErrorKind::Conflict, message)
            }
        })
    }

    /// Like [`Self::check_free`], but separates the refusal from other errors.
    pub(crate) async fn refusal(
        &self,
        shape: &Shape,
        row: &[ValueRef<'_>],
        own: Option<ValueRef<'_>>,
    ) -> Result<Option<Error>> {
        match self.check_free(shape, row, own).await {
            Ok(()) => Ok(None),
            Err(error) if error.kind() == ErrorKind::Conflict && !error.is_retryable() => {
                Ok(Some(error))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the first of these new rows with a unique value that exists, in the table or in a
    /// row before it.
    pub(crate) async fn first_taken(
        &self,
        shape: &Shape,
        rows: &[Vec<Value>],
    ) -> Result<Option<(usize, Error)>> {
        let sets = unique_sets(shape);
        let mut seen: HashSet<(usize, String)> = HashSet::new();
        for (part, some) in rows.chunks(CONDITIONS_MAX).enumerate() {
            let first = part * CONDITIONS_MAX;
            let (mut sought, mut again) = (Vec::new(), None);
            for (place, row) in some.iter().enumerate() {
                let row = borrowed(row);
                for (number, fields) in sets.iter().enumerate() {
                    let Some(filter) = same(shape, fields, &row) else { continue };
                    if !seen.insert((number, filter.to_string())) {
                        again.get_or_insert_with(|| (place, taken(&shape.table, fields, &row)));
                    }
                    sought.push(filter);
                }
            }
            let any = doc! { "$or": sought };
            let is_any = self.database().has(shape.name(), any).await?;
            let end = again.as_ref().map_or(some.len(), |(place, _)| *place);
            for (place, row) in some[..end].iter().enumerate().filter(|_| is_any) {
                if let Some(error) = self.refusal(shape, &borrowed(row), None).await? {
                    return Ok(Some((first + place, error)));
                }
            }
            if let Some((place, error)) = again {
                return Ok(Some((first + place, error)));
            }
        }
        Ok(None)
    }

    /// Returns the fields of a row that refer to a missing row or to one that is being deleted.
    pub(crate) async fn missing_targets(
        &self,
        shape: &Shape,
        row: &[ValueRef<'_>],
        going: &[&Value],
    ) -> Result<Vec<usize>> {
        let mut missing = Vec::new();
        for (at, to, value) in references(shape, row) {
            let is_own_kind = to == shape.name();
            if is_own_kind && row[shape.table.key()] == value {
                continue;
            }
            let goes = is_own_kind && going.iter().any(|key| key.as_ref() == value);
            let target = self.shared.named(to).map(|to| to.by_key(value));
            let is_there = match target {
                // Other clients must not delete it before the transaction ends.
                Some(filter) if !goes && self.reads_before_write() => {
                    self.database().hold(to, filter).await?
                }
                Some(filter) if !goes => self.database().has(to, filter).await?,
                _ => false,
            };
            if !is_there {
                missing.push(at);
            }
        }
        Ok(missing)
    }

    /// Refuses if a row refers to one with one of these keys, except rows of the same table with a
    /// `spared` key.
    pub(crate) async fn check_referrers(
        &self,
        shape: &Shape,
        keys: &[Bson],
        spared: &[Bson],
        key: Option<ValueRef<'_>>,
    ) -> Result<()> {
        for (by, at) in self.shared.referrers(shape.name()) {
            let name = by.columns[at].name.to_string();
            let mut filter = match shape.columns[shape.table.key()].order_part {
                // A case-insensitive key may be referred to in any case.
                Some(_) => {
                    let texts = keys.iter().filter_map(Bson::as_str);
                    let same = texts.map(|key| doc! { &name: { "$regex": whole(key) } });
                    doc! { "$or": same.collect::<Vec<_>>() }
                }
                None => doc! { name: { "$in": keys } },
            };
            if by.name() == shape.name() {
                filter.insert("_id", doc! { "$nin": spared });
            }
            if self.database().has(by.name(), filter).await? {
                return Err(still_referred_to(&shape.table, key, &[(Arc::clone(&by.table), at)]));
            }
        }
        Ok(())
    }
}

/// Returns the key, and the fields of each unique index.
pub(crate) fn unique_sets(shape: &Shape) -> Vec<Vec<usize>> {
    let indexes = shape.table.indexes();
    let unique = indexes.iter().filter(|index| index.unique).map(|index| index.fields.to_vec());
    // The fields of a composite key have an index of their own.
    let key = (!shape.table.has_composite_key()).then(|| vec![shape.table.key()]);
    key.into_iter().chain(unique).collect()
}

/// Returns the query for documents with a row's values in these fields, or `None` if a value is
/// missing.
fn same(shape: &Shape, fields: &[usize], row: &[ValueRef<'_>]) -> Option<Document> {
    let mut parts = Vec::new();
    for &field in fields {
        let (column, value) = (&shape.columns[field], row[field]);
        if value.is_null() || value.is_absent() {
            return None;
        }
        if column.order_part != Some(OrderPart::Folded) {
            parts.push(doc! { column.name.as_str(): column.bson(value) });
        }
        if matches!(column.order_part, Some(OrderPart::Folded | OrderPart::Micros)) {
            parts
                .push(doc! { column.order_path(): column.order_part(value).unwrap_or(Bson::Null) });
        }
    }
    match parts.len() {
        1 => parts.pop(),
        _ => Some(doc! { "$and": parts }),
    }
}
