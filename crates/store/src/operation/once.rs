//! Batches with an idempotency key, which are executed once: the answer is stored in an internal
//! table of the store, in the same transaction as the writes.
//!
//! So a repeat finds the answer if and only if the writes were executed, also after a crash. Two
//! concurrent batches are executed one after the other, like all writes to a table: the second
//! finds the answer of the first.

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

/// The table of the answers.
pub const ANSWERS: &str = "marmota_answer";
/// The maximum length of a key in bytes.
pub const KEY_BYTES_MAX: usize = 255;
/// Separates a key from the number of its part: a header cannot contain this byte.
const PART: char = '\u{1f}';
/// Old and superfluous answers are deleted once for this many new answers.
const TRIM_EVERY: i64 = 64;

const KEY: usize = 1;
const REQUEST: usize = 2;
const ANSWER: usize = 3;
const AT: usize = 4;
const REPEATS: usize = 5;
const CALLER: usize = 6;
/// All answers are counted each time their number may have grown by 1 / `COUNTS_OF_ALL` of the
/// maximum.
const COUNTS_OF_ALL: u64 = 25;

/// The limits of stored answers: their age and their number; see
/// [`crate::StoreBuilder::idempotency`].
///
/// ```
/// use marmota_store::Idempotency;
/// let few = Idempotency { caller_keys_max: 500, ..Idempotency::default() };
/// assert_eq!(few.keys_max, 100_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// The time after which a key is deleted: 24 hours.
    pub kept_for: Duration,
    /// The number of keys that are kept, the newest (and up to 64 more, or a 25th): 100,000.
    pub keys_max: u64,
    /// The number of keys of one caller that are kept, the newest (and those of up to 64 later
    /// requests), if callers have rights ([`crate::Store::with_rights`]): 10,000. So no caller can
    /// displace the keys of all others; anonymous callers share one number.
    pub caller_keys_max: u64,
}

impl Default for Idempotency {
    fn default() -> Self {
        let kept_for = Duration::from_secs(24 * 3600);
        Self { kept_for, keys_max: 100_000, caller_keys_max: 10_000 }
    }
}

/// Returns the schema of the table of answers.
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

/// A hash of a request: equal requests have equal hashes, at any time.
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

/// An idempotency key, with the hash and the time of its request.
#[derive(Clone, Debug)]
pub struct OnceKey {
    key: String,
    request: [u8; 32],
    now: Timestamp,
    /// The caller, if callers have rights.
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

    /// Returns the key of one part of the request, if each part is executed separately.
    #[must_use]
    pub fn part(mut self, number: u64) -> Self {
        self.key.push(PART);
        self.key.push_str(&number.to_string());
        self
    }

    /// Returns the key as it was given.
    fn given(&self) -> &str {
        self.key.split(PART).next().unwrap_or_default()
    }

    /// Returns the key for one caller: the same key of another caller differs.
    pub(crate) fn of_caller(&self, caller: &str) -> Self {
        let mut both = Fingerprint::default();
        both.add(caller.as_bytes());
        both.add(self.key.as_bytes());
        let hash: String = both.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        // The key as given stays in front.
        let key = format!("{}{PART}{hash}", self.given());
        Self { key, caller: Some(caller.to_owned()), ..self.clone() }
    }

    /// Returns the key, and the hash of its request.
    #[must_use]
    pub fn parts(&self) -> (&str, &[u8; 32]) {
        (&self.key, &self.request)
    }

    /// Makes the same key from its parts in another place, such as on a server.
    ///
    /// # Errors
    /// Those of [`OnceKey::new`].
    pub fn of_parts(key: impl Into<String>, request: [u8; 32]) -> Result<Self> {
        let key = key.into();
        // Parts and callers add at most 128 bytes to the key.
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
    /// The bytes that were made when the batch was executed.
    pub bytes: Vec<u8>,
    /// True if the batch was executed by an earlier request.
    pub repeated: bool,
}

/// The idempotency settings of a batch that is executed once.
pub struct Once<'a> {
    /// The table of answers.
    pub table: &'a Arc<Table>,
    /// The limits of stored answers.
    pub limits: Idempotency,
    /// The key of the answer.
    pub key: Cow<'a, OnceKey>,
    /// Makes the answer from the results of the writes.
    pub answer: &'a mut dyn FnMut(&[Result<Outcome>]) -> Vec<u8>,
    /// Receives the answer.
    pub answered: &'a mut Option<Answered>,
}

/// The stored answer of an earlier batch with the same key.
pub(super) enum Recalled {
    Nothing,
    /// The answer has expired; this write deletes it.
    TooOld(Write),
    /// The answer, and the write that counts this repeat.
    Answer(Write, Vec<u8>),
}

impl Once<'_> {
    /// Lends the same for a shorter lifetime.
    pub(crate) fn lend(&mut self) -> Once<'_> {
        let Self { table, limits, key, answer, answered } = self;
        Once { table, limits: *limits, key: Cow::Borrowed(&**key), answer: &mut **answer, answered }
    }

    /// Lends the same for one caller.
    pub(crate) fn lend_to(&mut self, caller: &str) -> Once<'_> {
        let key = Cow::Owned(self.key.of_caller(caller));
        Once { key, ..self.lend() }
    }

    /// Returns the query for an answer.
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

    /// Evaluates the row that was found; no values if there is no row.
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
            let message = "was used for another request; a new request takes a new key";
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
