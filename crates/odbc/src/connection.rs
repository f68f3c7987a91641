//! Connections over the driver manager, by the crate `odbc-api`.

mod handle;
mod parameters;
mod results;

use std::time::Duration;

use marmota_blocking::dialect::{Dialect, FIREBIRD, MARIADB, MYSQL, ORACLE, POSTGRES, SQL_SERVER};
use marmota_blocking::{
    FailureCause, LendRow, ReadAs, SqlConnection, SqlFailure, Transacting, WriteCount,
};
use marmota_model::{ErrorKind, Value, ValueForm, ValueRef};
use odbc_api::parameter::InputParameter;
use odbc_api::{ConnectionOptions, Error};

use self::handle::Handle;
use self::parameters::parameter;
use crate::fault;
use crate::options::OdbcOptions;

/// The longest time to wait for a connection to be accepted, in seconds.
const CONNECT_TIMEOUT: u32 = 10;

/// The dialects that a connection may have, with the begin of the name that drivers report.
static DIALECTS: [(&str, &Dialect); 6] = [
    ("MariaDB", &MARIADB),
    ("MySQL", &MYSQL),
    ("PostgreSQL", &POSTGRES),
    ("Microsoft SQL Server", &SQL_SERVER),
    ("Oracle", &ORACLE),
    ("Firebird", &FIREBIRD),
];

/// The attributes that the drivers of a dialect need, unless the connection string has them.
const ATTRIBUTES: [(&str, &str, &str); 3] = [
    // An update counts the rows that it finds, not those that it changes.
    ("MariaDB", "Option", "2"),
    ("MySQL", "Option", "2"),
    // A statement that fails is undone, and its transaction continues.
    ("PostgreSQL", "Protocol", "7.4-2"),
];

/// A statement that a transaction begins with if a savepoint would be the first one. PostgreSQL's
/// driver does not guard the statement after such a savepoint: if that statement fails, the driver
/// rolls back the transaction with its savepoints, and begins another.
const FIRST_STATEMENTS: [(&str, &str); 1] = [("PostgreSQL", "SELECT 1")];

/// A connection to a database.
pub(crate) struct OdbcConnection {
    conn: Handle,
    dialect: &'static Dialect,
    id: Option<u64>,
    is_broken: bool,
    /// The isolation that is set.
    isolation: Option<Transacting>,
    /// True from the begin of a transaction to its first statement.
    has_begun: bool,
}

impl OdbcConnection {
    pub(crate) fn open(options: &OdbcOptions) -> Result<Self, SqlFailure> {
        let environment = odbc_api::environment().map_err(|error| fault::of_connect(&error))?;
        let timeout = ConnectionOptions {
            login_timeout_sec: Some(CONNECT_TIMEOUT),
            ..ConnectionOptions::default()
        };
        let conn = environment
            .connect_with_connection_string(&options.text, timeout)
            .map_err(|error| fault::of_connect(&error))?;
        let name = conn.database_management_system_name();
        let name = name.map_err(|error| fault::of_connect(&error))?;
        let found = DIALECTS.iter().find(|(begin, _)| name.starts_with(begin));
        let Some(&(_, dialect)) = found else { return Err(unknown(&name)) };
        let mut connection = Self {
            conn: Handle::new(conn),
            dialect,
            id: None,
            is_broken: false,
            isolation: None,
            has_begun: false,
        };
        connection.prepare(options.lock_timeout)?;
        Ok(connection)
    }

    /// Adds the attributes to the options that the drivers of the dialect need.
    pub(crate) fn complete(&self, options: &mut OdbcOptions) {
        for (_, name, value) in ATTRIBUTES.iter().filter(|(of, ..)| *of == self.dialect.name) {
            options.add_default(name, value);
        }
    }

    fn prepare(&mut self, lock_timeout: Duration) -> Result<(), SqlFailure> {
        for sql in self.dialect.settings {
            self.execute(sql)?;
        }
        if let Some((sql, millis)) = self.dialect.lock_timeout {
            let units = lock_timeout.as_millis() / u128::from(millis);
            self.execute(&sql.replace("{}", &units.max(1).to_string()))?;
        }
        self.isolate(Transacting::Committed)?;
        if let Some(sql) = self.dialect.connection_id {
            let mut id = None;
            let mut take = |row: &[Option<ValueRef<'_>>]| {
                id = row.first().copied().flatten().and_then(|id| id.as_int());
                true
            };
            self.run(sql, &[], ReadAs::Forms(&[ValueForm::Int]), &mut take)?;
            self.id = id.and_then(|id| u64::try_from(id).ok());
        }
        Ok(())
    }

    /// Sets the isolation of the next transactions.
    fn isolate(&mut self, how: Transacting) -> Result<(), SqlFailure> {
        if self.isolation == Some(how) {
            return Ok(());
        }
        let sql = self.dialect.isolation[how as usize];
        if !sql.is_empty() {
            self.execute(sql)?;
        }
        self.isolation = Some(how);
        Ok(())
    }

    fn note<T>(&mut self, done: Result<T, Error>) -> Result<T, SqlFailure> {
        done.map_err(|error| {
            let failure = fault::of(&error, self.dialect);
            self.is_broken |= failure.breaks_connection;
            failure
        })
    }
}

impl SqlConnection for OdbcConnection {
    fn dialect(&self) -> &'static Dialect {
        self.dialect
    }

    fn id(&self) -> Option<u64> {
        self.id
    }

    fn is_broken(&self) -> bool {
        self.is_broken
    }

    fn begin(&mut self, how: Transacting) -> Result<(), SqlFailure> {
        self.isolate(how)?;
        let done = self.conn.set_autocommit(false);
        self.has_begun = true;
        self.note(done)
    }

    fn end(&mut self, commits: bool) -> Result<(), SqlFailure> {
        self.has_begun = false;
        let done = if commits { self.conn.commit() } else { self.conn.rollback() };
        let done = self.note(done);
        if done.is_err() && commits {
            // The transaction may still be open.
            self.is_broken |= self.conn.rollback().is_err();
        }
        let manual = self.conn.set_autocommit(true);
        self.is_broken |= manual.is_err();
        done?;
        // Otherwise the next write outside of a transaction would be refused.
        self.isolate(Transacting::Committed)
    }

    fn execute(&mut self, sql: &str) -> Result<(), SqlFailure> {
        if std::mem::take(&mut self.has_begun)
            && let Some((_, first)) = FIRST_STATEMENTS.iter().find(|it| it.0 == self.dialect.name)
        {
            let done = self.conn.execute(first, (), None).map(drop);
            self.note(done)?;
        }
        let done = self.conn.execute(sql, (), None).map(drop);
        self.note(done)
    }

    fn run(
        &mut self,
        sql: &str,
        parameters: &[Value],
        read: ReadAs<'_>,
        take: LendRow<'_>,
    ) -> Result<WriteCount, SqlFailure> {
        self.has_begun = false;
        let parameters: Vec<Box<dyn InputParameter>> =
            parameters.iter().map(|value| parameter(value, self.dialect)).collect();
        let done = (|| {
            let mut statement = self.conn.preallocate()?;
            if let Some(cursor) = statement.execute(sql, parameters.as_slice())? {
                let mut has_rows = false;
                let mut take = |row: &[Option<ValueRef<'_>>]| {
                    has_rows = true;
                    take(row)
                };
                return match results::each(cursor, self.dialect, read, &mut take) {
                    // PostgreSQL's driver has no cursor if an update returns no row.
                    Err(error) if !has_rows && fault::has_no_cursor(&error) => {
                        Ok(WriteCount::default())
                    }
                    done => done.map(|()| WriteCount::default()),
                };
            }
            let rows = statement.row_count()?.unwrap_or(0);
            Ok(WriteCount { rows: rows as u64, id: 0 })
        })();
        self.note(done)
    }
}

/// The failure of a database without a dialect.
#[cold]
fn unknown(name: &str) -> SqlFailure {
    let known: Vec<&str> = DIALECTS.iter().map(|(name, _)| *name).collect();
    let way_out = match name {
        "SQLite" => "open the file with its own engine: `sqlite:FILE`",
        _ => "import its rows from CSV files, or write an engine",
    };
    let message = format!(
        "the driver reports the database `{name}`, which is not supported over ODBC; supported: \
         {}; {way_out}",
        known.join(", ")
    );
    SqlFailure::new(FailureCause::Other, (ErrorKind::Unsupported, message), "")
}
