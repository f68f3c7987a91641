//! Tests of stores and engines, for authors of applications and engines.
//!
//! - [`stress()`] runs random operations of many clients on the models of a store and checks every
//!   result.
//! - `prove` (feature `prove`) writes rows of your models to a SQLite file, cuts the power at many
//!   places, and checks that no acknowledged write is lost.
//! - [`mod@conformance`] has the promises of every engine as tests.
#![forbid(unsafe_code)]

#[allow(clippy::unwrap_used, reason = "a broken promise panics")]
pub mod conformance;
#[cfg(feature = "prove")]
mod prove;
mod random_row;
mod stress;

#[cfg(feature = "prove")]
pub use prove::{Prove, ProveReport, prove};
pub use stress::{Stress, StressReport, stress};
