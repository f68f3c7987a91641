//! The stored answers of batches with an idempotency key: their table, the search for an answer,
//! its storage, and the deletes of old ones.
//!
//! | column | content |
//! |---|---|
//! | `key` | the key of the request, unique; with rights also a hash of the caller |
//! | `request` | the SHA-256 hash of the request |
//! | `answer` | the bytes that the first request returned |
//! | `at` | the time of the request, for expiry |
//! | `repeats` | the number of repeats |
//! | `caller` | the caller, for the limit of each |

use std::sync::Arc;

use marmota_model::{
    Comparison, Field, FilterExpr, Index, Kind, Result, Role, RowQuery, Schema, Timestamp, Value,
};

use super::trimming::{Pool, Trimming, compare};
use crate::contract::operation::once::refused;
use crate::contract::operation::{ANSWERS, Idempotency, Keys, Once, Outcome, Write};

/// Old and superfluous answers are deleted once for this many new answers.
const TRIM_EVERY: i64 = 64;

/// All answers are counted each time their number may have grown by 1 / `COUNTS_OF_ALL` of the
/// maximum.
const COUNTS_OF_ALL: u64 = 25;

/// The columns, by place.
const KEY: usize = 1;
const REQUEST: usize = 2;
const ANSWER: usize = 3;
const AT: usize = 4;
const REPEATS: usize = 5;
const CALLER: usize = 6;

/// Returns the schema of the table of answers.
pub(crate) fn answers_schema() -> Schema {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("key", Kind::TEXT).unique(true),
        Field::new("request", Kind::Blob),
        Field::new("answer", Kind::Blob),
        Field::new("at", Kind::Timestamp),
        Field::new("repeats", Kind::I64),
        Field::new("caller", Kind::TEXT).nullable(true),
    ];
    let index = |field| Index::new(vec![field]);
    Schema::new(ANSWERS, fields).indexes(vec![index(AT), index(CALLER)])
}

/// The stored answer of an earlier batch with the same key.
pub(super) enum Recalled {
    /// No request with the key was executed.
    Nothing,
    /// The answer has expired; this write deletes it.
    TooOld(Write),
    /// The answer, and the write that counts this repeat.
    Answer(Write, Vec<u8>),
}

impl Once<'_> {
    /// Returns the query for an answer.
    pub(super) fn query(&self) -> RowQuery {
        let filter = FilterExpr::Compare {
            field: KEY,
            comparison: Comparison::Equal,
            value: Value::Text(self.key.key.clone()),
        };
        RowQuery {
            filter: Some(filter),
            fields: Some(self.table.all()),
            limit: Some(1),
            ..RowQuery::new()
        }
    }

    /// Evaluates the row that was found; no values if there is no row.
    ///
    /// An expired answer is deleted, and the batch is executed again.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] if the key belongs to another request.
    pub(super) fn recall(&self, mut row: Vec<Value>) -> Result<Recalled> {
        if row.len() <= REPEATS {
            return Ok(Recalled::Nothing);
        }
        let table = Arc::clone(self.table);
        let key = std::mem::take(&mut row[table.key()]);
        if matches!(&row[AT], Value::Timestamp(at) if *at < self.oldest()) {
            return Ok(Recalled::TooOld(Write::Delete { table, key, version: None }));
        }
        if !matches!(&row[REQUEST], Value::Blob(request) if *request == self.key.request) {
            let message = "was used for another request; send a new key with each new request";
            return Err(refused(self.key.given(), "same_request", message.to_owned()));
        }
        // This is a write, so that this answer waits for the disk like the first one.
        let (field, by, stamp) = (REPEATS, Value::Int(1), Value::Absent);
        let count = Write::Increment { table, key, field, by, stamp };
        let answer = match std::mem::take(&mut row[ANSWER]) {
            Value::Blob(bytes) => bytes,
            _ => Vec::new(),
        };
        Ok(Recalled::Answer(count, answer))
    }

    /// Returns the write that stores the answer.
    ///
    /// It calls the function that makes the answer, once for each attempt of the batch.
    pub(super) fn keep(&mut self, results: &[Result<Outcome>]) -> Write {
        let bytes = (self.answer)(results);
        let row = vec![
            Value::Absent,
            Value::Text(self.key.key.clone()),
            Value::Blob(self.key.request.to_vec()),
            Value::Blob(bytes),
            Value::Timestamp(self.key.now),
            Value::Int(0),
            self.key.caller.clone().map_or(Value::Null, Value::Text),
        ];
        Write::insert(Arc::clone(self.table), row)
    }

    /// Moves the answer out of the write that has stored it.
    pub(super) fn answer_of(kept: &mut Write) -> Vec<u8> {
        match kept {
            Write::Insert { row, .. } => match row.get_mut(ANSWER).map(std::mem::take) {
                Some(Value::Blob(bytes)) => bytes,
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Returns the trimming to execute from time to time after an answer was stored: of old
    /// answers, and of those that exceed the limit of the caller or of all.
    pub(super) fn trimming(&self, kept: &Outcome) -> Trimming {
        let Keys::One(Value::Int(id)) = kept.keys else { return Trimming::default() };
        if id % TRIM_EVERY != 0 {
            return Trimming::default();
        }
        let Idempotency { keys_max, caller_keys_max, .. } = self.limits;
        let old = compare(AT, Comparison::Less, Value::Timestamp(self.oldest()));
        let mut left = Vec::new();
        let every = TRIM_EVERY as u64;
        let turns = (keys_max / COUNTS_OF_ALL / every).max(1);
        if (id.unsigned_abs() / every).is_multiple_of(turns) {
            left.push(Pool { of: None, max: keys_max });
        }
        if let Some(caller) = &self.key.caller {
            let of = compare(CALLER, Comparison::Equal, Value::Text(caller.clone()));
            left.push(Pool { of: Some(of), max: caller_keys_max });
        }
        Trimming::new(old, left)
    }

    /// Returns the time before which answers have expired.
    fn oldest(&self) -> Timestamp {
        let kept_us = i64::try_from(self.limits.kept_for.as_micros()).unwrap_or(i64::MAX);
        let oldest = self.key.now.micros().saturating_sub(kept_us);
        Timestamp::from_micros(oldest).unwrap_or_default()
    }
}
