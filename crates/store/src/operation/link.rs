//! Values of a batch's writes that its earlier writes make.

use marmota_model::rule::violation;
use marmota_model::{Error, ErrorKind, Kind, Result, Table, Value};

use super::{Keys, Outcome, Write};

/// A value of a write of a batch that is the key of the row that an earlier
/// insert of the batch has made or met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The place of the write that takes the key.
    pub write: usize,
    /// Where in it.
    pub at: LinkAt,
    /// The place of the insert.
    pub result: usize,
}

/// Where a write takes a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkAt {
    /// As the key of the row it writes to.
    Key,
    /// As the value of a field that refers to the insert's table.
    Field(usize),
}

impl Link {
    /// Checks a link from a write on `table`, before that write is added to
    /// those that come before it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a link to what comes later, to what is no
    /// insert, or to one of another table.
    pub fn check(&self, table: &Table, before: &[Write]) -> Result<()> {
        let Self { at, result, .. } = *self;
        let invalid = |message| Err(Error::new(ErrorKind::Invalid, message));
        let made = match before.get(result) {
            Some(Write::Insert { table, .. }) => table,
            Some(_) => return invalid(format!("write {result}, which it refers to, is no insert")),
            None => {
                return invalid(format!(
                    "it refers to write {result}, which does not come before it"
                ));
            }
        };
        match at {
            LinkAt::Key if table.name() == made.name() => Ok(()),
            LinkAt::Key => invalid(format!(
                "it writes to `{}`, and write {result}, which it refers to, inserts into `{}`",
                table.name(),
                made.name()
            )),
            LinkAt::Field(position) => {
                let field = &table.fields()[position];
                if matches!(&field.kind, Kind::Reference { table: to, .. } if to == made.name()) {
                    return Ok(());
                }
                let message =
                    format!("cannot refer to a row of `{}`, made by write {result}", made.name());
                let value = Value::Int(result as i64);
                Err(Error::invalid(vec![violation(field, value.as_ref(), "reference", message)]))
            }
        }
    }
}

/// The key of the row that an insert has made or met.
pub(crate) fn key_made<'o>(write: &'o Write, outcome: &'o Outcome) -> Option<&'o Value> {
    match (&outcome.keys, write) {
        (Keys::One(key), _) => Some(key),
        (Keys::Known, Write::Insert { table, row, .. }) => row.get(table.key()),
        (_, Write::Audited { write, .. }) => key_made(write, outcome),
        _ => None,
    }
}

/// The write with its links in it.
///
/// # Errors
/// [`ErrorKind::Invalid`] if one of the inserts has failed.
pub(super) fn resolve(
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
            let message = format!("write {}, which it refers to, made no row", link.result);
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        write.put(link.at, made.clone());
    }
    Ok(write)
}

impl Write {
    fn put(&mut self, at: LinkAt, value: Value) {
        match (at, self) {
            (at, Self::Audited { write, .. }) => write.put(at, value),
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
