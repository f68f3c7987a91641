//! Links: values of a batch's writes that come from its earlier writes.
//!
//! A link is stored next to the writes, not in them, so that only a write with a link is copied
//! when it is executed ([`resolve_links`]). Reason and alternatives: `docs/design/005-batches.md`.

use marmota_model::rule::violation;
use marmota_model::{Error, ErrorKind, Kind, Result, Table, Value, ValueRef};

use super::outcome::{Keys, Outcome};
use super::write::Write;

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
    /// The value of the field with this index, which refers to the insert's table.
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
                if table.key_fields().contains(&position) {
                    let message = "is a field of the key, which is known before the batch is \
                                   executed: insert the row in another batch, or in a transaction";
                    let one = violation(field, ValueRef::Null, "reference", message);
                    return Err(Error::invalid(vec![one]));
                }
                if table.is_made(position) {
                    let message = "is computed of other fields: give these their values";
                    let one = violation(field, ValueRef::Null, "reference", message);
                    return Err(Error::invalid(vec![one]));
                }
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
/// [`ErrorKind::Invalid`] if one of the inserts has failed.
pub fn resolve_links(
    write: &Write,
    links: &[Link],
    writes: &[Write],
    results: &[Result<Outcome>],
) -> Result<Write> {
    let mut write = write.clone();
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
        write.put(link.at, made.clone());
    }
    Ok(write)
}

impl Write {
    /// Writes a key to its place. A place that the write does not have is ignored: [`Link::check`]
    /// has refused such links before.
    fn put(&mut self, at: LinkAt, value: Value) {
        match (at, self.bare_mut()) {
            (
                LinkAt::Key,
                Self::Update { key, .. } | Self::Increment { key, .. } | Self::Delete { key, .. },
            ) => *key = value,
            (LinkAt::Field(field), Self::Insert { row, .. } | Self::Update { row, .. }) => {
                if let Some(place) = row.get_mut(field) {
                    *place = value;
                }
            }
            _ => {}
        }
    }
}
