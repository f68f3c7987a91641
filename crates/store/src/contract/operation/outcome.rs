//! The result of an operation.

use std::num::NonZeroU64;

use marmota_model::Value;

use super::conflict::{UpsertEffect, UpsertResult};

/// The result of an operation.
///
/// [`Operation`](super::Operation) has a table of the fields that each operation sets; the others
/// keep their defaults.
///
/// ```
/// use marmota_model::Value;
/// use marmota_store::operation::{UpsertEffect, Keys, Outcome};
///
/// let inserted = Outcome { keys: Keys::One(Value::Int(1)), ..Outcome::rows(1) };
/// assert_eq!(inserted.effect, UpsertEffect::Inserted);
/// assert_eq!(inserted.version, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The number of rows lent, counted or changed.
    pub rows: u64,
    /// The keys of the inserted rows.
    pub keys: Keys,
    /// The version of the written row, if the table has one and one row was written.
    pub version: Option<i64>,
    /// The sum after an increment; absent otherwise.
    pub value: Value,
    /// The effect of an insert of one row.
    pub effect: UpsertEffect,
    /// The number of the commit in the change feed, if the engine records changes and the operation
    /// committed some. For a batch whose stored answer is repeated, it is the number of the last
    /// visible commit: that of the first execution, or a later one. [`Store::position_of`](crate::Store::position_of) makes a position of it.
    pub commit: Option<NonZeroU64>,
    /// True if a replica executed the read ([`Store::prefer_replica`](crate::Store::prefer_replica)).
    pub from_replica: bool,
}

impl Outcome {
    /// An outcome with only this number of rows.
    #[must_use]
    pub fn rows(rows: u64) -> Self {
        Self { rows, ..Self::default() }
    }
}

/// The keys of inserted rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Keys {
    /// No row was inserted, or the rows had their keys already.
    #[default]
    Known,
    /// One row, with this key.
    One(Value),
    /// Rows in the order of the insert, with consecutive automatic keys.
    Range {
        /// The key of the first row.
        first: i64,
    },
    /// Rows in the order of the insert.
    Each(Vec<Value>),
    /// Rows in the order of the insert, each with its effect: for an
    /// [`Operation::InsertMany`](super::Operation::InsertMany) with a conflict action.
    Upserted(Vec<UpsertResult<Value>>),
}
