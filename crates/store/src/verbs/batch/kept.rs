//! Encodes the results of a batch as bytes, which are stored for a repeat.

use marmota_model::{Currency, Error, ErrorKind, Result, Uuid, Value, Violation};
use serde::{Deserialize, Serialize};

use crate::contract::operation::{Keys, Outcome, UpsertEffect, Write, key_made};

/// A value in an outcome: a key or a sum.
#[derive(Serialize, Deserialize)]
enum Kept {
    None,
    Int(i64),
    Text(String),
    Uuid(Uuid),
    Currency(i64),
}

impl Kept {
    fn of(value: Option<&Value>) -> Self {
        match value {
            Some(Value::Int(int)) => Self::Int(*int),
            Some(Value::Text(text)) => Self::Text(text.clone()),
            Some(Value::Uuid(uuid)) => Self::Uuid(*uuid),
            Some(Value::Currency(amount)) => Self::Currency(amount.scaled()),
            _ => Self::None,
        }
    }

    fn value(self) -> Value {
        match self {
            Self::None => Value::Absent,
            Self::Int(int) => Value::Int(int),
            Self::Text(text) => Value::Text(text),
            Self::Uuid(uuid) => Value::Uuid(uuid),
            Self::Currency(scaled) => Value::Currency(Currency::from_scaled(scaled)),
        }
    }
}

#[derive(Serialize, Deserialize)]
enum KeptResult {
    Done { rows: u64, key: Kept, version: Option<i64>, value: Kept, effect: UpsertEffect },
    Failed { kind: String, message: String, violations: Vec<Violation> },
}

/// Encodes the results.
pub(super) fn encode(writes: &[Write], results: &[Result<Outcome>]) -> Vec<u8> {
    let kept = writes.iter().zip(results).map(|(write, result)| match result {
        Ok(outcome) => KeptResult::Done {
            rows: outcome.rows,
            key: Kept::of(key_made(write, outcome)),
            version: outcome.version,
            value: Kept::of(Some(&outcome.value)),
            effect: outcome.effect,
        },
        Err(error) => KeptResult::Failed {
            kind: error.kind().name().to_owned(),
            message: error.message().to_owned(),
            violations: error.violations().to_vec(),
        },
    });
    // They are numbers and texts: writing them to memory cannot fail.
    serde_json::to_vec(&kept.collect::<Vec<_>>()).unwrap_or_default()
}

/// Decodes results.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Result<Outcome>>> {
    let kept: Vec<KeptResult> = serde_json::from_slice(bytes).map_err(|error| {
        let message = "the answer stored for this key does not belong to a batch made in Rust";
        Error::new(ErrorKind::Engine, message).with_source(error)
    })?;
    let result = |kept| match kept {
        KeptResult::Done { rows, key, version, value, effect } => {
            let keys = match key.value() {
                Value::Absent => Keys::Known,
                key => Keys::One(key),
            };
            Ok(Outcome {
                rows,
                keys,
                version,
                value: value.value(),
                effect,
                commit: None,
                from_replica: false,
            })
        }
        KeptResult::Failed { kind, message, violations } => {
            let error = Error::new(ErrorKind::named(&kind).unwrap_or(ErrorKind::Bug), message);
            Err(violations.into_iter().fold(error, Error::with_violation))
        }
    };
    Ok(kept.into_iter().map(result).collect())
}
