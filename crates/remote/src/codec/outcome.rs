//! Encoding of results: outcomes, errors and the results of batches.

use marmota_model::{Error, ErrorKind, Result, Violation};
use marmota_store::operation::{Keys, Outcome, UpsertEffect, UpsertResult};

use super::bytes::{Bytes, broken, put_bytes, put_int, put_option, put_unsigned};
use marmota_model::binary::{put_value, put_values};

/// The operation has succeeded.
pub(crate) const DONE: u8 = 0;
/// The operation has failed.
pub(crate) const FAILED: u8 = 1;
/// The server ends the connection, and has executed no operation that it has not answered. Packet 0.
pub(crate) const LEAVING: u8 = 2;

const KNOWN: u8 = 0;
const ONE: u8 = 1;
const RANGE: u8 = 2;
const EACH: u8 = 3;
const PLACED: u8 = 4;

const EFFECTS: [UpsertEffect; 4] =
    [UpsertEffect::Inserted, UpsertEffect::Ignored, UpsertEffect::Replaced, UpsertEffect::Updated];

fn put_effect(out: &mut Vec<u8>, effect: UpsertEffect) {
    out.push(EFFECTS.iter().position(|&known| known == effect).unwrap_or_default() as u8);
}

pub(crate) fn put_outcome(out: &mut Vec<u8>, outcome: &Outcome) {
    put_unsigned(out, outcome.rows);
    match &outcome.keys {
        Keys::Known => out.push(KNOWN),
        Keys::One(key) => {
            out.push(ONE);
            put_value(out, key.as_ref());
        }
        Keys::Range { first } => {
            out.push(RANGE);
            put_int(out, *first);
        }
        Keys::Each(keys) => {
            out.push(EACH);
            put_values(out, keys);
        }
        Keys::Upserted(rows) => {
            out.push(PLACED);
            put_unsigned(out, rows.len() as u64);
            for UpsertResult { key, effect } in rows {
                put_value(out, key.as_ref());
                put_effect(out, *effect);
            }
        }
    }
    put_option(out, outcome.version);
    put_value(out, outcome.value.as_ref());
    put_effect(out, outcome.effect);
}

pub(crate) fn put_error(out: &mut Vec<u8>, error: &Error) {
    put_bytes(out, error.kind().name().as_bytes());
    out.push(u8::from(error.is_retryable()));
    put_bytes(out, error.message().as_bytes());
    put_unsigned(out, error.violations().len() as u64);
    for violation in error.violations() {
        for text in [&violation.field, &violation.value, &violation.rule, &violation.message] {
            put_bytes(out, text.as_bytes());
        }
    }
}

pub(crate) fn put_results(out: &mut Vec<u8>, results: &[Result<Outcome>]) {
    put_unsigned(out, results.len() as u64);
    for result in results {
        match result {
            Ok(outcome) => {
                out.push(DONE);
                put_outcome(out, outcome);
            }
            Err(error) => {
                out.push(FAILED);
                put_error(out, error);
            }
        }
    }
}

impl Bytes<'_> {
    fn effect(&mut self) -> Result<UpsertEffect> {
        let number = usize::from(self.u8()?);
        EFFECTS.get(number).copied().ok_or_else(|| broken("has an unknown effect"))
    }

    pub(crate) fn outcome(&mut self) -> Result<Outcome> {
        let rows = self.unsigned()?;
        let keys = match self.u8()? {
            KNOWN => Keys::Known,
            ONE => Keys::One(self.value()?.to_value()),
            RANGE => Keys::Range { first: self.int()? },
            EACH => Keys::Each(self.values()?),
            PLACED => {
                let count = self.count()?;
                let placed = |read: &mut Self| {
                    Ok(UpsertResult { key: read.value()?.to_value(), effect: read.effect()? })
                };
                Keys::Upserted((0..count).map(|_| placed(self)).collect::<Result<_>>()?)
            }
            _ => return Err(broken("has an unknown kind of keys")),
        };
        let (version, value) = (self.option()?, self.value()?.to_value());
        Ok(Outcome {
            rows,
            keys,
            version,
            value,
            effect: self.effect()?,
            commit: None,
            from_replica: false,
        })
    }

    pub(crate) fn error(&mut self) -> Result<Error> {
        // A newer server may send kinds that this version does not know.
        let kind = ErrorKind::named(self.text()?).unwrap_or(ErrorKind::Engine);
        let is_retryable = self.bool()?;
        let mut error = Error::new(kind, self.text()?);
        if is_retryable {
            error = error.retryable();
        }
        for _ in 0..self.count()? {
            let mut text = || self.text().map(str::to_owned);
            let (field, value, rule, message) = (text()?, text()?, text()?, text()?);
            error = error.with_violation(Violation { field, value, rule, message });
        }
        Ok(error)
    }

    pub(crate) fn results(&mut self) -> Result<Vec<Result<Outcome>>> {
        let count = self.count()?;
        let mut results = Vec::with_capacity(count.min(1_024));
        for _ in 0..count {
            results.push(match self.u8()? {
                DONE => Ok(self.outcome()?),
                FAILED => Err(self.error()?),
                _ => return Err(broken("has an unknown kind of result")),
            });
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::any_value::any_value;
    use proptest::prelude::*;

    fn any_effect() -> impl Strategy<Value = UpsertEffect> {
        (0..EFFECTS.len()).prop_map(|number| EFFECTS[number])
    }

    fn any_keys() -> impl Strategy<Value = Keys> {
        let placed =
            (any_value(), any_effect()).prop_map(|(key, effect)| UpsertResult { key, effect });
        prop_oneof![
            Just(Keys::Known),
            any_value().prop_map(Keys::One),
            any::<i64>().prop_map(|first| Keys::Range { first }),
            prop::collection::vec(any_value(), 0..5).prop_map(Keys::Each),
            prop::collection::vec(placed, 0..5).prop_map(Keys::Upserted),
        ]
    }

    fn any_outcome() -> impl Strategy<Value = Outcome> {
        (any::<u64>(), any_keys(), any::<Option<i64>>(), any_value(), any_effect()).prop_map(
            |(rows, keys, version, value, effect)| Outcome {
                rows,
                keys,
                version,
                value,
                effect,
                commit: None,
                from_replica: false,
            },
        )
    }

    proptest! {
        #[test]
        fn results_come_back(
            outcomes in prop::collection::vec(any_outcome(), 0..5),
            texts in any::<[String; 6]>(),
        ) {
            let [message, field, value, rule, why, _] = texts;
            let violation = Violation { field, value, rule, message: why };
            let error = Error::new(ErrorKind::Stale, message).with_violation(violation);
            let mut results: Vec<Result<Outcome>> = outcomes.into_iter().map(Ok).collect();
            results.push(Err(error));
            let mut out = Vec::new();
            put_results(&mut out, &results);
            let mut read = Bytes::new(&out);
            let back = read.results().unwrap();
            read.end().unwrap();
            prop_assert_eq!(format!("{back:?}"), format!("{results:?}"));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Bytes::new(&bytes).results();
        }
    }
}
