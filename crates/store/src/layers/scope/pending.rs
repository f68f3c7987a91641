//! The state of an operation that was submitted to a scope.

use super::job::Job;
use super::thread_slot::slot_number;
use crate::contract::engine::{Submitted, Ticket};
use crate::layers::cache::{Fetch, Writing};
use crate::layers::meter::Begun;

/// An operation that waits; see [`crate::Scope::submit`].
#[derive(Debug)]
pub struct Pending {
    pub(super) slot: usize,
    pub(super) ticket: Ticket,
    /// The writes that end with it, for the cache.
    pub(super) writing: Writing,
    /// Where to cache the row that it reads.
    pub(super) fetch: Option<Box<Fetch>>,
    /// The batch as which it is executed, if it is.
    pub(super) job: Option<Box<Job>>,
    /// True if it is the check of the row whose history was requested.
    pub(super) looks: bool,
    /// The time when it began, if operations are counted.
    pub(super) begun: Option<Begun>,
    /// Its span, if operations have spans.
    pub(super) span: Option<Box<tracing::Span>>,
}

/// The state of an operation after [`crate::Scope::submit`].
#[derive(Debug)]
pub enum Progress {
    /// It is done.
    Done,
    /// It has to wait: continue it with [`crate::Scope::poll`], or cancel it with
    /// [`crate::Scope::cancel`].
    Pending(Pending),
}

impl Progress {
    /// Converts the state of an operation on this thread's session.
    #[inline]
    pub(super) fn of(submitted: Submitted) -> Self {
        match submitted {
            Submitted::Done => Self::Done,
            Submitted::Waiting(ticket) => {
                let (slot, writing) = (slot_number(), Writing::default());
                Self::Pending(Pending {
                    slot,
                    ticket,
                    writing,
                    fetch: None,
                    job: None,
                    looks: false,
                    begun: None,
                    span: None,
                })
            }
        }
    }
}
