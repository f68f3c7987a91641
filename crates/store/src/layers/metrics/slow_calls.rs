//! Slow calls: each is logged in one line, and the last of them are kept. They contain no value of
//! a parameter, a row or a filter, since those may be confidential.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use marmota_model::text::{counted, excerpt};
use marmota_model::{FilterExpr, Table, Timestamp};
use parking_lot::Mutex;
use serde::Serialize;

use super::session_counts::Who;
use crate::contract::operation::Operation;

/// The number of calls that are kept.
const KEPT: usize = 100;

/// A slow call, without any value of a parameter, a row or a filter.
///
/// ```
/// # use std::time::Duration;
/// # use marmota_derive::Model;
/// # use marmota_memory::Memory;
/// # use marmota_store::Store;
/// # use marmota_store::meter::Metering;
/// # #[derive(Clone, Debug, Model)]
/// # struct City { id: i64, name: String }
/// # let bourges = City { id: 0, name: "Bourges".to_owned() };
/// let metering = Metering::default().slow_call(Duration::ZERO);
/// let store = Store::builder(Memory::new()).model::<City>().metering(metering).open()?;
/// store.with_actor("ann").list::<City>().filter(City::NAME.eq("Bourges")).run()?;
/// let slow = store.activity().expect("it counts").slow;
/// assert_eq!((&*slow[0].what, slow[0].who.as_deref()), ("list of city by name", Some("ann")));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SlowCall {
    /// The time at which it ended.
    pub at: Timestamp,
    /// The operation: a verb with its table and the fields of its filter, an SQL statement without
    /// its literals, or a method of a service.
    pub what: String,
    /// Its time in seconds.
    pub seconds: f64,
    /// Rows that were read or written.
    pub rows: u64,
    /// The caller, if known.
    pub who: Option<String>,
    /// Its session.
    pub session: Option<String>,
}

/// The calls of a store that took at least this long; the last [`KEPT`] of them.
pub(super) struct SlowCalls {
    from: Duration,
    kept: Mutex<VecDeque<SlowCall>>,
}

impl SlowCalls {
    /// Creates an empty list of calls that take at least `from`.
    pub(super) fn new(from: Duration) -> Self {
        Self { from, kept: Mutex::default() }
    }

    /// Returns true if a call with this time has to be noted. It is checked before the call is
    /// described, which allocates.
    pub(super) fn is_slow(&self, time: Duration) -> bool {
        time >= self.from
    }

    /// Returns the calls that are kept, the newest last.
    pub(super) fn kept(&self) -> Vec<SlowCall> {
        self.kept.lock().iter().cloned().collect()
    }

    /// Notes an operation, which is described by its verb, its table and the fields of its filter.
    #[cold]
    pub(super) fn note_operation(
        &self,
        time: Duration,
        rows: u64,
        who: Who<'_>,
        verb: &str,
        operation: &Operation<'_>,
    ) {
        self.note(time, rows, who, described(verb, operation));
    }

    /// Logs a call, and keeps it in place of the oldest one.
    #[cold]
    pub(super) fn note(&self, time: Duration, rows: u64, who: Who<'_>, what: String) {
        let call = SlowCall {
            at: Timestamp::now(),
            what,
            seconds: time.as_secs_f64(),
            rows,
            who: who.name.map(str::to_owned),
            session: who.session.map(|session| session.name().to_owned()),
        };
        log::warn!(
            target: "marmota::slow",
            "{} took {:.1} ms: {}{}{}",
            call.what,
            call.seconds * 1e3,
            counted(call.rows, "row"),
            call.who.as_ref().map(|who| format!(", by {who}")).unwrap_or_default(),
            call.session.as_ref().map(|session| format!(" ({session})")).unwrap_or_default(),
        );
        let mut kept = self.kept.lock();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(call);
    }
}

/// Describes an operation without any value.
fn described(verb: &str, operation: &Operation<'_>) -> String {
    let mut text = verb.to_owned();
    if let Some(table) = operation.table() {
        let _ = write!(text, " of {}", table.name());
    }
    match operation {
        Operation::List { table, query } | Operation::ListEach { table, query, .. } => {
            by_fields(&mut text, table, query.filter.as_ref());
            if let Some(limit) = query.limit {
                let _ = write!(text, ", at most {limit}");
            }
        }
        Operation::ListRanked { table, query } => {
            by_fields(&mut text, table, query.filter.as_ref());
            let _ = write!(text, ", the best {}", query.limit);
        }
        Operation::Group { table, query, .. } => {
            by_fields(&mut text, table, query.filter.as_ref());
        }
        Operation::Count { table, filter }
        | Operation::Estimate { table, filter }
        | Operation::DeleteWhere { table, filter } => {
            by_fields(&mut text, table, *filter);
        }
        Operation::Batch { writes, .. } => {
            let _ = write!(text, " of {} writes", writes.len());
        }
        Operation::Sql { statement, .. } => {
            let _ = write!(text, ": {}", excerpt(&without_literals(statement.text)));
        }
        _ => {}
    }
    text
}

/// Appends the names of the fields that a filter compares, without the values.
fn by_fields(text: &mut String, table: &Table, filter: Option<&FilterExpr>) {
    let Some(filter) = filter else { return };
    let fields = filter.fields(table);
    let names = table.fields().iter().enumerate().filter(|(place, _)| fields.contains(*place));
    let names: Vec<&str> = names.map(|(_, field)| &*field.name).collect();
    let _ = write!(text, " by {}", names.join(", "));
}

/// Returns SQL with `?` instead of texts and numbers.
fn without_literals(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql.chars().peekable();
    let mut in_word = false;
    while let Some(one) = rest.next() {
        match one {
            '\'' => {
                text.push('?');
                // A doubled quote ends one text and begins the next, which gives the same result.
                for inner in rest.by_ref() {
                    if inner == '\'' {
                        break;
                    }
                }
            }
            digit if digit.is_ascii_digit() && !in_word => {
                text.push('?');
                while rest.next_if(|next| next.is_ascii_alphanumeric() || *next == '.').is_some() {}
            }
            other => {
                in_word = other.is_alphanumeric() || matches!(other, '_' | '$');
                text.push(other);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_told_without_its_literals() {
        for (sql, told) in [
            (
                "SELECT a1 FROM t2 WHERE b = 'it''s me' AND c > 12.5",
                "SELECT a1 FROM t2 WHERE b = ?? AND c > ?",
            ),
            ("SELECT $1, x'00ff', 1e9", "SELECT $1, x?, ?"),
            ("SELECT 'never ended", "SELECT ?"),
        ] {
            assert_eq!(without_literals(sql), told);
        }
    }
}
