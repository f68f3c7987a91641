//! `{"$result":0}` in an operation of a batch: the key of the row that an
//! earlier one makes.

use marmota_model::{KeyKind, Kind, Table, Uuid, ValueRef, Violation};
use marmota_store::operation::{Link, LinkAt, Write};
use serde::Deserialize;

use crate::problem::{ApiError, Result};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Made {
    #[serde(rename = "$result")]
    operation: usize,
}

/// The number of the operation that a value names.
pub(crate) fn operation_of(json: &str) -> Option<usize> {
    serde_json::from_str(json).ok().map(|Made { operation }| operation)
}

/// The operations of a batch so far, and the links between them.
#[derive(Debug, Default)]
pub(crate) struct Linked {
    pub(crate) writes: Vec<Write>,
    pub(crate) links: Vec<Link>,
    /// Of each operation the place of its write; none if it was refused.
    places: Vec<Option<usize>>,
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

    /// The link of the next operation to that one.
    ///
    /// # Errors
    /// 422 if that one comes later, was refused, or makes no row that fits.
    pub(crate) fn link(&self, table: &Table, at: LinkAt, operation: usize) -> Result<Link> {
        let place = match self.places.get(operation) {
            Some(Some(place)) => *place,
            Some(None) => {
                let message = format!("operation {operation}, which it refers to, was refused");
                return Err(ApiError::bad_request(message));
            }
            None => {
                let message =
                    format!("it refers to operation {operation}, which does not come before it");
                return Err(ApiError::bad_request(message));
            }
        };
        let link = Link { write: self.writes.len(), at, result: place };
        link.check(table, &self.writes)?;
        Ok(link)
    }

    /// Takes the references to earlier operations out of what was refused of a
    /// row, and puts something in their places that is of the right type.
    ///
    /// # Errors
    /// As [`Self::link`].
    pub(crate) fn take(
        &self,
        table: &Table,
        row: &mut [ValueRef<'_>],
        violations: &mut Vec<Violation>,
    ) -> Result<Vec<Link>> {
        let mut links = Vec::new();
        for (position, field) in table.fields().iter().enumerate() {
            let Kind::Reference { key, .. } = &field.kind else { continue };
            let named = violations.iter().position(|found| found.field == field.name);
            let Some(at) = named else { continue };
            let Some(operation) = operation_of(&violations[at].value) else { continue };
            links.push(self.link(table, LinkAt::Field(position), operation)?);
            violations.remove(at);
            row[position] = match key {
                KeyKind::Auto => ValueRef::Int(1),
                KeyKind::Uuid => ValueRef::Uuid(Uuid::nil()),
                KeyKind::Text => ValueRef::Text("?"),
            };
        }
        Ok(links)
    }
}
