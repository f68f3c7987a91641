//! Links: values of a batch's writes that come from its earlier writes.
//!
//! A link is stored next to the writes, not in them, so that only a write with a link is copied
//! when it is executed ([`resolve_links`]). Reason and alternatives: `docs/design/005-batches.md`.

use marmota_model::rule::violation;
use marmota_model::{
    Error, ErrorKind, KeyKind, Kind, Result, Table, Uuid, Value, ValueRef, Violation,
};

use super::outcome::{Keys, Outcome};
use super::write::Write;
use crate::rows::prepare;

/// A value of a write of a batch: the key of the row that an earlier insert of the batch has made
/// or found.
///
/// Links are in the order of `write`, and refer to earlier writes only (`result < write`).
///
/// ```
/// use std::sync::Arc;
/// use marmota_model::{Field, Kind, Role, Schema, Table, Value};
/// use marmota_store::operation::{Link, LinkAt, Write};
///
/// let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
/// let table = Arc::new(Table::new(city)?);
/// let insert = Write::insert(Arc::clone(&table), vec![Value::Absent]);
/// // Write 1 deletes the row that write 0 has made.
/// let link = Link { write: 1, at: LinkAt::Key, result: 0 };
/// link.check(&table, &[insert])?;
/// assert!(Link { result: 5, ..link }.check(&table, &[]).is_err());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The place of the write that takes the key.
    pub write: usize,
    /// The place of the key in the write.
    pub at: LinkAt,
    /// The place of the insert.
    pub result: usize,
}

/// The place of a key in a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkAt {
    /// The key of the row that it writes to.
    Key,
    /// The value of the field with this index, which refers to the insert's table. If it is computed
    /// of other fields ([`Table::reference_fields`]), these get the values.
    Field(usize),
}

impl Link {
    /// Checks a link of a write on `table`; `before` has the writes before it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a link to a later write, to a write that is not an insert, or to
    /// an insert on another table.
    pub fn check(&self, table: &Table, before: &[Write]) -> Result<()> {
        let name = format!("write {}", self.result);
        let Some(write) = before.get(self.result) else {
            let message = format!("the write refers to {name}, which does not come before it");
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        let made = match write {
            Write::Insert { table, .. } => Some(&**table),
            _ => None,
        };
        self.at.check(table, made, &name)
    }
}

impl LinkAt {
    /// Checks that a write on `table` may take the key of a row of `made` here; `None` for a write
    /// that makes no row. `name` names that write in errors.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a write that makes no row, or one on another table.
    pub fn check(self, table: &Table, made: Option<&Table>, name: &str) -> Result<()> {
        let invalid = |message| Err(Error::new(ErrorKind::Invalid, message));
        let Some(made) = made else {
            return invalid(format!("the write refers to {name}, which is not an insert"));
        };
        match self {
            Self::Key if table.name() == made.name() => Ok(()),
            Self::Key => invalid(format!(
                "it writes to `{}`, but refers to {name}, which inserts into `{}`",
                table.name(),
                made.name()
            )),
            Self::Field(position) => {
                let field = &table.fields()[position];
                if matches!(&field.kind, Kind::Reference { table: to, .. } if to == made.name()) {
                    return Ok(());
                }
                let message =
                    format!("cannot refer to a row of `{}`, which {name} inserts", made.name());
                Err(Error::invalid(vec![violation(field, ValueRef::Null, "reference", message)]))
            }
        }
    }
}

impl LinkAt {
    /// Writes values of the right kinds to the fields that a link sets here, so that the row can be
    /// prepared before the key is known. `put` takes the position and the value of each.
    ///
    /// A composite key is made of the fields again, so one that the row has is removed.
    ///
    /// ```
    /// use marmota_model::{Field, KeyKind, Kind, Role, Schema, Table, ValueRef};
    /// use marmota_store::operation::LinkAt;
    ///
    /// let city = Kind::Reference { table: "city".into(), key: KeyKind::Auto };
    /// let street = Table::new(Schema::new("street", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("city", city),
    /// ]))?;
    /// let mut row = [ValueRef::Absent; 2];
    /// LinkAt::Field(1).reserve(&street, |field, value| row[field] = value);
    /// assert_eq!(row, [ValueRef::Absent, ValueRef::Int(1)]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn reserve<'t>(self, table: &'t Table, mut put: impl FnMut(usize, ValueRef<'t>)) {
        for field in self.fields(table) {
            if table.key_fields().contains(&field) {
                put(table.key(), ValueRef::Absent);
            }
            put(field, placeholder(&table.fields()[field].kind));
        }
    }

    /// Returns the fields that a link sets here; none for the key of a write, and for a field that
    /// the table does not have.
    fn fields(self, table: &Table) -> Vec<usize> {
        match self {
            Self::Field(field) if field < table.fields().len() => table.reference_fields(field),
            Self::Field(_) | Self::Key => Vec::new(),
        }
    }
}

/// Returns a value that a field of this kind may have.
fn placeholder(kind: &Kind) -> ValueRef<'_> {
    match kind {
        Kind::Reference { key: KeyKind::Uuid, .. } | Kind::Uuid => ValueRef::Uuid(Uuid::max()),
        Kind::Reference { key: KeyKind::Text, .. } | Kind::Text { .. } => ValueRef::Text("?"),
        Kind::Date => ValueRef::Date(marmota_model::Date::default()),
        Kind::Enum { variants, .. } => {
            ValueRef::Text(variants.first().map_or("", |variant| &variant.name))
        }
        Kind::Int { min, max } => ValueRef::Int(1.clamp(*min, *max)),
        _ => ValueRef::Int(1),
    }
}

/// Completes a row that was prepared with the placeholders of its links ([`LinkAt::reserve`]).
///
/// Violations of linked fields are removed: their values are checked by [`resolve_links`]. A composite
/// key that is made of placeholders becomes absent.
pub fn complete_linked(
    table: &Table,
    links: &[Link],
    row: &mut [ValueRef<'_>],
    violations: &mut Vec<Violation>,
) {
    for field in links.iter().flat_map(|link| link.at.fields(table)) {
        violations.retain(|broken| table.fields()[field].name != broken.field);
        if table.key_fields().contains(&field) {
            row[table.key()] = ValueRef::Absent;
        }
    }
}

/// Returns the key of the row that an insert has made or found.
///
/// `None` for a write that is not an insert of one row. If the row had its key already, the key is
/// that of the write; otherwise that of the outcome.
///
/// ```
/// use std::sync::Arc;
/// use marmota_model::{Field, Kind, Role, Schema, Table, Value};
/// use marmota_store::operation::{Keys, Outcome, Write, key_made};
///
/// let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
/// let table = Arc::new(Table::new(city)?);
/// let write = Write::insert(table, vec![Value::Absent]);
/// let outcome = Outcome { keys: Keys::One(Value::Int(4)), ..Outcome::rows(1) };
/// assert_eq!(key_made(&write, &outcome), Some(&Value::Int(4)));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[must_use]
pub fn key_made<'o>(write: &'o Write, outcome: &'o Outcome) -> Option<&'o Value> {
    match (&outcome.keys, write) {
        (Keys::One(key), _) => Some(key),
        (Keys::Known, Write::Insert { table, row, .. }) => row.get(table.key()),
        (
            _,
            Write::Cascading { write, .. }
            | Write::Audited { write, .. }
            | Write::Compared { write }
            | Write::Guarded { write, .. }
            | Write::Hooked { write, .. },
        ) => key_made(write, outcome),
        _ => None,
    }
}

/// Returns the write with its links replaced by keys.
///
/// `links` are those of this write; `writes` and `results` are those of the whole batch so far, by
/// place.
///
/// # Errors
/// [`ErrorKind::Invalid`] if one of the inserts has failed, if a value breaks a rule of its field,
/// or if two links set a field to different values.
pub fn resolve_links(
    write: &Write,
    links: &[Link],
    writes: &[Write],
    results: &[Result<Outcome>],
) -> Result<Write> {
    let mut write = write.clone();
    let mut keys = Vec::with_capacity(links.len());
    for link in links {
        let insert = writes.get(link.result);
        let made = match (insert, results.get(link.result)) {
            (Some(insert), Some(Ok(outcome))) => key_made(insert, outcome),
            _ => None,
        };
        let Some(made) = made else {
            let message = "the insert that it refers to did not insert a row";
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        write.put(link.at, made);
        keys.push(made);
    }
    write.check_linked(links, &keys)?;
    Ok(write)
}

/// Sets the key in the outcome of an insert whose key is made of the values of links: the batch as it
/// was given does not have it.
pub fn report_linked_key(given: &Write, executed: &Write, outcome: &mut Outcome) {
    if outcome.keys == Keys::Known
        && let (Write::Insert { row: given, .. }, Write::Insert { table, row, .. }) =
            (given.bare(), executed.bare())
        && given[table.key()] != row[table.key()]
    {
        outcome.keys = Keys::One(row[table.key()].clone());
    }
}

impl Write {
    /// Writes a key to its place. A place that the write does not have is ignored: [`Link::check`]
    /// has refused such links before.
    fn put(&mut self, at: LinkAt, made: &Value) {
        match (at, self.bare_mut()) {
            (
                LinkAt::Key,
                Self::Update { key, .. } | Self::Increment { key, .. } | Self::Delete { key, .. },
            ) => *key = made.clone(),
            (
                LinkAt::Field(field),
                Self::Insert { table, row, .. } | Self::Update { table, row, .. },
            ) => {
                let values = table.reference_values(field, made.as_ref());
                for (field, value) in at.fields(table).into_iter().zip(values) {
                    if let Some(place) = row.get_mut(field) {
                        *place = value;
                    }
                }
            }
            _ => {}
        }
    }

    /// Checks the fields that links have set, and makes the composite key of a new row again.
    fn check_linked(&mut self, links: &[Link], keys: &[&Value]) -> Result<()> {
        let is_insert = matches!(self.bare(), Self::Insert { .. });
        let (Self::Insert { table, row, .. } | Self::Update { table, row, .. }) = self.bare_mut()
        else {
            return Ok(());
        };
        let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        let mut linked = vec![ValueRef::Absent; values.len()];
        let mut violations = Vec::new();
        for (link, made) in links.iter().zip(keys) {
            let LinkAt::Field(field) = link.at else { continue };
            let columns = link.at.fields(table);
            let wanted = table.reference_values(field, made.as_ref());
            let mut both = columns.iter().zip(&wanted);
            let is_same = both.all(|(&column, wanted)| values[column] == wanted.as_ref());
            if !is_same {
                let message = "refers to a row whose key has other values than another reference of \
                               the row";
                let field = &table.fields()[field];
                violations.push(violation(field, made.as_ref(), "reference", message));
            }
            columns.iter().for_each(|&column| linked[column] = values[column]);
        }
        table.check(&linked, &mut violations);
        prepare::finish(violations)?;
        if is_insert && table.key_fields().iter().any(|&field| !linked[field].is_absent()) {
            let key = table.key_text_of(&values).map_or(Value::Absent, Value::Text);
            row[table.key()] = key;
        }
        Ok(())
    }
}
