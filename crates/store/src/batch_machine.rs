//! The execution of batches, the same for all engines: the steps that a batch needs in addition to
//! its writes, as operations in one transaction.
//!
//! `machine.rs` has the order of the steps. The other files each have one kind of step: checks of
//! the caller's rights, rows as they were before a write, computed fields, generated columns,
//! history entries, and stored answers.

mod answers;
pub(crate) mod before;
mod checks;
pub(crate) mod computed;
mod driver;
mod entries;
mod field_checks;
mod generated;
mod machine;
mod trimming;

pub(crate) use answers::answers_schema;
pub(crate) use checks::Checks;
pub use driver::BatchDriver;
pub use machine::{BatchMachine, BatchParts, BatchStep};
