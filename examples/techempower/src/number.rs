//! The numbers in a request: how many rows, and which ones.

use marmota::prelude::*;

use crate::data::WORLDS;

/// The maximum number of rows in a request.
pub(crate) const ROWS_MAX: usize = 500;

/// Returns the number of rows that `?name=N` requests: 1 to 500, and 1 for anything else.
pub(crate) fn rows(request: &Request, name: &str) -> usize {
    let number = request.query_param(name).and_then(|text| text.parse::<i64>().ok());
    // A number that does not fit in 64 bits counts as too large, not as invalid.
    let too_long = || {
        request
            .query_param(name)
            .is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match number {
        Some(number) => number.clamp(1, ROWS_MAX as i64) as usize,
        None if too_long() => ROWS_MAX,
        None => 1,
    }
}

/// Returns a random id of `world`.
pub(crate) fn world_id() -> i64 {
    fastrand::i64(1..=WORLDS)
}

/// Returns random ids of `world` without duplicates, so that one statement can update all rows, in
/// ascending order, so that two updates cannot deadlock.
pub(crate) fn world_ids(count: usize) -> Vec<i64> {
    let mut ids = Vec::with_capacity(count);
    while ids.len() < count {
        ids.extend((ids.len()..count).map(|_| world_id()));
        ids.sort_unstable();
        ids.dedup();
    }
    ids
}

/// Returns a random number for a row.
pub(crate) fn random_number() -> i32 {
    fastrand::i32(1..=WORLDS as i32)
}
