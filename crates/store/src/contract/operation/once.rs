//! Batches with an idempotency key, which are executed once: the answer is stored in an internal
//! table of the store, in the same transaction as the writes.
//!
//! So a repeat finds the answer if and only if the writes were executed, also after a crash. Two
//! concurrent batches are executed one after the other, like all writes to a table: the second
//! finds the answer of the first.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Error, Result, Table, Timestamp, ValueRef, Violation, text};
use sha2::{Digest, Sha256};

use super::outcome::Outcome;

/// The table of the answers.
///
/// It exists only in a store that is opened with
/// [`StoreBuilder::idempotency`](crate::StoreBuilder::idempotency), in each of its databases.
pub const ANSWERS: &str = "marmota_answer";
/// The maximum length of a key in bytes.
///
/// The draft of the header `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header) sets no
/// limit; 255 bytes fit an indexed column of every engine.
pub const KEY_BYTES_MAX: usize = 255;
/// Separates a key from the number of its part: a header cannot contain this byte.
const PART: char = '\u{1f}';

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

/// A hash of a request: equal requests have equal hashes, at any time.
///
/// It is SHA-256 (FIPS 180-4) over the parts, each with its length as 8 bytes, little-endian, in
/// front: so `ab` + `c` differs from `a` + `bc`.
///
/// ```
/// use marmota_model::ValueRef;
/// use marmota_store::operation::{Fingerprint, OnceKey};
///
/// let mut request = Fingerprint::default();
/// request.add(b"POST /orders");
/// request.add_value(ValueRef::Int(3));
/// let key = OnceKey::new("order-7", &request)?;
/// assert_eq!(key.parts().0, "order-7");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// Adds a part.
    pub fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// Adds a value with its kind: the integer 1 and the text `1` differ.
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

    /// Adds the name of a kind, and the bytes of a value of variable length.
    fn pair(&mut self, kind: &[u8], bytes: &[u8]) {
        self.add(kind);
        self.add(bytes);
    }

    /// Returns the hash of all parts so far.
    pub(crate) fn bytes(&self) -> [u8; 32] {
        self.0.clone().finalize().into()
    }
}

/// Returns the bytes of a value of eight bytes, after a byte for its kind.
fn tagged(tag: u8, number: i64) -> [u8; 9] {
    let mut bytes = [tag; 9];
    bytes[1..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// An idempotency key, with the hash and the time of its request.
///
/// The time is that of its creation, by the system clock: a stored answer expires by it
/// ([`Idempotency::kept_for`]).
#[derive(Clone, Debug)]
pub struct OnceKey {
    /// The key as it is stored: as given, with the parts that [`OnceKey::part`] and `of_caller`
    /// append.
    pub(crate) key: String,
    /// The hash of the request. Another request with the same key is refused.
    pub(crate) request: [u8; 32],
    pub(crate) now: Timestamp,
    /// The caller, if callers have rights.
    pub(crate) caller: Option<String>,
}

impl OnceKey {
    /// Creates the key of a request that is executed once. `key` has 1 to [`KEY_BYTES_MAX`] bytes
    /// and is chosen by the caller, usually a random UUID.
    ///
    /// ```
    /// use marmota_model::ErrorKind;
    /// use marmota_store::operation::{Fingerprint, OnceKey};
    /// let error = OnceKey::new("", &Fingerprint::default()).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Invalid);
    /// ```
    ///
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
    pub(crate) fn given(&self) -> &str {
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
///
/// Both an original and a repeated request get the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The bytes that were made when the batch was executed.
    pub bytes: Vec<u8>,
    /// True if the batch was executed by an earlier request.
    pub repeated: bool,
}

/// The idempotency settings of a batch that is executed once.
///
/// An engine passes it to [`BatchMachine`](crate::operation::BatchMachine) or
/// [`BatchDriver`](crate::operation::BatchDriver) with the rest of the batch, and need not read it.
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
}

/// The error for a key that cannot be used.
pub(crate) fn refused(key: &str, rule: &str, message: String) -> Error {
    Error::invalid(vec![Violation {
        field: "idempotency_key".to_owned(),
        value: format!("{:?}", text::excerpt(key)),
        rule: rule.to_owned(),
        message,
    }])
}
