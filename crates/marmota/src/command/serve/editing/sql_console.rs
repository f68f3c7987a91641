//! SQL for administrators: statements that read and, with `--sql-write`, those that write rows:
//!
//! ```text
//! POST /api/-/sql
//! {"sql":"SELECT name, born FROM person WHERE born > ?","values":["1900-01-01"],"limit":100}
//!
//! {"columns":["name","born"],"rows":[["Emmy","1982-03-23"]],"is_complete":true,"seconds":0.0004}
//!
//! {"sql":"UPDATE person SET born = NULL WHERE id = ?","values":[7],"write":true}
//!
//! {"changed":1,"seconds":0.0011}
//! ```
//!
//! On SQLite, a statement without `write` has to be read-only by SQLite's own judgement. On PostgreSQL it is executed
//! in a read-only transaction that is rolled back, so that it cannot keep a setting that it changes.
//! Functions that the database user may call can do more than read (`pg_terminate_backend`, for
//! example): their right has to be revoked in the database.
//!
//! A statement with `write` is one INSERT, UPDATE or DELETE, by [`Store::execute`]: rules, hooks, versions
//! and rights do not apply to it, and audited tables refuse it, because it would leave no history.
//!
//! Each statement is in the log, with the name of the administrator, and in the security events with its
//! rows, time and error.

use std::time::{Duration, Instant};

use marmota_auth::{Auth, SecurityEvent};
use marmota_http::{Endpoint, IntoResponse, Method, Request, Response, Router};
use marmota_model::json::{write_string, write_value, write_value_as};
use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind, Result, Value};
use marmota_rest::{ApiError, ApiResult};
use marmota_store::Store;
use marmota_store::sql::{SqlRefusal, SqlRow};
use serde::Deserialize;

use super::administrator;

pub(super) const PATH: &str = "/api/-/sql";
/// The engines whose reading statements were tried to write. MariaDB's can write files of the server
/// (`SELECT … INTO OUTFILE`).
const ENGINES: [&str; 3] = ["sqlite", "memory", "postgres"];
/// The maximum size of a request in bytes.
const BODY_BYTES_MAX: usize = 256 << 10;
/// The number of rows of an answer: the default, and the maximum.
pub(super) const ROWS: usize = 1_000;
pub(super) const ROWS_MAX: usize = 10_000;
/// An answer ends once its rows have this many bytes.
const ANSWER_BYTES: usize = 8 << 20;
/// A security event has the beginning of a longer statement, in bytes.
const EVENT_BYTES_MAX: usize = 2_000;
/// The time limit of a statement on PostgreSQL. SQLite's is `read_deadline_ms` of its URL.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A statement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    sql: String,
    #[serde(default)]
    values: Vec<serde_json::Value>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    write: bool,
}

/// The rows of an answer, as JSON.
#[derive(Default)]
struct SqlAnswer {
    columns: Option<Vec<u8>>,
    rows: Vec<u8>,
    count: usize,
    limit: usize,
    /// True once a row was left out.
    is_full: bool,
}

/// Returns true if the engine of a store has SQL that only reads.
pub(super) fn has_sql(store: &Store) -> bool {
    let capability = store.capability();
    capability.sql && ENGINES.contains(&capability.name)
}

/// Returns the route; none if the engine has no SQL that only reads. With `may_write`, statements can
/// write.
pub(crate) fn routes(auth: &Auth, store: &Store, may_write: bool) -> Router {
    if !has_sql(store) {
        return Router::new();
    }
    let (auth, store) = (auth.clone(), store.clone());
    let handler = move |request: Request| {
        let (auth, store) = (auth.clone(), store.clone());
        async move {
            let answer = answer(&auth, &store, may_write, request).await;
            answer.unwrap_or_else(IntoResponse::into_response)
        }
    };
    Router::new().on(Method::Post, PATH, Endpoint::future(handler).body_bytes_max(BODY_BYTES_MAX))
}

async fn answer(auth: &Auth, store: &Store, may_write: bool, request: Request) -> ApiResult {
    let caller = administrator(auth, &request, "execute SQL").await?;
    let question: Question = serde_json::from_slice(request.body())
        .map_err(|error| ApiError::bad_request(format!("the body: {error}")))?;
    let Question { sql, values, limit, write } = question;
    if write && !may_write {
        let message =
            "`write` is true, but this server only reads by SQL: start it with `--sql-write`";
        return Err(ApiError::bad_request(message));
    }
    let limit = limit.unwrap_or(ROWS);
    if !(1..=ROWS_MAX).contains(&limit) {
        let message = format!("`limit` is {limit}; it must be between 1 and {ROWS_MAX}");
        return Err(ApiError::bad_request(message));
    }
    let values: Vec<Value> = values.into_iter().map(value).collect::<Result<_>>()?;
    let verb = if write { "writes" } else { "reads" };
    log::info!(target: "marmota::sql", "{} {verb}: {sql}", caller.caller().name);
    let is_postgres = store.capability().name == "postgres";
    let begun = Instant::now();
    let mut rows = SqlAnswer { limit, ..SqlAnswer::default() };
    let done = match (write, is_postgres) {
        (true, true) => write_in_time(store, &sql, values).await,
        (true, false) => execute(store, &sql, values).await,
        (false, true) => read_only(store, &sql, values, &mut rows).await,
        (false, false) => read(store, &sql, values, &mut rows).await,
    };
    // The error that ended a full answer is not one of the statement.
    let done = if rows.is_full { Ok(rows.count as u64) } else { done };
    let done = done.map_err(|error| with_way_out(error, may_write, is_postgres));
    auth.report(&SecurityEvent::SqlExecuted {
        user: caller.user(),
        sql: shortened(&sql).to_owned(),
        writes: write,
        rows: done.as_ref().copied().unwrap_or(rows.count as u64),
        ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        error: done.as_ref().err().map(|error| error.message().to_owned()),
    });
    let count = done?;
    let seconds = begun.elapsed().as_secs_f64();
    let body = match write {
        true => format!("{{\"changed\":{count},\"seconds\":{seconds:.6}}}").into_bytes(),
        false => rows.into_body(seconds),
    };
    let response = Response::json_bytes(body);
    let internal = |error: marmota_http::HeaderError| Error::new(ErrorKind::Bug, error.to_string());
    Ok(response.with_header("Cache-Control", "no-store".to_owned()).map_err(internal)?)
}

/// Returns the beginning of a statement that is too long for a security event.
fn shortened(sql: &str) -> &str {
    let mut end = sql.len().min(EVENT_BYTES_MAX);
    while !sql.is_char_boundary(end) {
        end -= 1;
    }
    &sql[..end]
}

/// Replaces the methods of a program in the message of an error by what an administrator can do.
fn with_way_out(error: Error, may_write: bool, is_postgres: bool) -> Error {
    let message = match SqlRefusal::of(&error) {
        Some(SqlRefusal::ChangesRows) if may_write => {
            "the statement changes rows: send it with `\"write\":true` (Change rows)".to_owned()
        }
        Some(SqlRefusal::ChangesRows) => {
            "the statement changes rows, and this server only reads by SQL: change rows by the API, \
             or start the server with `--sql-write`"
                .to_owned()
        }
        Some(SqlRefusal::ChangesNothing) => {
            "the statement changes nothing: send it without `write` (Change rows)".to_owned()
        }
        Some(SqlRefusal::Audited { table }) => format!(
            "the statement writes to `{table}`, and SQL adds no entries to its history: change its \
             rows by the API"
        ),
        Some(SqlRefusal::OtherStatement { word, reads, writes }) => {
            let accepted = match may_write {
                true => format!("; with `write`, {}", writes.join(", ")),
                false => String::new(),
            };
            format!(
                "`{}` is not allowed: a statement begins with {}{accepted}. Tables are changed by \
                 the application file (Tables)",
                excerpt(word),
                reads.join(", ")
            )
        }
        None if is_postgres && error.kind() == ErrorKind::Timeout => {
            let seconds = TIMEOUT.as_secs();
            format!("the statement took longer than {seconds} s and was rolled back")
        }
        None => return error,
    };
    Error::new(error.kind(), message)
}

/// Limits the time of the following statements of a transaction on PostgreSQL.
///
/// `sql` would undo the setting, as everything that a statement changes.
async fn limit_time(transaction: &Store, read_only: bool) -> Result<()> {
    let settings = "WITH given (mode, ms) AS (SELECT ?::text, ?::text) \
                    SELECT set_config('transaction_read_only', mode, true), \
                    set_config('statement_timeout', ms, true) FROM given";
    let mode = if read_only { "on" } else { "off" };
    let timeout = TIMEOUT.as_millis().to_string();
    transaction.execute(settings).bind(mode).bind(timeout).await.map(drop)
}

/// Writes in a transaction with a time limit for its statement; returns the number of changed rows.
async fn write_in_time(store: &Store, sql: &str, values: Vec<Value>) -> Result<u64> {
    let transaction = store.begin().await?;
    limit_time(&transaction, false).await?;
    let changed = execute(&transaction, sql, values).await?;
    transaction.commit().await?;
    Ok(changed)
}

/// Executes a statement that writes; returns the number of changed rows.
async fn execute(store: &Store, sql: &str, values: Vec<Value>) -> Result<u64> {
    values.into_iter().fold(store.execute(sql), |statement, value| statement.bind(value)).await
}

/// Reads rows in a read-only transaction, which cannot become one that writes after its first
/// statement; returns their number.
async fn read_only(
    store: &Store,
    sql: &str,
    values: Vec<Value>,
    rows: &mut SqlAnswer,
) -> Result<u64> {
    let transaction = store.begin().await?;
    let done = async {
        limit_time(&transaction, true).await?;
        read(&transaction, sql, values, rows).await
    };
    let done = done.await;
    let ended = transaction.rollback().await;
    done.and_then(|count| ended.map(|_| count))
}

/// Reads rows up to the limits of an answer; returns their number.
async fn read(store: &Store, sql: &str, values: Vec<Value>, rows: &mut SqlAnswer) -> Result<u64> {
    let query = values.into_iter().fold(store.sql(sql), |query, value| query.bind(value));
    query.map(|row| rows.push(row)).await?;
    Ok(rows.count as u64)
}

impl SqlAnswer {
    /// Returns the answer as JSON.
    fn into_body(self, seconds: f64) -> Vec<u8> {
        let mut body = b"{\"columns\":".to_vec();
        body.extend(self.columns.as_deref().unwrap_or(b"[]"));
        body.extend(b",\"rows\":[");
        body.extend(&self.rows);
        let rest = format!("],\"is_complete\":{},\"seconds\":{seconds:.6}}}", !self.is_full);
        body.extend(rest.as_bytes());
        body
    }

    /// Adds a row. An error ends the statement.
    fn push(&mut self, row: &SqlRow<'_>) -> Result<()> {
        let columns = row.columns().list();
        self.columns.get_or_insert_with(|| {
            let mut names = vec![b'['];
            for (at, column) in columns.iter().enumerate() {
                if at > 0 {
                    names.push(b',');
                }
                write_string(&mut names, &column.name);
            }
            names.push(b']');
            names
        });
        if self.count == self.limit || self.rows.len() > ANSWER_BYTES {
            self.is_full = true;
            return Err(Error::new(ErrorKind::Invalid, "the answer is full"));
        }
        self.rows.extend(if self.count == 0 { &b"["[..] } else { &b",["[..] });
        for (at, (column, value)) in columns.iter().zip(row.values()).enumerate() {
            if at > 0 {
                self.rows.push(b',');
            }
            match &column.kind {
                Some(kind) => write_value_as(&mut self.rows, kind, *value),
                None => write_value(&mut self.rows, *value),
            }
        }
        self.rows.push(b']');
        self.count += 1;
        Ok(())
    }
}

/// Returns a value to bind.
fn value(json: serde_json::Value) -> Result<Value> {
    use serde_json::Value as Json;
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(value),
        Json::String(text) => Value::Text(text),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::Int(whole),
            (None, Some(float)) => Value::Float(float),
            (None, None) => {
                let message = format!("`values` has the number {number}, which is too large");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        },
        Json::Array(_) | Json::Object(_) => {
            let message =
                "`values` must have texts, numbers, booleans and nulls; write JSON as a text";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    })
}
