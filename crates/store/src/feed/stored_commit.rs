//! A commit as it is stored, and its decoding.

use std::sync::{Arc, OnceLock};

use marmota_model::binary::BinaryReader;
use marmota_model::{Error, ErrorKind, FieldSet, Result, Timestamp, Value, ValueRef};

use super::opening::{integer, timestamp};
use super::schema::commit;
use super::shapes::{Shape, Shapes};
use crate::contract::change::buffer::{ACTOR, DELETE, INSERT, UPDATE};
use crate::contract::change::{Change, ChangeKind, Commit, Position};

/// A commit as it is stored. Its readers share one decoded form.
#[derive(Debug)]
pub(crate) struct StoredCommit {
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    changes: Vec<u8>,
    decoded: OnceLock<Arc<Commit>>,
}

impl StoredCommit {
    pub(crate) const fn new(number: u64, at: Timestamp, changes: Vec<u8>) -> Self {
        Self { number, at, changes, decoded: OnceLock::new() }
    }

    /// Reads a row of the table of commits.
    pub(crate) fn of_row(row: &[ValueRef<'_>]) -> Option<Self> {
        let number = integer(row[commit::NUMBER]);
        let at = timestamp(row[commit::AT])?;
        let ValueRef::Blob(changes) = row[commit::CHANGES] else { return None };
        Some(Self::new(number, at, changes.to_vec()))
    }

    /// Returns the approximate number of bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.changes.len()
    }

    /// Decodes the changes. Those of tables that the store no longer has are left out.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] for a row that is not encoded changes.
    pub(crate) fn decode(&self, feed: u64, shapes: &Shapes) -> Result<Arc<Commit>> {
        if let Some(commit) = self.decoded.get() {
            return Ok(Arc::clone(commit));
        }
        let changes = self.read(shapes).map_err(|error| {
            let message = format!("commit {} of the change feed is damaged", self.number);
            Error::new(ErrorKind::Engine, message).with_source(error)
        })?;
        let position = Position { feed, number: self.number };
        let commit = Arc::new(Commit { position, at: self.at, changes });
        Ok(Arc::clone(self.decoded.get_or_init(|| commit)))
    }

    fn read(&self, shapes: &Shapes) -> Result<Vec<Change>> {
        let mut reader = BinaryReader::new(&self.changes);
        let (mut changes, mut actor) = (Vec::new(), None);
        while !reader.rest().is_empty() {
            let kind = reader.u8()?;
            if kind == ACTOR {
                let name = reader.text()?;
                actor = (!name.is_empty()).then(|| Arc::from(name));
                continue;
            }
            let number = reader.unsigned()?;
            let shape = shapes.get(number).ok_or_else(|| unknown(number))?;
            let mut row = || -> Result<Vec<Value>> {
                (0..shape.fields()).map(|_| reader.value().map(|value| value.to_value())).collect()
            };
            let first = row()?;
            let change = match kind {
                INSERT => (ChangeKind::Insert, None, Some(first), FieldSet::first(shape.fields())),
                DELETE => (ChangeKind::Delete, Some(first), None, FieldSet::first(shape.fields())),
                UPDATE => {
                    let (after, changed) = updated(&mut reader, &first)?;
                    (ChangeKind::Update, Some(first), Some(after), changed)
                }
                _ => return Err(damaged("a change has an unknown kind")),
            };
            let (kind, before, after, changed) = change;
            changes.extend(shape.change(kind, before, after, changed, actor.clone()));
        }
        Ok(changes)
    }
}

/// Reads the changed fields of an update. Returns the row after it, and the fields.
fn updated(reader: &mut BinaryReader<'_>, before: &[Value]) -> Result<(Vec<Value>, FieldSet)> {
    let (mut after, mut changed) = (before.to_vec(), FieldSet::EMPTY);
    loop {
        let place = match reader.size()? {
            0 => return Ok((after, changed)),
            place => place - 1,
        };
        let value = after.get_mut(place).ok_or_else(|| damaged("an update has too many fields"))?;
        *value = reader.value()?.to_value();
        changed = changed.with(place);
    }
}

impl Shape {
    /// Makes a change of the table that the store has now, if it has it.
    fn change(
        &self,
        kind: ChangeKind,
        before: Option<Vec<Value>>,
        after: Option<Vec<Value>>,
        changed: FieldSet,
        actor: Option<Arc<str>>,
    ) -> Option<Change> {
        let table = Arc::clone(self.table()?);
        let (before, after) = (before.map(|row| self.row(row)), after.map(|row| self.row(row)));
        Some(Change { kind, before, after, changed: self.places(changed), actor, table })
    }
}

fn unknown(number: u64) -> Error {
    damaged(&format!("it names the table {number}, which the feed does not have"))
}

fn damaged(message: &str) -> Error {
    Error::new(ErrorKind::Engine, message)
}
