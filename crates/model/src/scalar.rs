//! Scalar types that Rust's standard library does not have: exact amounts, days, times of day and
//! points in time. Each is one integer with a text form.

mod currency;
pub(crate) mod digits;
mod time;

pub use currency::{Currency, CurrencyError};
pub use time::{Date, Time, TimeError, Timestamp};
