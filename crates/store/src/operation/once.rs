//! A batch that takes place once, however often it is asked for: its answer is
//! kept in a table of the store's own, in the same transaction as its writes.
//!
//! So a repeat finds the answer if and only if the writes took place, also
//! after a crash. Two at once come one after the other, as all writes of a
//! table do: the second finds what the first has kept.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use marmota_model::{
    Comparison, Error, Field, FilterExpr, Index, Kind, Query, Result, Role, Schema, Table,
    Timestamp, Value, ValueRef, Violation, text,
};
use sha2::{Digest, Sha256};

use super::trimming::{Pool, Trimming, compare};
use super::{Keys, Outcome, Write};

/// The table of answers.
pub const ANSWERS: &str = "marmota_answer";
/// Bytes of a key at most.
pub const KEY_BYTES_MAX: usize = 255;
/// Stands in front of a part's number: a header has no such byte.
const PART: char = '\u{1f}';
/// Answers that have become too old or too many go when so many have come.
const TRIM_EVERY: i64 = 64;

const KEY: usize = 1;
const REQUEST: usize = 2;
const ANSWER: usize = 3;
const AT: usize = 4;
const REPEATS: usize = 5;
const CALLER: usize = 6;
/// All answers are counted when this part of them may have come.
const COUNTS_OF_ALL: u64 = 25;

/// For how long and how many answers are kept; see
/// [`crate::StoreBuilder::idempotency`].
///
/// ```
/// use marmota_store::Idempotency;
/// let few = Idempotency { caller_keys_max: 500, ..Idempotency::default() };
/// assert_eq!(few.keys_max, 100_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// A key is forgotten after this: 24 hours.
    pub kept_for: Duration,
    /// So many keys are kept, the newest (and up to 64 more, or a 25th): 100,000.
    pub keys_max: u64,
    /// So many keys of one caller are kept, the newest (and those of up to 64 later requests), where
    /// callers have rights ([`crate::Store::with_rights`]): 10,000. No caller can have all others'
    /// forgotten; anonymous callers share one number.
    pub caller_keys_max: u64,
}

impl Default for Idempotency {
    fn default() -> Self {
        let kept_for = Duration::from_secs(24 * 3600);
        Self { kept_for, keys_max: 100_000, caller_keys_max: 10_000 }
    }
}

/// The schema of the table of answers.
pub(crate) fn schema() -> Schema {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("key", Kind::TEXT).unique(true),
        Field::new("request", Kind::Blob),
        Field::new("answer", Kind::Blob),
        Field::new("at", Kind::Timestamp),
        Field::new("repeats", Kind::I64),
        Field::new("caller", Kind::TEXT).nullable(true),
    ];
    let index = |field| Index { fields: vec![field].into(), unique: false };
    Schema::new(ANSWERS, fields).indexes(vec![index(AT), index(CALLER)])
}

/// A hash of what is asked for: parts that stand for the same, whenever it is
/// asked again.
#[derive(Clone, Debug, Default)]
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// Adds a part.
    pub fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// Adds a value.
    pub fn add_value(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Absent => self.add(b"absent"),
            ValueRef::Null => self.add(b"null"),
            ValueRef::Bool(bool) => self.add(&[b'b', bool.into()]),
            ValueRef::Int(int) => self.add(&tagged(b'i', int)),
            ValueRef::Float(float) => self.add(&tagged(b'f', float.to_bits() as i64)),
            ValueRef::Currency(amount) => self.add(&tagged(b'c', amount.scaled())),
            ValueRef::Text(text) => self.pair(b"text", text.as_bytes()),
            ValueRef::Json(text) => self.pair(b"json", text.as_bytes()),
            ValueRef::Blob(bytes) => self.pair(b"blob", bytes),
            ValueRef::Date(date) => self.pair(b"date", date.to_string().as_bytes()),
            ValueRef::Time(time) => self.pair(b"time", time.to_string().as_bytes()),
            ValueRef::Timestamp(at) => self.pair(b"at", at.to_string().as_bytes()),
            ValueRef::Uuid(uuid) => self.pair(b"uuid", uuid.as_bytes()),
        }
    }

    fn pair(&mut self, kind: &[u8], bytes: &[u8]) {
        self.add(kind);
        self.add(bytes);
    }

    pub(crate) fn bytes(&self) -> [u8; 32] {
        self.0.clone().finalize().into()
    }
}

fn tagged(tag: u8, number: i64) -> [u8; 9] {
    let mut bytes = [tag; 9];
    bytes[1..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Whose answer is wanted: a key, what was asked for with it, and the time.
#[derive(Clone, Debug)]
pub struct OnceKey {
    key: String,
    request: [u8; 32],
    now: Timestamp,
    /// Whose it is, where callers have rights.
    caller: Option<String>,
}

impl OnceKey {
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for a key that is empty or too long.
    pub fn new(key: impl Into<String>, request: &Fingerprint) -> Result<Self> {
        let key = key.into();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            let message = format!("must have 1 to {KEY_BYTES_MAX} bytes");
            return Err(refused(&key, "length", message));
        }
        Ok(Self { key, request: request.bytes(), now: Timestamp::now(), caller: None })
    }

    /// The key of one part of what has this key, where each part takes place by itself.
    #[must_use]
    pub fn part(mut self, number: u64) -> Self {
        self.key.push(PART);
        self.key.push_str(&number.to_string());
        self
    }

    /// As it was given.
    fn given(&self) -> &str {
        self.key.split(PART).next().unwrap_or_default()
    }

    /// The key as one caller's: the same from another one is another key.
    pub(crate) fn of_caller(&self, caller: &str) -> Self {
        let mut both = Fingerprint::default();
        both.add(caller.as_bytes());
        both.add(self.key.as_bytes());
        let hash: String = both.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        // As it was given still stands in front.
        let key = format!("{}{PART}{hash}", self.given());
        Self { key, caller: Some(caller.to_owned()), ..self.clone() }
    }

    /// The key, and the hash of what is asked for with it.
    #[must_use]
    pub fn parts(&self) -> (&str, &[u8; 32]) {
        (&self.key, &self.request)
    }

    /// The same key somewhere else, such as on a server, made of its parts.
    ///
    /// # Errors
    /// As [`OnceKey::new`].
    pub fn of_parts(key: impl Into<String>, request: [u8; 32]) -> Result<Self> {
        let key = key.into();
        // What parts and callers add to it is no more than that.
        if key.is_empty() || key.len() > KEY_BYTES_MAX + 128 {
            let message = format!("must have 1 to {KEY_BYTES_MAX} bytes");
            return Err(refused(&key, "length", message));
        }
        Ok(Self { key, request, now: Timestamp::now(), caller: None })
    }
}

/// The answer to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// As it was made when the batch took place.
    pub bytes: Vec<u8>,
    /// True if that was before this time.
    pub repeated: bool,
}

/// A batch that takes place once.
pub struct Once<'a> {
    /// The table of answers.
    pub table: &'a Arc<Table>,
    /// For how long they are kept.
    pub limits: Idempotency,
    /// Whose answer is wanted.
    pub key: Cow<'a, OnceKey>,
    /// Makes the answer from what the writes came to.
    pub answer: &'a mut dyn FnMut(&[Result<Outcome>]) -> Vec<u8>,
    /// Takes it.
    pub answered: &'a mut Option<Answered>,
}

/// What was found of an earlier batch with the same key.
pub(super) enum Recalled {
    Nothing,
    /// An answer that this write is to delete.
    TooOld(Write),
    /// The answer, and the write that counts this repeat.
    Answer(Write, Vec<u8>),
}

impl Once<'_> {
    /// The same, lent for less long.
    pub(crate) fn lend(&mut self) -> Once<'_> {
        let Self { table, limits, key, answer, answered } = self;
        Once { table, limits: *limits, key: Cow::Borrowed(&**key), answer: &mut **answer, answered }
    }

    /// The same for one caller.
    pub(crate) fn lend_to(&mut self, caller: &str) -> Once<'_> {
        let key = Cow::Owned(self.key.of_caller(caller));
        Once { key, ..self.lend() }
    }

    /// The look for an answer.
    pub(super) fn query(&self) -> Query {
        let filter = FilterExpr::Compare {
            field: KEY,
            comparison: Comparison::Equal,
            value: Value::Text(self.key.key.clone()),
        };
        Query {
            filter: Some(filter),
            fields: Some(self.table.all()),
            limit: Some(1),
            ..Query::new()
        }
    }

    /// What follows from the row that was found, or from no values.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for a key of another request.
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
            let message = "was used for another request; a new request takes a new key";
            return Err(refused(self.key.given(), "same_request", message.to_owned()));
        }
        // A write, so that this answer waits for the disk as the first one did.
        let (field, by, stamp) = (REPEATS, Value::Int(1), Value::Absent);
        let count = Write::Increment { table, key, field, by, stamp };
        let answer = match std::mem::take(&mut row[ANSWER]) {
            Value::Blob(bytes) => bytes,
            _ => Vec::new(),
        };
        Ok(Recalled::Answer(count, answer))
    }

    /// The write that keeps the answer to what took place.
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

    /// Takes the answer out of the write that has kept it.
    pub(super) fn answer_of(kept: &mut Write) -> Vec<u8> {
        match kept {
            Write::Insert { row, .. } => match row.get_mut(ANSWER).map(std::mem::take) {
                Some(Value::Blob(bytes)) => bytes,
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// What is forgotten now and then, when an answer was kept: old answers, and those that are too
    /// many, of the caller and of all.
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

    fn oldest(&self) -> Timestamp {
        let kept_us = i64::try_from(self.limits.kept_for.as_micros()).unwrap_or(i64::MAX);
        let oldest = self.key.now.micros().saturating_sub(kept_us);
        Timestamp::from_micros(oldest).unwrap_or_default()
    }
}

fn refused(key: &str, rule: &str, message: String) -> Error {
    Error::invalid(vec![Violation {
        field: "idempotency_key".to_owned(),
        value: format!("{:?}", text::excerpt(key)),
        rule: rule.to_owned(),
        message,
    }])
}
