//! Connections to a server, by the driver.

use std::time::Duration;

use marmota_blocking::dialect::{self, ReturnedKey, WriteRules};
use marmota_blocking::{
    Dialect, LendRow, ReadAs, SqlConnection, SqlFailure, Transacting, WriteCount,
};
use marmota_model::{Result, Value, ValueForm, ValueRef};
use marmota_sql::TargetServer;
use mysql::consts::CapabilityFlags;
use mysql::prelude::Queryable as _;
use mysql::{Column, Conn, Opts, OptsBuilder, Params, SslOpts};

use crate::answer::{Prepared, TakeRows};
use crate::fault::{self, Failure, invalid};
use crate::pipeline::Pipeline;
use crate::row::{Cell, cells};
use crate::statements::STATEMENTS_MAX;
use crate::value::{RowReader, parameter};

/// The longest time to wait for a connection to be accepted.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// More bytes than the head of a packet has.
const PACKET_HEAD: usize = 64;
/// The most bytes of the parameters of a statement that is executed without the driver: one packet.
const PIPELINE_BYTES_MAX: usize = 8 << 20;
/// The first words of statements with one result that may have no rows.
const WRITES: [&str; 4] = ["INSERT", "UPDATE", "DELETE", "REPLACE"];

/// The options of the driver.
#[derive(Clone)]
pub(crate) struct DriverOptions(Opts);

impl DriverOptions {
    /// Parses a URL that begins with `mysql:`; with TLS if there are options for it.
    pub(crate) fn parse(url: &str, tls: Option<SslOpts>) -> Result<Self> {
        // Errors of the driver name a parameter, never the password.
        let parsed = Opts::from_url(url).map_err(|error| invalid(&error.to_string()))?;
        if parsed.get_db_name().is_none_or(str::is_empty) {
            return Err(invalid("it has no database: mariadb://USER@HOST/DATABASE"));
        }
        let flags = CapabilityFlags::CLIENT_FOUND_ROWS;
        let options = OptsBuilder::from_opts(parsed)
            .additional_capabilities(flags)
            .ssl_opts(tls)
            .tcp_connect_timeout(Some(CONNECT_TIMEOUT))
            .stmt_cache_size(STATEMENTS_MAX)
            // A server that cannot be reached any more is noticed after 30 seconds.
            .tcp_keepalive_time_ms(Some(15_000))
            .tcp_keepalive_probe_interval_secs(Some(5))
            .tcp_keepalive_probe_count(Some(3))
            .tcp_user_timeout_ms(Some(30_000))
            // Otherwise the driver reads the path of the socket from the server and connects again.
            .prefer_socket(false);
        Ok(Self(options.into()))
    }

    /// Returns the name of the database.
    pub(crate) fn database(&self) -> &str {
        self.0.get_db_name().unwrap_or_default()
    }

    /// Returns the server, without the password.
    pub(crate) fn server(&self) -> String {
        match self.0.get_socket() {
            Some(socket) => socket.to_owned(),
            None => {
                let host = self.0.get_ip_or_hostname();
                format!("{}:{}", host.trim_matches(['[', ']']), self.0.get_tcp_port())
            }
        }
    }

    /// Returns true if connections are neither encrypted nor compressed.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.get_ssl_opts().is_none() && self.0.get_compress().is_none()
    }

    /// Returns true if the server runs on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.0.get_socket().is_some() || self.0.addr_is_loopback()
    }
}

/// MariaDB's dialect with a driver that returns `last_insert_id` with each answer.
static MARIADB: Dialect = native(dialect::MARIADB);
static MYSQL: Dialect = native(dialect::MYSQL);

const fn native(dialect: Dialect) -> Dialect {
    let key = ReturnedKey::LastInsertId { by_driver: true };
    let writes = WriteRules { key, ..dialect.writes };
    Dialect { writes, ..dialect }
}

/// A connection to a server.
pub(crate) struct Connection {
    conn: Conn,
    /// True after an error of the connection itself.
    is_broken: bool,
    is_mariadb: bool,
    key_step: i64,
    /// The most bytes of a statement with its parameters.
    pub(crate) packet_max: usize,
    /// Executes prepared statements without the driver, if the connection is plain.
    pub(crate) pipeline: Option<Pipeline>,
}

impl Connection {
    /// Connects to a server. A primary that is wanted accepts writes.
    pub(crate) fn open(
        options: &DriverOptions,
        lock_timeout: Duration,
        target: TargetServer,
    ) -> Result<Self, Failure> {
        let conn = Conn::new(options.0.clone()).map_err(|error| Failure::of(&error))?;
        let pipeline = match options.is_plain() {
            true => Some(Pipeline::of(&conn).map_err(|error| Failure::of(&error.into()))?),
            false => None,
        };
        let mut connection =
            Self { conn, is_broken: false, is_mariadb: true, key_step: 1, packet_max: 0, pipeline };
        connection.drop_rows(dialect::MARIADB.settings[0])?;
        let seconds = lock_timeout.as_secs().max(1);
        connection.drop_rows(&format!("SET SESSION innodb_lock_wait_timeout={seconds}"))?;
        let sql = "SELECT version() LIKE '%MariaDB%',@@auto_increment_increment,\
                   @@max_allowed_packet,@@global.read_only NOT IN ('0','OFF')";
        let found: Result<Option<(i64, i64, i64, i64)>, _> = connection.conn.query_first(sql);
        let found = found.map_err(|error| Failure::of(&error))?;
        if let Some((is_mariadb, step, packet, is_read_only)) = found {
            if is_read_only != 0 && target == TargetServer::Primary {
                return Err(Failure::read_only());
            }
            (connection.is_mariadb, connection.key_step) = (is_mariadb != 0, step.max(1));
            connection.packet_max = usize::try_from(packet).unwrap_or(0);
        }
        let isolation = match connection.is_mariadb {
            true => "SET SESSION tx_isolation='READ-COMMITTED'",
            false => "SET SESSION transaction_isolation='READ-COMMITTED'",
        };
        connection.drop_rows(isolation)?;
        Ok(connection)
    }

    /// Returns the dialect of the server.
    pub(crate) fn own_dialect(&self) -> &'static Dialect {
        if self.is_mariadb { &MARIADB } else { &MYSQL }
    }

    /// Returns the number by which another connection ends its statements.
    pub(crate) fn number(&self) -> u64 {
        self.conn.connection_id().into()
    }

    /// Executes a statement without parameters, and drops its rows.
    pub(crate) fn drop_rows(&mut self, sql: &str) -> Result<(), Failure> {
        let done = self.conn.query_drop(sql).map_err(|error| Failure::of(&error));
        self.note(done)
    }

    /// Executes a prepared statement; `is_alone` outside of a transaction, and without changes.
    fn exec(
        &mut self,
        sql: &str,
        parameters: &[Value],
        mut read: ReadAs<'_>,
        take: LendRow<'_>,
        is_alone: bool,
    ) -> Result<WriteCount, Failure> {
        // The server would close the connection instead of an answer.
        let bytes = sql.len() + self.bytes_of_all(parameters);
        if bytes > self.packet_max {
            return Err(Failure::too_large(bytes, self.packet_max));
        }
        if let Some(statement) = self.prepared(sql, parameters, bytes)?
            && let Some(pipeline) = &mut self.pipeline
        {
            let mut rows = LentRows { read, reader: None, is_wanted: true, take };
            let done = match is_alone {
                true => pipeline.execute_read_only(&statement, parameters, &mut rows),
                false => pipeline
                    .execute(&statement, &[parameters], &mut rows)
                    .map(|mut done| done.pop().unwrap_or(Ok(WriteCount::default()))),
            };
            let done = done.map_err(|error| Failure::of(&error.into())).and_then(|done| done);
            return self.note(done);
        }
        if is_alone {
            self.drop_rows("START TRANSACTION READ ONLY")?;
        }
        let parameters = match parameters.is_empty() {
            true => Params::Empty,
            false => Params::Positional(
                parameters.iter().map(|value| parameter(value.as_ref())).collect(),
            ),
        };
        let done = match self.conn.exec_iter(sql, parameters) {
            Err(error) => Err(Failure::of(&error)),
            Ok(rows) => {
                let written = WriteCount {
                    rows: rows.affected_rows(),
                    id: rows.last_insert_id().unwrap_or(0),
                };
                each(rows, &mut read, take).map(|()| written)
            }
        };
        let done = self.note(done);
        if is_alone {
            let ended = self.drop_rows("ROLLBACK");
            return done.and_then(|done| ended.map(|()| done));
        }
        done
    }

    /// Returns the bytes of a request with these parameters, at most.
    fn bytes_of_all(&self, parameters: &[Value]) -> usize {
        parameters.iter().map(|value| self.bytes_of(value)).sum::<usize>() + PACKET_HEAD
    }

    /// Prepares a statement that is executed without the driver, on a plain connection.
    fn prepared(
        &mut self,
        sql: &str,
        parameters: &[Value],
        bytes: usize,
    ) -> Result<Option<Prepared>, Failure> {
        let Some(pipeline) = self.pipeline.as_mut().filter(|_| bytes <= PIPELINE_BYTES_MAX) else {
            return Ok(None);
        };
        let prepared = pipeline.prepare(sql).map_err(|error| Failure::of(&error.into()));
        let statement = self.note(prepared.and_then(|prepared| prepared))?;
        // Others may return several results.
        let is_simple =
            !statement.columns.is_empty() || WRITES.iter().any(|word| sql.starts_with(word));
        Ok(Some(statement).filter(|it| is_simple && it.parameters == parameters.len()))
    }

    /// Executes a prepared statement several times, with one request if the connection is plain.
    fn exec_each(
        &mut self,
        sql: &str,
        parameters: &[Vec<Value>],
        forms: &[ValueForm],
        take: &mut dyn FnMut(usize, &[Option<ValueRef<'_>>]),
    ) -> Result<Vec<Result<(), Failure>>, Failure> {
        let most = parameters.iter().map(|one| self.bytes_of_all(one)).max().unwrap_or(0);
        let is_small = most <= self.packet_max.min(PIPELINE_BYTES_MAX);
        let Some(pipeline) = self.pipeline.as_mut().filter(|_| is_small) else {
            let run = |(at, parameters): (usize, &Vec<Value>)| {
                let mut take = |row: &[Option<ValueRef<'_>>]| {
                    take(at, row);
                    true
                };
                self.exec(sql, parameters, ReadAs::Forms(forms), &mut take, false).map(drop)
            };
            return Ok(parameters.iter().enumerate().map(run).collect());
        };
        let mut rows = NumberedRows { forms, reader: None, take };
        let done = match pipeline.prepare(sql) {
            Ok(Ok(statement)) => pipeline.execute(&statement, parameters, &mut rows),
            Ok(Err(failure)) => return self.note(Err(failure)),
            Err(error) => Err(error),
        };
        let done = self.note(done.map_err(|error| Failure::of(&error.into())))?;
        for one in done.iter().filter_map(|one| one.as_ref().err()) {
            self.is_broken |= one.is_of_connection();
        }
        Ok(done.into_iter().map(|one| one.map(drop)).collect())
    }

    fn note<T>(&mut self, done: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(failure) = &done {
            self.is_broken |= failure.is_of_connection();
        }
        done
    }
}

impl SqlConnection for Connection {
    fn dialect(&self) -> &'static Dialect {
        self.own_dialect()
    }

    fn id(&self) -> Option<u64> {
        Some(self.number())
    }

    fn is_broken(&self) -> bool {
        self.is_broken
    }

    fn key_step(&self) -> i64 {
        self.key_step
    }

    fn begin(&mut self, how: Transacting) -> Result<(), SqlFailure> {
        if how == Transacting::Serializable {
            self.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")?;
        }
        self.execute(match how {
            Transacting::ReadOnly => "START TRANSACTION READ ONLY",
            _ => "START TRANSACTION",
        })
    }

    fn end(&mut self, commits: bool) -> Result<(), SqlFailure> {
        self.execute(if commits { "COMMIT" } else { "ROLLBACK" })
    }

    fn execute(&mut self, sql: &str) -> Result<(), SqlFailure> {
        self.drop_rows(sql).map_err(|failure| fault::of(&failure))
    }

    fn run(
        &mut self,
        sql: &str,
        parameters: &[Value],
        read: ReadAs<'_>,
        take: LendRow<'_>,
    ) -> Result<WriteCount, SqlFailure> {
        self.exec(sql, parameters, read, take, false).map_err(|failure| fault::of(&failure))
    }

    fn run_read_only(
        &mut self,
        sql: &str,
        parameters: &[Value],
        read: ReadAs<'_>,
        take: LendRow<'_>,
    ) -> Result<WriteCount, SqlFailure> {
        self.exec(sql, parameters, read, take, true).map_err(|failure| fault::of(&failure))
    }

    fn run_each(
        &mut self,
        sql: &str,
        parameters: &[Vec<Value>],
        forms: &[ValueForm],
        take: &mut dyn FnMut(usize, &[Option<ValueRef<'_>>]),
    ) -> Vec<Result<(), SqlFailure>> {
        match self.exec_each(sql, parameters, forms, take) {
            Ok(done) => {
                let of = |one: Result<(), Failure>| one.map_err(|failure| fault::of(&failure));
                done.into_iter().map(of).collect()
            }
            Err(failure) => parameters.iter().map(|_| Err(fault::of(&failure))).collect(),
        }
    }
}

/// Reads the rows of one execution.
pub(crate) struct LentRows<'r, 't> {
    pub(crate) read: ReadAs<'r>,
    pub(crate) reader: Option<RowReader>,
    pub(crate) is_wanted: bool,
    pub(crate) take: LendRow<'t>,
}

impl TakeRows for LentRows<'_, '_> {
    fn columns(&mut self, columns: &[Column]) {
        self.reader = Some(RowReader::of(columns, &mut self.read));
    }

    fn row(&mut self, _: usize, columns: &[Column], packet: &[u8]) -> std::io::Result<()> {
        if let Some(reader) = self.reader.as_ref().filter(|_| self.is_wanted) {
            self.is_wanted = reader.lend(&cells(packet, columns)?, &mut *self.take);
        }
        Ok(())
    }
}

/// Reads the rows of several executions of a statement.
struct NumberedRows<'r> {
    forms: &'r [ValueForm],
    reader: Option<RowReader>,
    take: &'r mut dyn FnMut(usize, &[Option<ValueRef<'_>>]),
}

impl TakeRows for NumberedRows<'_> {
    fn columns(&mut self, columns: &[Column]) {
        self.reader = Some(RowReader::of(columns, &mut ReadAs::Forms(self.forms)));
    }

    fn row(&mut self, number: usize, columns: &[Column], packet: &[u8]) -> std::io::Result<()> {
        if let Some(reader) = &self.reader {
            reader.lend(&cells(packet, columns)?, |row| (self.take)(number, row));
        }
        Ok(())
    }
}

/// Passes the rows of a result, each value in its form.
fn each<T: mysql::prelude::Protocol>(
    rows: mysql::QueryResult<'_, '_, '_, T>,
    read: &mut ReadAs<'_>,
    take: LendRow<'_>,
) -> Result<(), Failure> {
    let reader = RowReader::of(rows.columns().as_ref(), read);
    for row in rows {
        let values = row.map_err(|error| Failure::of(&error))?.unwrap();
        let cells: Vec<Cell<'_>> = values.iter().map(Cell::from).collect();
        if !reader.lend(&cells, &mut *take) {
            break;
        }
    }
    Ok(())
}
