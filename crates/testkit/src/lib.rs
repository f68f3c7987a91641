//! Tests of stores and engines, for those who write applications or engines with Marmota.
//!
//! - [`stress()`] runs random operations of many clients on the models of a store and checks every
//!   answer.
//! - [`conformance`] has the promises of every engine as tests.
#![forbid(unsafe_code)]

#[allow(clippy::unwrap_used, reason = "a broken promise panics")]
pub mod conformance;
mod random_row;
mod stress;

pub use stress::{Stress, StressReport, stress};
