//! The stage of an operation, and what follows after an answer.

use marmota_model::{Error, Result};
use marmota_store::operation::Write;

use crate::fault::Failure;

/// The stage of an operation.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The whole operation at once.
    Main,
    /// The same again, after a failure; a write of many rows row by row.
    Again,
    /// A diagnostic query for a refusal, after the calls before it.
    Diagnostic(Problem),
    /// Rolling back a failure.
    Recover(Error),
    /// Each write of a batch separately.
    Each,
    /// The end of that, if no write was refused.
    EachDone,
    /// The writes that were not refused, and diagnostic queries for those that were.
    EachAgain(Vec<Problem>),
    /// A batch with links between its writes.
    Linked(Linked),
    /// A transaction statement.
    Control,
    /// The description of a raw SQL statement.
    Describe,
}

/// A refused write: its place, and the failure.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) at: u32,
    pub(crate) failure: Failure,
}

/// The step of a batch with links between its writes.
#[derive(Debug)]
pub(crate) enum Linked {
    /// The write at this place, with its links resolved.
    Write(u32, Box<Write>),
    /// Rolling back that write, and the diagnostic query for its failure.
    Diagnostic(Problem, Box<Write>),
    /// The end: commit, or rollback because of an error.
    End(Option<Error>),
}

/// The next step after an answer.
pub(crate) enum Next {
    Done(Result<()>),
    /// Another exchange.
    Send,
}
