//! Connections to a server. Only this folder knows the driver.

pub(crate) mod pool;

use std::time::Duration;

use marmota_model::Result;
use mysql::consts::{CapabilityFlags, ColumnType};
use mysql::prelude::Queryable as _;
use mysql::{Conn, Opts, OptsBuilder, Params};

pub(crate) use mysql::Value as Cell;

use crate::fault::{Failure, invalid};

/// The longest time to wait for a connection to be accepted.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// More bytes than the head of a packet has.
const PACKET_HEAD: usize = 64;
/// The number of statements that a connection keeps prepared.
const STATEMENTS_MAX: usize = 128;
/// The settings of a connection: names in double quotes, errors instead of converted values, and
/// times in UTC.
const SETTINGS: &str = "SET SESSION sql_mode='ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,\
                        NO_AUTO_VALUE_ON_ZERO,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,\
                        NO_ENGINE_SUBSTITUTION',time_zone='+00:00',autocommit=1";

/// The options of the driver.
#[derive(Clone)]
pub(crate) struct DriverOptions(Opts);

impl DriverOptions {
    /// Parses a URL that begins with `mysql:`.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        // Errors of the driver name a parameter, never the password.
        let parsed = Opts::from_url(url).map_err(|error| invalid(&error.to_string()))?;
        if parsed.get_db_name().is_none_or(str::is_empty) {
            return Err(invalid("it has no database: mariadb://USER@HOST/DATABASE"));
        }
        let flags = CapabilityFlags::CLIENT_FOUND_ROWS;
        let options = OptsBuilder::from_opts(parsed)
            .additional_capabilities(flags)
            .tcp_connect_timeout(Some(CONNECT_TIMEOUT))
            .stmt_cache_size(STATEMENTS_MAX)
            // Otherwise the driver reads the path of the socket from the server and connects again.
            .prefer_socket(false);
        Ok(Self(options.into()))
    }

    /// Returns the database and the server.
    pub(crate) fn place(&self) -> String {
        let database = self.0.get_db_name().unwrap_or_default();
        match self.0.get_socket() {
            Some(socket) => format!("`{database}` at {socket}"),
            None => {
                let (host, port) = (self.0.get_ip_or_hostname(), self.0.get_tcp_port());
                format!("`{database}` at {host}:{port}")
            }
        }
    }

    /// Returns true if the server runs on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.0.get_socket().is_some() || self.0.addr_is_loopback()
    }
}

/// The result of a statement without rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// The number of rows found, changed or not.
    pub(crate) rows: u64,
    /// The first automatic key, or the argument of `LAST_INSERT_ID`.
    pub(crate) id: u64,
}

/// The name of a column of a result, and the table and column that it was read from.
#[derive(Clone, Debug)]
pub(crate) struct ColumnName {
    pub(crate) shown: String,
    pub(crate) table: String,
    pub(crate) column: String,
    pub(crate) is_binary: bool,
    pub(crate) is_decimal: bool,
}

/// A connection to a server.
pub(crate) struct Connection {
    conn: Conn,
    /// True after an error of the connection itself.
    is_broken: bool,
    pub(crate) is_mariadb: bool,
    /// The difference between consecutive automatic keys of one statement.
    pub(crate) key_step: i64,
    /// The most bytes of a statement with its parameters.
    packet_max: usize,
}

impl Connection {
    pub(crate) fn open(options: &DriverOptions, lock_timeout: Duration) -> Result<Self, Failure> {
        let conn = Conn::new(options.0.clone()).map_err(|error| Failure::of(&error))?;
        let mut connection =
            Self { conn, is_broken: false, is_mariadb: true, key_step: 1, packet_max: 0 };
        connection.execute(SETTINGS)?;
        let seconds = lock_timeout.as_secs().max(1);
        connection.execute(&format!("SET SESSION innodb_lock_wait_timeout={seconds}"))?;
        let sql = "SELECT version() LIKE '%MariaDB%',@@auto_increment_increment,\
                   @@max_allowed_packet";
        let mut found = None;
        connection.query(sql, &mut |row| {
            found = Some((number(&row[0]), number(&row[1]), number(&row[2])));
            true
        })?;
        if let Some((is_mariadb, step, packet)) = found {
            (connection.is_mariadb, connection.key_step) = (is_mariadb != 0, step.max(1));
            connection.packet_max = usize::try_from(packet).unwrap_or(0);
        }
        let isolation = match connection.is_mariadb {
            true => "SET SESSION tx_isolation='READ-COMMITTED'",
            false => "SET SESSION transaction_isolation='READ-COMMITTED'",
        };
        connection.execute(isolation)?;
        Ok(connection)
    }

    /// Returns the number by which another connection ends its statements.
    pub(crate) fn id(&self) -> u32 {
        self.conn.connection_id()
    }

    /// Returns true if it cannot be used again.
    pub(crate) const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Executes a statement without parameters, and drops its rows.
    pub(crate) fn execute(&mut self, sql: &str) -> Result<(), Failure> {
        let done = self.conn.query_drop(sql).map_err(|error| Failure::of(&error));
        self.note(done)
    }

    /// Executes a statement without parameters. `take` receives each row, and returns false to end.
    pub(crate) fn query(
        &mut self,
        sql: &str,
        take: &mut dyn FnMut(Vec<Cell>) -> bool,
    ) -> Result<(), Failure> {
        let done = match self.conn.query_iter(sql) {
            Err(error) => Err(Failure::of(&error)),
            Ok(rows) => each(rows, take).map(drop),
        };
        self.note(done)
    }

    /// Executes a prepared statement. `columns` receives the columns of a result with rows.
    pub(crate) fn run(
        &mut self,
        sql: &str,
        parameters: Vec<Cell>,
        columns: &mut dyn FnMut(Vec<ColumnName>),
        take: &mut dyn FnMut(Vec<Cell>) -> bool,
    ) -> Result<Written, Failure> {
        // The server would close the connection instead of an answer.
        let bytes = sql.len() + parameters.iter().map(bytes_of).sum::<usize>() + PACKET_HEAD;
        if bytes > self.packet_max {
            return Err(Failure::too_large(bytes, self.packet_max));
        }
        let parameters = match parameters.is_empty() {
            true => Params::Empty,
            false => Params::Positional(parameters),
        };
        let done = match self.conn.exec_iter(sql, parameters) {
            Err(error) => Err(Failure::of(&error)),
            Ok(rows) => {
                let names = rows.columns();
                let names: Vec<ColumnName> = names.as_ref().iter().map(column_name).collect();
                let written =
                    Written { rows: rows.affected_rows(), id: rows.last_insert_id().unwrap_or(0) };
                if !names.is_empty() {
                    columns(names);
                }
                each(rows, take).map(|()| written)
            }
        };
        self.note(done)
    }

    fn note<T>(&mut self, done: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(failure) = &done {
            self.is_broken |= failure.is_of_connection();
        }
        done
    }
}

fn column_name(column: &mysql::Column) -> ColumnName {
    ColumnName {
        shown: column.name_str().into_owned(),
        table: column.org_table_str().into_owned(),
        column: column.org_name_str().into_owned(),
        // The collation of bytes.
        is_binary: column.character_set() == 63,
        is_decimal: column.column_type() == ColumnType::MYSQL_TYPE_NEWDECIMAL,
    }
}

fn each<T: mysql::prelude::Protocol>(
    rows: mysql::QueryResult<'_, '_, '_, T>,
    take: &mut dyn FnMut(Vec<Cell>) -> bool,
) -> Result<(), Failure> {
    for row in rows {
        if !take(row.map_err(|error| Failure::of(&error))?.unwrap()) {
            break;
        }
    }
    Ok(())
}

/// Returns the number of bytes of a parameter, at most.
pub(crate) fn bytes_of(cell: &Cell) -> usize {
    match cell {
        Cell::Bytes(bytes) => bytes.len() + 11,
        _ => 15,
    }
}

/// Returns an integer of a result, in the form of text or binary.
pub(crate) fn number(cell: &Cell) -> i64 {
    match cell {
        Cell::Int(value) => *value,
        Cell::UInt(value) => i64::try_from(*value).unwrap_or(i64::MAX),
        Cell::Bytes(bytes) => {
            std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Returns a text of a result; empty for NULL.
pub(crate) fn text(cell: &Cell) -> String {
    match cell {
        Cell::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Cell::Int(value) => value.to_string(),
        Cell::UInt(value) => value.to_string(),
        _ => String::new(),
    }
}
