//! `{"$result":0}` in an operation of a batch: the key of the row that an earlier operation
//! inserts.
//!
//! ```text
//! {"operations":[
//!   {"insert":"city","row":{"name":"Bourges"}},
//!   {"insert":"person","row":{"name":"Ada","city":{"$result":0}}},
//!   {"increment":"city","key":{"$result":0},"field":"people","by":1}]}
//! ```
//!
//! A value may be an object of this form where a row has a reference, and where an operation has a
//! `key`. It must name an earlier insert into the table that the reference or the operation is for.
//!
//! The row of an operation is parsed first. The object is not a valid key, so it is among the
//! violations of the row, with its text. [`Linked::take`] removes the violation and sets a
//! placeholder of the key's type, with which the row's rules can be checked. The engine replaces
//! the placeholder when the insert is executed ([`Link`]).
//!
//! In a batch in lines the operations are executed in chunks. The keys of earlier chunks are known,
//! and are written into the row directly. Only the last 1,000 are kept, so that memory does not
//! grow with the body.

use std::collections::VecDeque;
use std::sync::Arc;

use marmota_model::rule::violation;
use marmota_model::{Error, Kind, Scratch, Table, Value, ValueRef, Violation};
use marmota_store::operation::{Link, LinkAt, Write};
use marmota_web::{ApiError, ApiResult};
use serde::Deserialize;

use crate::batches::line_chunks::CHUNK_LINES;

/// A reference to the result of an operation, by its index in the batch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    #[serde(rename = "$result")]
    operation: usize,
}

/// Returns the index of the operation that a value refers to; `None` for any other JSON.
pub(crate) fn operation_of(json: &str) -> Option<usize> {
    serde_json::from_str(json).ok().map(|Named { operation }| operation)
}

/// The number of operations before the current one that can be referred to across chunks.
const EARLIER_MAX: usize = CHUNK_LINES;

/// The operations of a batch so far, and the links between them. For a batch in lines: those of the
/// chunk, and the keys of the last operations before it.
#[derive(Debug, Default)]
pub(crate) struct Linked {
    /// The writes of the operations that were not refused, in order.
    pub(crate) writes: Vec<Write>,
    /// The links between these writes.
    pub(crate) links: Vec<Link>,
    /// For each operation the index of its write; `None` if it was refused.
    places: Vec<Option<usize>>,
    /// The index of the first of these operations.
    first: usize,
    /// The results of the last operations before that one.
    earlier: VecDeque<Earlier>,
}

/// The result of an operation of an earlier chunk.
///
/// The table is kept to check that a reference is to a row of the right table.
#[derive(Debug)]
enum Earlier {
    /// The operation is not an insert, or was refused.
    Nothing,
    /// An insert into this table; it has failed if it has no key.
    Insert(Arc<Table>, Option<Value>),
}

/// The key of an earlier operation, for use in a later one.
pub(crate) enum Made<'l> {
    /// Known when the batch is executed.
    Then(Link),
    /// Known from an earlier chunk.
    Identity(&'l Value),
}

impl Linked {
    /// Adds an operation's write and its links, or `None` if it was refused.
    pub(crate) fn add(&mut self, write: Option<(Write, Vec<Link>)>) {
        let place = self.writes.len();
        self.places.push(write.is_some().then_some(place));
        if let Some((write, links)) = write {
            self.writes.push(write);
            self.links.extend(links);
        }
    }

    /// Starts the next chunk. `key` returns the key of the row inserted by an operation of the
    /// current chunk, from the write, its index among the writes, and its index in the chunk;
    /// `None` if the insert failed.
    ///
    /// Indexes continue: the first operation of the new chunk has the number of all operations
    /// before it.
    pub(crate) fn next_chunk(&mut self, key: impl Fn(&Write, usize, usize) -> Option<Value>) {
        for (number, place) in self.places.iter().enumerate() {
            self.earlier.push_back(match place.map(|place| (place, &self.writes[place])) {
                Some((place, write @ Write::Insert { table, .. })) => {
                    Earlier::Insert(Arc::clone(table), key(write, place, number))
                }
                _ => Earlier::Nothing,
            });
        }
        self.first += self.places.len();
        let known = self.earlier.len().saturating_sub(EARLIER_MAX);
        self.earlier.drain(..known);
        self.forget_chunk();
    }

    /// Removes the operations of the current chunk, which is then filled again with the same
    /// indexes.
    pub(crate) fn forget_chunk(&mut self) {
        self.writes.clear();
        self.links.clear();
        self.places.clear();
    }

    /// Returns the key of an earlier operation for the next one, in which it is used at `at`: a
    /// field of `table`, or the key of one of its rows.
    ///
    /// # Errors
    /// - 400 if that operation is later, was refused, is too far back, or inserted no row.
    /// - 400 or 422 if it does not insert a row of the table that `at` requires.
    pub(crate) fn made(&self, table: &Table, at: LinkAt, operation: usize) -> ApiResult<Made<'_>> {
        let refused = |why: &str| {
            Err(ApiError::bad_request(format!(
                "the operation refers to operation {operation}, \
                                               which {why}"
            )))
        };
        let name = format!("operation {operation}");
        let Some(number) = operation.checked_sub(self.first) else {
            // Computed from the operations, so that the result does not depend on chunk boundaries.
            let back = self.first + self.places.len() - operation;
            let place = (self.earlier.len() + operation).checked_sub(self.first);
            let known = place.filter(|_| back <= EARLIER_MAX).map(|place| &self.earlier[place]);
            return match known {
                None => refused(
                    "is too far back: only the previous 1,000 operations can be \
                                 referred to",
                ),
                Some(Earlier::Nothing) => refused("is not an insert, or was refused"),
                Some(Earlier::Insert(made, key)) => {
                    at.check(table, Some(made), &name)?;
                    key.as_ref().map_or_else(
                        || refused("did not insert a row"),
                        |key| Ok(Made::Identity(key)),
                    )
                }
            };
        };
        let place = match self.places.get(number) {
            Some(Some(place)) => *place,
            Some(None) => return refused("was refused"),
            None => return refused("does not come before"),
        };
        let made = match &self.writes[place] {
            Write::Insert { table, .. } => Some(&**table),
            _ => None,
        };
        at.check(table, made, &name)?;
        Ok(Made::Then(Link { write: self.writes.len(), at, result: place }))
    }

    /// Resolves the references to earlier operations in a row. Their violations are removed, and
    /// the row gets the key or, if that is not known yet, a placeholder of the right type. For a
    /// reference to a composite key, these are the fields that it is computed of.
    ///
    /// Returns the links of the placeholders, for [`Linked::add`].
    pub(crate) fn take<'l>(
        &'l self,
        table: &'l Table,
        row: &mut [ValueRef<'l>],
        scratch: &'l Scratch,
        violations: &mut Vec<Violation>,
    ) -> ApiResult<Vec<Link>> {
        let mut links = Vec::new();
        for (position, field) in table.fields().iter().enumerate() {
            let Kind::Reference { .. } = &field.kind else { continue };
            let named = violations.iter().position(|found| found.field == field.name);
            let Some(at) = named else { continue };
            let Some(operation) = operation_of(&violations[at].value) else { continue };
            let made = self.made(table, LinkAt::Field(position), operation)?;
            violations.remove(at);
            let others = table.reference_fields(position).into_iter().filter(|&at| at != position);
            if let Some(part) = others.into_iter().find(|&at| !row[at].is_absent()) {
                let message = format!("is set by the reference `{}`: leave it out", field.name);
                let broken = violation(&table.fields()[part], row[part], "reference", message);
                return Err(Error::invalid(vec![broken]).into());
            }
            match made {
                Made::Identity(key) => put_key(table, position, key.as_ref(), row, scratch),
                Made::Then(link) => {
                    link.at.reserve(table, |field, value| row[field] = value);
                    links.push(link);
                }
            }
        }
        Ok(links)
    }
}

/// Writes a key to the field of a reference, or to the fields that the reference is computed of.
fn put_key<'a>(
    table: &Table,
    position: usize,
    key: ValueRef<'a>,
    row: &mut [ValueRef<'a>],
    scratch: &'a Scratch,
) {
    let fields = table.reference_fields(position);
    if fields == [position] {
        row[position] = key;
        return;
    }
    for (part, value) in fields.into_iter().zip(table.reference_values(position, key)) {
        row[part] = match value {
            Value::Text(text) => ValueRef::Text(scratch.text(&text)),
            Value::Int(number) => ValueRef::Int(number),
            Value::Uuid(uuid) => ValueRef::Uuid(uuid),
            Value::Date(day) => ValueRef::Date(day),
            _ => ValueRef::Null,
        };
    }
}
