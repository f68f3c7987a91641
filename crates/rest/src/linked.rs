//! `{"$result":0}` in an operation of a batch: the key of the row that an
//! earlier one makes.

use std::collections::VecDeque;
use std::sync::Arc;

use marmota_model::{KeyKind, Kind, Table, Uuid, Value, ValueRef, Violation};
use marmota_store::operation::{Link, LinkAt, Write};
use serde::Deserialize;

use crate::line_chunks::CHUNK_LINES;
use crate::problem::{ApiError, Result};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    #[serde(rename = "$result")]
    operation: usize,
}

/// The number of the operation that a value names.
pub(crate) fn operation_of(json: &str) -> Option<usize> {
    serde_json::from_str(json).ok().map(|Named { operation }| operation)
}

/// Operations of earlier chunks that can still be referred to.
const EARLIER_MAX: usize = CHUNK_LINES;

/// The operations of a batch so far, and the links between them; of a batch in lines those of
/// the chunk, and what the last ones before it made.
#[derive(Debug, Default)]
pub(crate) struct Linked {
    pub(crate) writes: Vec<Write>,
    pub(crate) links: Vec<Link>,
    /// Of each operation the place of its write; none if it was refused.
    places: Vec<Option<usize>>,
    /// The number of the first of them.
    first: usize,
    /// What the last operations before that made.
    earlier: VecDeque<Earlier>,
}

/// What an operation of an earlier chunk came to.
#[derive(Debug)]
enum Earlier {
    /// It is no insert, or was refused.
    Nothing,
    /// An insert into this table, which failed if it has no key.
    Insert(Arc<Table>, Option<Value>),
}

/// The key that an earlier operation makes.
pub(crate) enum Made<'l> {
    /// When the batch is carried out.
    Then(Link),
    /// In an earlier chunk.
    Identity(&'l Value),
}

impl Linked {
    /// Adds an operation's write and its links, or that it was refused.
    pub(crate) fn add(&mut self, write: Option<(Write, Vec<Link>)>) {
        let place = self.writes.len();
        self.places.push(write.is_some().then_some(place));
        if let Some((write, links)) = write {
            self.writes.push(write);
            self.links.extend(links);
        }
    }

    /// Begins the next chunk; `key` gives the key of the row that an insert of this one has
    /// made, from the write, its place among the writes, and its number in the chunk.
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

    /// Begins the chunk anew.
    pub(crate) fn forget_chunk(&mut self) {
        self.writes.clear();
        self.links.clear();
        self.places.clear();
    }

    /// The key that an earlier operation makes for the next one.
    ///
    /// # Errors
    /// 400 or 422 if that one comes later, was refused, lies too far back, or makes no row that
    /// fits.
    pub(crate) fn made(&self, table: &Table, at: LinkAt, operation: usize) -> Result<Made<'_>> {
        let refused = |why: &str| {
            Err(ApiError::bad_request(format!("it refers to operation {operation}, which {why}")))
        };
        let name = format!("operation {operation}");
        let Some(number) = operation.checked_sub(self.first) else {
            // Judged from the operation itself, so that it does not matter where chunks end.
            let back = self.first + self.places.len() - operation;
            let place = (self.earlier.len() + operation).checked_sub(self.first);
            let known = place.filter(|_| back <= EARLIER_MAX).map(|place| &self.earlier[place]);
            return match known {
                None => refused("lies too far back: the last 1,000 before it can be referred to"),
                Some(Earlier::Nothing) => refused("is no insert, or was refused"),
                Some(Earlier::Insert(made, key)) => {
                    at.check(table, Some(made), &name)?;
                    key.as_ref()
                        .map_or_else(|| refused("made no row"), |key| Ok(Made::Identity(key)))
                }
            };
        };
        let place = match self.places.get(number) {
            Some(Some(place)) => *place,
            Some(None) => return refused("was refused"),
            None => return refused("does not come before it"),
        };
        let made = match &self.writes[place] {
            Write::Insert { table, .. } => Some(&**table),
            _ => None,
        };
        at.check(table, made, &name)?;
        Ok(Made::Then(Link { write: self.writes.len(), at, result: place }))
    }

    /// Takes the references to earlier operations out of what was refused of a
    /// row, and puts something in their places that is of the right type.
    ///
    /// # Errors
    /// As [`Self::made`].
    pub(crate) fn take<'l>(
        &'l self,
        table: &Table,
        row: &mut [ValueRef<'l>],
        violations: &mut Vec<Violation>,
    ) -> Result<Vec<Link>> {
        let mut links = Vec::new();
        for (position, field) in table.fields().iter().enumerate() {
            let Kind::Reference { key, .. } = &field.kind else { continue };
            let named = violations.iter().position(|found| found.field == field.name);
            let Some(at) = named else { continue };
            let Some(operation) = operation_of(&violations[at].value) else { continue };
            let made = self.made(table, LinkAt::Field(position), operation)?;
            violations.remove(at);
            row[position] = match (made, key) {
                (Made::Identity(key), _) => key.as_ref(),
                (Made::Then(link), key) => {
                    links.push(link);
                    match key {
                        KeyKind::Auto => ValueRef::Int(1),
                        KeyKind::Uuid => ValueRef::Uuid(Uuid::nil()),
                        KeyKind::Text => ValueRef::Text("?"),
                    }
                }
            };
        }
        Ok(links)
    }
}
