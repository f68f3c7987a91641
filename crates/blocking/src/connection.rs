//! What an engine implements: its driver and the connections.

use std::time::Duration;

use marmota_model::{Value, ValueForm, ValueRef};
use marmota_store::engine::{Capability, Source};

use crate::dialect::Dialect;
use crate::failure::SqlFailure;

/// How an engine connects, and its limits.
pub trait BlockingDriver: Send + Sync + 'static {
    /// Opens a connection.
    ///
    /// # Errors
    /// The server refuses, or is not there.
    fn connect(&self) -> Result<Box<dyn SqlConnection>, SqlFailure>;

    /// Opens a connection on which an event loop reads. Returns `None` if the driver has none.
    ///
    /// # Errors
    /// The server refuses, or is not there.
    fn connect_stepped(&self) -> Result<Option<Box<dyn SteppedConnection>>, SqlFailure> {
        Ok(None)
    }

    /// Returns the database and the server, without a password.
    fn place(&self) -> &str;

    /// Returns the features of the engine.
    fn capability(&self) -> &Capability;

    /// Returns the maximum number of connections of each purpose: reads, writes, and transactions.
    fn connections_max(&self) -> usize;

    /// Returns the longest time that a write waits for a lock.
    fn lock_timeout(&self) -> Duration;

    /// Returns the tools that copy a database, for the error of a backup.
    fn backup_tools(&self) -> &str;
}

/// The result of a statement without rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteCount {
    /// The number of rows found, changed or not.
    pub rows: u64,
    /// The first automatic key, or another number that the statement returns.
    pub id: u64,
}

/// The name of a column of a result, and the table and column that it was read from. Those are
/// empty if the driver does not report them.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are those of the parts")]
pub struct ColumnName {
    pub shown: String,
    pub table: String,
    pub column: String,
}

/// The forms in which the columns of a result are read. A column without a form is read by its own
/// type.
pub enum ReadAs<'r> {
    /// These forms.
    Forms(&'r [ValueForm]),
    /// Those that the function returns for the columns.
    Columns(&'r mut dyn FnMut(Vec<ColumnName>) -> Vec<Option<ValueForm>>),
}

/// Receives each row of a result, with `None` for a value that does not have its form. It returns
/// false to end.
pub type LendRow<'t> = &'t mut dyn FnMut(&[Option<ValueRef<'_>>]) -> bool;

/// How the statements of a transaction see those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transacting {
    /// Each statement sees what was committed before it.
    Committed,
    /// As if transactions were executed one after the other.
    Serializable,
    /// Without changes.
    ReadOnly,
}

/// A connection to a server. Its calls block.
pub trait SqlConnection: Send {
    /// Returns the dialect of the server.
    fn dialect(&self) -> &'static Dialect;

    /// Returns the number by which another connection ends its statements, if it has one.
    fn id(&self) -> Option<u64>;

    /// Returns true if it cannot be used again.
    fn is_broken(&self) -> bool;

    /// Returns the difference between consecutive automatic keys of one statement.
    fn key_step(&self) -> i64 {
        1
    }

    /// Returns the bytes of a value as a parameter, at most.
    fn bytes_of(&self, value: &Value) -> usize {
        match value {
            Value::Text(text) | Value::Json(text) => text.len() + 11,
            Value::Blob(bytes) => bytes.len() + 11,
            _ => 40,
        }
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// The refusal of the server.
    fn begin(&mut self, how: Transacting) -> Result<(), SqlFailure>;

    /// Ends a transaction.
    ///
    /// # Errors
    /// The refusal of the server: the transaction is rolled back.
    fn end(&mut self, commits: bool) -> Result<(), SqlFailure>;

    /// Executes a statement without parameters, and drops its rows.
    ///
    /// # Errors
    /// The refusal of the server.
    fn execute(&mut self, sql: &str) -> Result<(), SqlFailure>;

    /// Executes a statement. `take` receives its rows.
    ///
    /// # Errors
    /// The refusal of the server.
    fn run(
        &mut self,
        sql: &str,
        parameters: &[Value],
        read: ReadAs<'_>,
        take: LendRow<'_>,
    ) -> Result<WriteCount, SqlFailure>;

    /// Executes a statement that must not change rows, in a transaction of its own. A driver that can
    /// sends all of it with one request.
    ///
    /// # Errors
    /// The refusal of the server.
    fn run_read_only(
        &mut self,
        sql: &str,
        parameters: &[Value],
        read: ReadAs<'_>,
        take: LendRow<'_>,
    ) -> Result<WriteCount, SqlFailure> {
        self.begin(Transacting::ReadOnly)?;
        let done = self.run(sql, parameters, read, take);
        let ended = self.end(false);
        done.and_then(|done| ended.map(|()| done))
    }

    /// Executes a statement once for each list of parameters; returns the result of each. `take`
    /// receives the number of the execution, and a row as in [`Self::run`]. A driver that can
    /// sends all of them before it reads the first answer.
    fn run_each(
        &mut self,
        sql: &str,
        parameters: &[Vec<Value>],
        forms: &[ValueForm],
        take: &mut dyn FnMut(usize, &[Option<ValueRef<'_>>]),
    ) -> Vec<Result<(), SqlFailure>> {
        let run = |(at, parameters): (usize, &Vec<Value>)| {
            let mut take = |row: &[Option<ValueRef<'_>>]| {
                take(at, row);
                true
            };
            self.run(sql, parameters, ReadAs::Forms(forms), &mut take).map(drop)
        };
        parameters.iter().enumerate().map(run).collect()
    }
}

/// How far the first read on a [`SteppedConnection`] has come.
#[derive(Clone, Copy, Debug)]
pub enum ReadStep {
    /// It has ended.
    Done(WriteCount),
    /// No more of its rows are wanted, but they follow.
    Unwanted,
    /// Its statement was prepared, and is executed after those of the other reads.
    Last,
    /// More may have arrived.
    More,
    /// Nothing more has arrived.
    Wait,
}

/// A connection on which an event loop reads. The server executes its statements one after the other,
/// and refuses those that change rows. No call waits for the server.
///
/// After an error of the connection it must not be used again.
pub trait SteppedConnection: Send {
    /// Returns the dialect of the server.
    fn dialect(&self) -> &'static Dialect;

    /// Returns the statement by which another connection ends this one, with all its reads.
    fn kill(&self) -> String;

    /// Returns the socket on which answers arrive.
    fn source(&self) -> &Source;

    /// Returns true if the server has closed a connection without reads.
    fn has_ended(&mut self) -> bool;

    /// Adds a read. Returns false if its request is too long.
    ///
    /// # Errors
    /// The connection is lost, or the number of parameters is wrong; then nothing is added.
    fn add(&mut self, sql: &str, parameters: &[Value]) -> Result<bool, SqlFailure>;

    /// Sends what was added.
    ///
    /// # Errors
    /// The connection is lost.
    fn send(&mut self) -> Result<(), SqlFailure>;

    /// Passes the rows of the first read that have arrived to `take`, in the forms of `read`. The
    /// socket is only read if `may_read`.
    ///
    /// # Errors
    /// The refusal of the server, with which the read ends, or the connection is lost.
    fn receive(
        &mut self,
        read: ReadAs<'_>,
        take: LendRow<'_>,
        may_read: bool,
    ) -> Result<ReadStep, SqlFailure>;
}
