//! Prepares rows for an engine: fills in keys, timestamps, versions and defaults, sanitizes texts,
//! then checks the rules. Structs, records, batches and REST bodies use the same code.
//!
//! The order is the same for all writes: the key, timestamps and the version, defaults, sanitizers,
//! then all rules at once, so that an error names every field at fault. Uniqueness and references are
//! checked by the engine afterwards.
//!
//! ```
//! use marmota_model::{ErrorKind, Field, Kind, Role, Schema, Scratch, Table, ValueRef};
//! use marmota_store::prepare::{self, ValueSource, WriteTimestamp};
//!
//! let fields = vec![
//!     Field::new("id", Kind::I64).role(Role::Key),
//!     Field::new("name", Kind::TEXT),
//!     Field::new("note", Kind::TEXT).nullable(true),
//! ];
//! let table = Table::new(Schema::new("person", fields))?;
//! let mut row = [ValueRef::Int(0), ValueRef::Text("Ana"), ValueRef::Absent];
//! let (stamp, scratch) = (WriteTimestamp::now(&table), Scratch::new());
//! prepare::insert(&table, &mut row, ValueSource::Values, stamp, &scratch)?;
//! // The engine generates the key; the optional field is NULL.
//! assert_eq!(row, [ValueRef::Absent, ValueRef::Text("Ana"), ValueRef::Null]);
//!
//! let mut row = [ValueRef::Absent; 3];
//! let error = prepare::insert(&table, &mut row, ValueSource::Values, stamp, &scratch).unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::Invalid);
//! assert_eq!(error.violations()[0].field, "name");
//! # Ok::<(), marmota_model::Error>(())
//! ```

use marmota_model::rule::violation;
use marmota_model::{
    Error, ErrorKind, Field, KeyKind, Result, Scratch, Table, Timestamp, Uuid, ValueRef, Violation,
};

/// The source of a row, which determines how much of it has to be checked.
///
/// Both are checked against the rules of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// A struct: its types need no check.
    Struct,
    /// Any other source.
    Values,
}

/// The timestamp that all rows of one write share.
///
/// It is the system clock's time, in microseconds (UTC), or zero if the table needs none.
#[derive(Clone, Copy, Debug)]
pub struct WriteTimestamp {
    now: Timestamp,
}

impl WriteTimestamp {
    /// Reads the system clock if the table has a field for it.
    #[must_use]
    pub fn now(table: &Table) -> Self {
        Self::by(table, Timestamp::now)
    }

    /// Reads the clock `clock` if the table has a field for it.
    pub(crate) fn by(table: &Table, clock: impl FnOnce() -> Timestamp) -> Self {
        let wanted = table.created_at().is_some() || table.updated_at().is_some();
        Self { now: if wanted { clock() } else { Timestamp::default() } }
    }

    /// Returns the time as a value of a row.
    #[must_use]
    pub const fn value(self) -> ValueRef<'static> {
        ValueRef::Timestamp(self.now)
    }
}

/// Prepares a row for an insert.
///
/// | field | before | after |
/// |---|---|---|
/// | automatic key | 0, NULL or absent | absent: the engine generates it |
/// | UUID key | nil, NULL or absent | a new UUID, version 7 (RFC 9562) |
/// | text key | empty or absent | an error |
/// | composite key | empty, NULL, absent, or the text of its fields | the text of its fields |
/// | created-at, updated-at | any | `stamp` |
/// | version | any | 1 |
/// | other, absent | | its default, or NULL if it is optional, otherwise an error |
/// | with a default expression, absent | | absent: the store evaluates it in the transaction of the write |
/// | computed, generated | | that of a struct becomes absent; another is compared with the computed value |
///
/// The row has one value for each field of the table, in order. Texts that a sanitizer changes are
/// stored in `scratch`.
///
/// # Errors
/// [`marmota_model::ErrorKind::Invalid`] with a violation for each invalid field.
pub fn insert<'a>(
    table: &'a Table,
    row: &mut [ValueRef<'a>],
    origin: ValueSource,
    stamp: WriteTimestamp,
    scratch: &'a Scratch,
) -> Result<()> {
    let mut violations = Vec::new();
    insert_into(table, row, origin, stamp, scratch, &mut violations);
    finish(violations)
}

/// [`insert`] that adds its violations to a list.
pub fn insert_into<'a>(
    table: &'a Table,
    row: &mut [ValueRef<'a>],
    origin: ValueSource,
    stamp: WriteTimestamp,
    scratch: &'a Scratch,
    violations: &mut Vec<Violation>,
) {
    let given_key = row[table.key()];
    let is_made_of_fields = prepare_key(table, row, violations);
    leave_out_computed(table, row, origin);
    if let Some(created_at) = table.created_at() {
        row[created_at] = stamp.value();
    }
    if let Some(updated_at) = table.updated_at() {
        row[updated_at] = stamp.value();
    }
    if let Some(version) = table.version() {
        row[version] = ValueRef::Int(1);
    }
    fill_absent(table, row, violations);
    table.sanitize(row, scratch);
    check(table, row, origin, violations);
    if is_made_of_fields {
        make_key(table, row, given_key, scratch, violations);
    }
}

/// Prepares a row for an update of a stored one: the fields with a value are written, the others
/// are unchanged.
///
/// The key, the created-at field and the version become absent; the engine increments the version.
/// The updated-at field becomes `stamp`.
///
/// # Errors
/// Those of [`insert`].
pub fn update<'a>(
    table: &'a Table,
    row: &mut [ValueRef<'a>],
    origin: ValueSource,
    stamp: WriteTimestamp,
    scratch: &'a Scratch,
) -> Result<()> {
    let mut violations = Vec::new();
    update_into(table, row, origin, stamp, scratch, &mut violations);
    finish(violations)
}

/// [`update`] that adds its violations to a list.
pub fn update_into<'a>(
    table: &'a Table,
    row: &mut [ValueRef<'a>],
    origin: ValueSource,
    stamp: WriteTimestamp,
    scratch: &'a Scratch,
    violations: &mut Vec<Violation>,
) {
    row[table.key()] = ValueRef::Absent;
    for field in [table.created_at(), table.version()].into_iter().flatten() {
        row[field] = ValueRef::Absent;
    }
    leave_out_computed(table, row, origin);
    if let Some(updated_at) = table.updated_at() {
        row[updated_at] = stamp.value();
    }
    table.sanitize(row, scratch);
    check(table, row, origin, violations);
}

/// Fills absent fields with their default or NULL, like an insert, for a write that replaces a row
/// as a whole. Blobs, which reads leave out by default, stay as they are, and so do computed
/// and generated fields, fields with a default expression, those of a composite key, and those that the caller of
/// a [view](Table::view) may not write.
///
/// A field without a default that is not optional is a violation.
pub fn fill_for_replace<'a>(
    table: &'a Table,
    row: &mut [ValueRef<'a>],
    violations: &mut Vec<Violation>,
) {
    let kept = [Some(table.key()), table.created_at(), table.updated_at(), table.version()];
    let blobs = table.read_by_default();
    for position in 0..row.len() {
        let is_kept = kept.contains(&Some(position))
            || !table.is_updated(position)
            || table.key_fields().contains(&position);
        if row[position].is_absent() && blobs.contains(position) && !is_kept {
            fill_one(table, row, position, violations);
        }
    }
}

/// The error for a row that has other fields than the rows that it is upserted with.
#[cold]
#[must_use]
pub fn not_the_same_fields() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "rows that are upserted together must set the same fields, but this row sets other fields \
         than the first; upsert it separately, or in a batch",
    )
}

/// Returns an error if there are violations.
///
/// ```
/// use marmota_store::prepare;
/// assert!(prepare::finish(Vec::new()).is_ok());
/// ```
///
/// # Errors
/// [`marmota_model::ErrorKind::Invalid`] with all violations.
pub fn finish(violations: Vec<Violation>) -> Result<()> {
    if violations.is_empty() { Ok(()) } else { Err(Error::invalid(violations)) }
}

/// The violation of a reference to a missing row. It is the same for every engine, and for a row
/// that the caller may not see.
#[cold]
#[must_use]
pub fn no_target(field: &Field, key: ValueRef<'_>, target: &str) -> Violation {
    let message = format!("must be the key of a row of `{target}`");
    violation(field, key, "reference", message)
}

/// Leaves out the computed and generated fields of a struct, which always has values for them.
fn leave_out_computed(table: &Table, row: &mut [ValueRef<'_>], origin: ValueSource) {
    if origin == ValueSource::Struct {
        let computed = table.computed_fields().union(table.generated_fields());
        computed.iter().for_each(|field| row[field] = ValueRef::Absent);
    }
}

/// Prepares the key of a new row, as the table at [`insert`] states. Returns true if it is to be made
/// of other fields.
fn prepare_key(table: &Table, row: &mut [ValueRef<'_>], violations: &mut Vec<Violation>) -> bool {
    let key = table.key();
    let field = &table.fields()[key];
    match (table.key_kind(), row[key]) {
        (KeyKind::Text, _) if table.has_composite_key() => {
            row[key] = ValueRef::Absent;
            return true;
        }
        (KeyKind::Auto, ValueRef::Int(0) | ValueRef::Null | ValueRef::Absent) => {
            row[key] = ValueRef::Absent;
        }
        (KeyKind::Auto, ValueRef::Int(number)) if number < 0 => {
            violations.push(violation(field, row[key], "range", "a key is a positive integer"));
        }
        (KeyKind::Uuid, ValueRef::Null | ValueRef::Absent) => {
            row[key] = ValueRef::Uuid(Uuid::now_v7());
        }
        (KeyKind::Uuid, ValueRef::Uuid(uuid)) if uuid.is_nil() => {
            row[key] = ValueRef::Uuid(Uuid::now_v7());
        }
        (KeyKind::Text, ValueRef::Text("")) => {
            violations.push(violation(field, row[key], "not_empty", "a key must not be empty"));
        }
        (KeyKind::Text, ValueRef::Null | ValueRef::Absent) => {
            violations.push(violation(field, ValueRef::Null, "required", "a key must be given"));
            row[key] = ValueRef::Absent;
        }
        _ => {}
    }
    false
}

/// Makes the text of a composite key, unless one of its fields is at fault.
fn make_key<'a>(
    table: &Table,
    row: &mut [ValueRef<'a>],
    given: ValueRef<'_>,
    scratch: &'a Scratch,
    violations: &mut Vec<Violation>,
) {
    let key = table.key();
    let is_at_fault = |violation: &Violation| {
        table.key_fields().iter().any(|&field| table.fields()[field].name == violation.field)
    };
    if violations.iter().any(is_at_fault) {
        return;
    }
    let Some(text) = table.key_text_of(row) else { return };
    let is_given = !matches!(given, ValueRef::Absent | ValueRef::Null | ValueRef::Text(""));
    if is_given && given != ValueRef::Text(&text) {
        let message = format!("is made of other fields, here {text:?}; leave it out");
        violations.push(violation(&table.fields()[key], given, "computed", message));
    }
    row[key] = ValueRef::Text(scratch.text(&text));
}

/// Fills all absent fields except the key.
fn fill_absent<'a>(table: &'a Table, row: &mut [ValueRef<'a>], violations: &mut Vec<Violation>) {
    let key = table.key();
    let mut from = 0;
    // Usually nothing is absent, and the search is the whole cost.
    while let Some(found) = row[from..].iter().position(ValueRef::is_absent) {
        if from + found != key {
            fill_one(table, row, from + found, violations);
        }
        from += found + 1;
    }
}

/// Fills one absent field with its default or NULL, or adds a violation. A field that the
/// store determines stays absent.
#[cold]
fn fill_one<'a>(
    table: &'a Table,
    row: &mut [ValueRef<'a>],
    position: usize,
    violations: &mut Vec<Violation>,
) {
    let field = &table.fields()[position];
    // A field with an invalid value is reported only once.
    let known = |violations: &[Violation]| violations.iter().any(|v| v.field == field.name);
    if table.is_determined(position) {
        // The store evaluates its expression in the transaction of the write, or the database does.
        return;
    }
    match table.default(position) {
        Some(default) => row[position] = default,
        None if field.nullable => row[position] = ValueRef::Null,
        None if known(violations) => {}
        None if table.find_written(&field.name).is_none() => {
            let mut violation = violation(field, ValueRef::Null, "required", NOT_WRITTEN);
            violation.field = String::new();
            violations.push(violation);
        }
        None => {
            violations.push(violation(field, ValueRef::Null, "required", "must be given"));
        }
    }
}

/// Why a caller who may not write a required field inserts no row.
const NOT_WRITTEN: &str = "a required field is missing that the caller may not write";

/// Checks the rules; a struct's values already have the types of their fields.
fn check(
    table: &Table,
    row: &[ValueRef<'_>],
    origin: ValueSource,
    violations: &mut Vec<Violation>,
) {
    match origin {
        ValueSource::Struct => table.check_typed(row, violations),
        ValueSource::Values => table.check(row, violations),
    }
}
