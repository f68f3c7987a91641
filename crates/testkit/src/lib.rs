//! Tests of stores and engines, for applications and for new engines.
//!
//! - [`stress()`] runs random operations of many clients on the models of a store and checks every
//!   answer.
//! - [`prove()`] writes rows of your models to a SQLite file, cuts the power at many places, and
//!   checks that no acknowledged write is lost.
//! - [`feed_difference`] compares the change feed of a database with its tables; [`FeedReplay`] does so
//!   over restarts.
//! - [`mod@conformance`] is the suite of tests that every engine passes.
#![forbid(unsafe_code)]

#[allow(clippy::unwrap_used, reason = "tests panic")]
pub mod conformance;
mod feed_check;
mod prove;
mod random_row;
mod stress;

pub use feed_check::{FeedReplay, feed_difference};
pub use prove::{Prove, ProveReport, prove};
pub use stress::{Stress, StressReport, stress};
