//! The cells of results, as texts.

use marmota::prelude::*;

use crate::Rows;

/// Makes a row of the texts of values.
macro_rules! row {
    ($($value:expr),+) => { vec![$($value.to_string()),+] };
}
pub(crate) use row;

pub(crate) fn single<T: ToString>(values: Vec<T>) -> Rows {
    values.into_iter().map(|value| row![value]).collect()
}

pub(crate) fn pairs<A: ToString, B: ToString>(values: Vec<(A, B)>) -> Rows {
    values.into_iter().map(|(a, b)| row![a, b]).collect()
}

pub(crate) fn text<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Returns the key of the row that a reference names.
pub(crate) fn key<M: marmota::model::Model<Key = i64>>(reference: Option<Ref<M>>) -> String {
    text(reference.map(|reference| *reference.key()))
}

pub(crate) fn day(text: &str) -> Date {
    text.parse().unwrap()
}

pub(crate) fn amount(text: &str) -> Currency {
    text.parse().unwrap()
}
