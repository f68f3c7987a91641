//! Scalar types that Rust's standard library does not have: exact amounts, days, times of day and
//! points in time. Each is one integer with a text form.
//!
//! | type | range | text form | integer |
//! |---|---|---|---|
//! | [`Currency`] | ±922 337 203 685 477.5807 | `12.5` | ten-thousandths |
//! | [`Date`] | 0001-01-01 to 9999-12-31 | `2026-11-21` | days since 1970-01-01 |
//! | [`Time`] | 00:00:00 to 23:59:59.999999 | `17:05:00.25` | microseconds since midnight |
//! | [`Timestamp`] | the years 1 to 9999, UTC | `2026-11-21T17:05:00Z` | microseconds since 1970-01-01 |
//!
//! Each sorts by its integer. With serde, each is its text form.

mod currency;
pub(crate) mod digits;
mod time;

pub use currency::{Currency, CurrencyError};
pub use time::{Date, Time, TimeError, Timestamp};
