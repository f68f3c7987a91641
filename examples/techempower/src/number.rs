//! The numbers of a request: how many rows, and which.

use marmota::prelude::*;

use crate::data::WORLDS;

/// How many rows `?name=N` asks for: 1 to 500, and 1 for anything else.
pub(crate) fn rows(request: &Request, name: &str) -> usize {
    let number = request.query_param(name).and_then(|text| text.parse::<i64>().ok());
    // Digits beyond 64 bits are still too many, not nonsense.
    let too_long = || {
        request
            .query_param(name)
            .is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match number {
        Some(number) => number.clamp(1, 500) as usize,
        None if too_long() => 500,
        None => 1,
    }
}

/// A row of `world`, at random.
pub(crate) fn world_id() -> i64 {
    fastrand::i64(1..=WORLDS)
}

/// A new number for a row, at random.
pub(crate) fn random_number() -> i32 {
    fastrand::i32(1..=WORLDS as i32)
}
