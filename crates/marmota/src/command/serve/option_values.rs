//! Parsers and times that several options have.

use std::str::FromStr;
use std::time::Duration;

/// Parses a number of at least 1.
pub(super) fn positive<T: FromStr<Err: ToString> + Default + PartialEq>(
    text: &str,
) -> Result<T, String> {
    match text.parse::<T>() {
        Ok(number) if number == T::default() => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        // Too many digits, for example.
        Err(error) if text.bytes().all(|byte| byte.is_ascii_digit()) => Err(error.to_string()),
        Err(_) => Err("must be a number, at least 1".to_owned()),
    }
}

/// Returns a time of whole minutes.
pub(super) const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes.saturating_mul(60))
}

/// Returns a time of whole hours.
pub(super) const fn hours(hours: u64) -> Duration {
    minutes(hours.saturating_mul(60))
}

/// Returns a time of whole days.
pub(super) const fn days(days: u64) -> Duration {
    hours(days.saturating_mul(24))
}
