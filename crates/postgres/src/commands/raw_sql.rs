//! Raw SQL statements: described by the server once, found by their text afterwards, and checked
//! against their declared use.
//!
//! A statement declared as reading runs where the server itself prevents changes: on a connection
//! for reads, or in a transaction after SET TRANSACTION READ ONLY, which ends with the savepoint
//! around it. One declared as writing begins with INSERT, UPDATE, DELETE, MERGE or WITH. The server
//! accepts one statement at a time.

mod parameter;
mod placeholder;
mod value_reader;

use std::sync::Arc;

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, Kind, Result, RowSink, ValueRef};
use marmota_store::sql::text::{at_text, begins_with, first_word};
use marmota_store::sql::{SqlCall, SqlColumn, SqlColumns, SqlRefusal};
use parking_lot::Mutex;

use self::value_reader::Reading;
use crate::commands::command_batch::{CommandBatch, Role};
use crate::fault::{self, Failure};
use crate::statement::{Formats, Text};
use crate::wire::backend::{Oids, Row, RowDescription};

/// The most described statements per engine.
const KNOWN_MAX: usize = 256;
/// The most columns of a row.
const COLUMNS_MAX: usize = 256;

/// The described statements by their text.
#[derive(Debug, Default)]
pub(crate) struct Described(Mutex<HashMap<Box<str>, Arc<SqlText>>>);

/// A statement, with its parameters and columns.
#[derive(Debug)]
pub(crate) struct SqlText {
    text: Arc<Text>,
    /// The declared use.
    writes: bool,
    /// The types of its parameters.
    parameters: Box<[u32]>,
    columns: Arc<SqlColumns>,
    readings: Box<[Reading]>,
}

/// The server's description of a statement.
#[derive(Debug, Default)]
pub(crate) struct Description {
    parameters: Vec<u32>,
    columns: Vec<DescribedColumn>,
}

#[derive(Debug)]
struct DescribedColumn {
    name: String,
    /// The table and column of its values.
    origin: (u32, i16),
    oid: u32,
}

impl Description {
    /// Sets the types of the parameters.
    pub(crate) fn hear_parameters(&mut self, oids: Oids<'_>) {
        self.parameters = oids.collect();
    }

    /// Sets the columns.
    pub(crate) fn hear_columns(&mut self, columns: RowDescription<'_>) {
        self.columns = columns
            .map(|column| DescribedColumn {
                name: String::from_utf8_lossy(column.name).into_owned(),
                origin: (column.table, column.number),
                oid: column.oid,
            })
            .collect();
    }
}

impl Described {
    /// Returns the description of a statement with the same declared use.
    pub(crate) fn find(&self, call: &SqlCall<'_>) -> Option<Arc<SqlText>> {
        let is_same =
            |known: &&Arc<SqlText>| known.writes == call.writes && call.database.is_none();
        self.0.lock().get(call.text).filter(is_same).cloned()
    }

    fn insert(&self, text: &str, described: &Arc<SqlText>) {
        let mut known = self.0.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(text.into(), Arc::clone(described));
    }

    /// Stores the server's description of a statement; `kind_of` returns the kind of the field that
    /// a column of a table stores.
    pub(crate) fn keep(
        &self,
        call: &SqlCall<'_>,
        text: &Text,
        description: Description,
        mut kind_of: impl FnMut((u32, i16)) -> Option<Kind>,
    ) -> Result<Arc<SqlText>> {
        if description.columns.len() > COLUMNS_MAX {
            let message = format!(
                "the rows have {} columns; at most {COLUMNS_MAX} are allowed: select only the \
                 columns that you need",
                description.columns.len()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let parameters: Box<[u32]> = description.parameters.into();
        let mut readings = Vec::with_capacity(description.columns.len());
        let mut columns = Vec::with_capacity(description.columns.len());
        for DescribedColumn { name, origin, oid } in description.columns {
            let kind = kind_of(origin);
            readings.push(Reading::of(kind.as_ref(), oid));
            columns.push(SqlColumn { name, kind });
        }
        let formats = Formats {
            parameters: parameters.iter().map(|&oid| parameter::format(oid)).collect(),
            results: readings.iter().map(Reading::format).collect(),
        };
        let described = Arc::new(SqlText {
            text: Arc::new(text.with_formats(formats)),
            writes: call.writes,
            parameters,
            columns: Arc::new(SqlColumns::new(columns)),
            readings: readings.into(),
        });
        self.insert(call.text, &described);
        Ok(described)
    }

    /// Removes a statement whose tables have changed.
    pub(crate) fn forget(&self, text: &str) {
        self.0.lock().remove(text);
    }
}

/// Checks the declared use of a statement before the server receives it. Returns it with
/// PostgreSQL's parameter numbers.
pub(crate) fn announce(call: &SqlCall<'_>) -> Result<Arc<Text>> {
    const READS: &[&str] = &["SELECT", "VALUES", "WITH", "EXPLAIN", "TABLE"];
    const WRITES: &[&str] = &["INSERT", "UPDATE", "DELETE", "MERGE", "WITH"];
    let text = call.text;
    if let Some(name) = call.database {
        let message = format!(
            "there is no database `{name}`: this store has one database, which needs no \
                     name; leave the name out"
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    if text.contains('\0') {
        let message = "a statement cannot contain a NUL character, and PostgreSQL cannot store one \
                       in a text";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    if first_word(text).is_empty() && text.trim_start().is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "the text does not contain a statement"));
    }
    let refusal = match call.writes {
        false if begins_with(text, READS) => None,
        true if begins_with(text, WRITES) => None,
        false if begins_with(text, WRITES) => Some(SqlRefusal::ChangesRows),
        true if begins_with(text, READS) => Some(SqlRefusal::ChangesNothing),
        _ => {
            let word = first_word(text).to_owned();
            Some(SqlRefusal::OtherStatement { word, reads: READS, writes: WRITES })
        }
    };
    if let Some(refusal) = refusal {
        return Err(refusal.at(text));
    }
    Ok(Arc::new(Text::plain(&placeholder::numbered(text))))
}

impl SqlText {
    /// Returns the columns of its rows.
    pub(crate) fn columns(&self) -> &Arc<SqlColumns> {
        &self.columns
    }

    /// Adds its call with its values.
    pub(crate) fn call(&self, commands: &mut CommandBatch, call: &SqlCall<'_>) -> Result<()> {
        let wanted = self.parameters.len();
        if wanted != call.values.len() {
            let message = format!(
                "the statement has {wanted} parameters, but {} values were bound",
                call.values.len()
            );
            return Err(at_text(&Error::new(ErrorKind::Invalid, message), call.text));
        }
        commands.call(Role::Main(0), Arc::clone(&self.text), |out| {
            for (at, (oid, value)) in self.parameters.iter().zip(call.values).enumerate() {
                parameter::put(out, *oid, value.as_ref()).map_err(|parameter::ValueMismatch| {
                    let message = format!(
                        "the value {} of parameter {} does not have the type that PostgreSQL \
                         expects ({}): cast the parameter, or bind another value",
                        marmota_model::text::excerpt_of(value.as_ref()),
                        at + 1,
                        parameter::type_name(*oid)
                    );
                    at_text(&Error::new(ErrorKind::Invalid, message), call.text)
                })?;
            }
            Ok(wanted as u16)
        })
    }

    /// Passes one of its rows to the sink.
    pub(crate) fn lend(
        &self,
        row: Row<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<std::ops::ControlFlow<()>> {
        match self.readings.len() {
            0..=8 => self.lend_in::<8>(row, sink),
            9..=32 => self.lend_in::<32>(row, sink),
            _ => self.lend_in::<COLUMNS_MAX>(row, sink),
        }
    }

    fn lend_in<const N: usize>(
        &self,
        mut stored: Row<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<std::ops::ControlFlow<()>> {
        let mut row = [ValueRef::Absent; N];
        for (at, (reading, value)) in self.readings.iter().zip(&mut row).enumerate() {
            let bytes = stored.next_column().map_err(|_| changed())?;
            *value = match bytes {
                None => ValueRef::Null,
                Some(bytes) => reading.read(bytes).ok_or_else(|| self.unread(at, bytes.len()))?,
            };
        }
        Ok(sink.row(&row[..self.readings.len()]))
    }

    #[cold]
    fn unread(&self, at: usize, bytes: usize) -> Error {
        let name = self.columns.list().get(at).map_or("?", |column| &column.name);
        let message = format!(
            "column `{name}` has a value of {bytes} bytes that no type of Marmota can represent \
             (an infinite date, or a number out of range): cast the column to text in the statement"
        );
        Error::new(ErrorKind::Invalid, message)
    }
}

#[cold]
fn changed() -> Error {
    Error::new(
        ErrorKind::Engine,
        "the tables were changed while the statement was in use: run the \
                                   statement again",
    )
}

/// Returns the error of a statement that the server refused.
#[cold]
pub(crate) fn refused(failure: &Failure, call: &SqlCall<'_>) -> Error {
    let error = match failure.code() {
        "25006" if !call.writes => return SqlRefusal::ChangesRows.at(call.text),
        "42601" if failure.message.contains("multiple commands") => Error::new(
            ErrorKind::Invalid,
            "the text contains more than one statement: run the statements one by one, in a \
             transaction if they belong together",
        ),
        code if code.starts_with("42") && code != fault::code::NO_RIGHT => {
            let place = match failure.position {
                Some(at) => {
                    let sql = placeholder::numbered(call.text);
                    let near: String = sql.chars().skip(at.saturating_sub(1)).collect();
                    format!(" at `{}`", marmota_model::text::excerpt(&near))
                }
                None => String::new(),
            };
            Error::new(ErrorKind::Invalid, format!("{}{place}", failure.message))
        }
        // A file that a function was to read, for example: the disk is well.
        code if code.starts_with("58P") => Error::new(ErrorKind::Invalid, &*failure.message),
        // What is left is the statement's fault, unless the server's code is wrong.
        code => match fault::of(failure) {
            error if error.kind() == ErrorKind::Engine && !code.starts_with("XX") => {
                Error::new(ErrorKind::Invalid, &*failure.message)
            }
            error => error,
        },
    };
    let told = at_text(&error, call.text);
    if error.is_retryable() { told.retryable() } else { told }
}
