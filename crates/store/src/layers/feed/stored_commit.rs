//! A commit as it is stored, and its decoding.

use std::sync::{Arc, OnceLock};

use marmota_model::binary::BinaryReader;
use marmota_model::{Error, ErrorKind, FieldSet, Kind, Result, Timestamp, Value, ValueRef};

use super::commit_rows::{integer, timestamp};
use super::schema::commit;
use super::shapes::{Shape, Shapes};
use crate::contract::change::buffer::{ACTOR, DELETE, ENGINE_ROWS, INSERT, UPDATE};
use crate::contract::change::{
    Change, ChangeKind, ChangedRows, Commit, EncodedRow, Position, RecordedRows,
};

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
            if let ([ENGINE_ROWS, ..], Some(rows)) = (reader.rest(), shapes.engine_rows()) {
                let (entry, rest) = rows.entry(reader.rest())?;
                let shape = shapes.get(entry.table).ok_or_else(|| unknown(entry.table))?;
                shape.add_changes(&**rows, &entry, &mut changes)?;
                reader = BinaryReader::new(rest);
                continue;
            }
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
    /// Adds the changes of rows in the encoding of an engine.
    fn add_changes(
        &self,
        rows: &dyn RecordedRows,
        entry: &ChangedRows<'_>,
        changes: &mut Vec<Change>,
    ) -> Result<()> {
        let Some(table) = self.table() else { return Ok(()) };
        let read = |row: &EncodedRow<'_>| -> Result<Vec<Value>> {
            if row.len() != self.fields() {
                return Err(damaged("a row has another number of fields than its table"));
            }
            let mut values = vec![Value::Absent; table.fields().len()];
            for (recorded, value) in row.iter().enumerate() {
                let Some(place) = self.place(recorded) else { continue };
                values[place] = match value {
                    _ if table.fields()[place].kind == Kind::Blob => Value::Absent,
                    None => Value::Null,
                    Some(bytes) => rows.value(&table.fields()[place], bytes)?,
                };
            }
            Ok(values)
        };
        let all = FieldSet::first(self.fields());
        let mut add = |kind, before, after, changed| {
            let (changed, actor) = (self.places(changed), entry.actor.clone());
            changes.push(Change { table: Arc::clone(table), kind, before, after, changed, actor });
        };
        match entry.kind {
            ChangeKind::Insert => {
                for after in &entry.after {
                    add(ChangeKind::Insert, None, Some(read(after)?), all);
                }
            }
            ChangeKind::Delete => {
                for before in &entry.before {
                    add(ChangeKind::Delete, Some(read(before)?), None, all);
                }
            }
            ChangeKind::Update => {
                if entry.before.len() != entry.after.len() {
                    return Err(damaged("an update has other rows before than after"));
                }
                let key = table.key();
                for (before, after) in entry.before.iter().zip(&entry.after) {
                    let differs = |place: &usize| before.get(*place) != after.get(*place);
                    let changed: FieldSet = (0..before.len()).filter(differs).collect();
                    if changed.is_empty() {
                        continue;
                    }
                    let (before, after) = (read(before)?, read(after)?);
                    if before[key] == after[key] {
                        add(ChangeKind::Update, Some(before), Some(after), changed);
                    } else {
                        // Only raw SQL changes a key.
                        add(ChangeKind::Delete, Some(before), None, all);
                        add(ChangeKind::Insert, None, Some(after), all);
                    }
                }
            }
        }
        Ok(())
    }

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

#[cfg(test)]
mod tests {
    use marmota_model::{Field, Kind, Role, Schema, Table};
    use proptest::prelude::*;

    use super::*;
    use crate::contract::change::{ChangeBuffer, RecordedTable};
    use crate::layers::feed::shapes::fields_of;

    fn table(fields: &[(&'static str, Kind)]) -> Arc<Table> {
        let fields =
            fields.iter().map(|(name, kind)| Field::new(name, kind.clone()).nullable(true));
        let key = Field::new("id", Kind::I64).role(Role::Key);
        let fields = std::iter::once(key).chain(fields).collect();
        Arc::new(Table::new(Schema::new("city", fields)).unwrap())
    }

    fn shapes(recorded: &Table, now: &Arc<Table>) -> Shapes {
        let shapes = Shapes::default();
        shapes.add(3, Shape::new(&fields_of(recorded), Some(now)));
        shapes
    }

    fn decoded(buffer: &mut ChangeBuffer, shapes: &Shapes) -> Result<Vec<Change>> {
        let commit = StoredCommit::new(1, Timestamp::now(), buffer.take());
        commit.decode(9, shapes).map(|commit| commit.changes.clone())
    }

    #[test]
    fn marks_bring_back_changes_and_actors() {
        let city = table(&[("name", Kind::TEXT)]);
        let known = RecordedTable::new(3, Arc::clone(&city));
        let mut buffer = ChangeBuffer::default();
        let row = |id| [ValueRef::Int(id), ValueRef::Text("Bourges")];
        buffer.set_actor(Some(&Arc::from("ann")));
        buffer.inserted(&known, &row(1));
        let mark = buffer.mark();
        buffer.set_actor(None);
        buffer.inserted(&known, &row(2));
        buffer.undo_to(&mark);
        buffer.deleted(&known, &row(3));
        // Equal values are no change.
        buffer.updated(&known, &row(4), &row(4));
        assert_eq!(buffer.changes(), 2);
        let changes = decoded(&mut buffer, &shapes(&city, &city)).unwrap();
        let told: Vec<_> =
            changes.iter().map(|change| (change.key().clone(), change.actor.as_deref())).collect();
        assert_eq!(told, [(Value::Int(1), Some("ann")), (Value::Int(3), None)]);
        assert!(buffer.is_empty());
    }

    #[test]
    fn changes_of_earlier_fields_are_decoded_into_those_of_now() {
        let before = table(&[("name", Kind::TEXT), ("people", Kind::I64), ("area", Kind::I64)]);
        let now = table(&[("area", Kind::Float), ("people", Kind::I64), ("mayor", Kind::TEXT)]);
        let known = RecordedTable::new(3, Arc::clone(&before));
        let mut buffer = ChangeBuffer::default();
        let row = |people| {
            [ValueRef::Int(1), ValueRef::Text("x"), ValueRef::Int(people), ValueRef::Int(5)]
        };
        buffer.updated(&known, &row(1), &row(2));
        let changes = decoded(&mut buffer, &shapes(&before, &now)).unwrap();
        // `area` has another form now, so its values cannot be used.
        let after = [Value::Int(1), Value::Absent, Value::Int(2), Value::Absent];
        assert_eq!(changes[0].after.as_deref(), Some(&after[..]));
        assert_eq!(changes[0].changed.iter().collect::<Vec<_>>(), [2]);
        let gone = Shapes::default();
        gone.add(3, Shape::new(&fields_of(&before), None));
        buffer.deleted(&known, &row(1));
        assert!(decoded(&mut buffer, &gone).unwrap().is_empty(), "the table is gone");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let city = table(&[("name", Kind::TEXT)]);
            let commit = StoredCommit::new(1, Timestamp::now(), bytes);
            let _ = commit.decode(9, &shapes(&city, &city));
        }
    }
}
