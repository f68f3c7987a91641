//! The counters of one session, and the caller of an operation.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::counts::Counts;

/// The counters of one session: a name that a program gives to the operations of a login or a
/// connection. The handles of the session share them.
pub(crate) struct SessionCounts {
    pub(super) name: Arc<str>,
    pub(super) counts: Counts,
    /// The number of its last use; the numbers ascend.
    pub(super) last: AtomicU64,
}

/// The caller of an operation, as far as it is known: the actor, or the name in the rights.
#[derive(Clone, Copy)]
pub(crate) struct Who<'w> {
    pub(crate) name: Option<&'w str>,
    pub(crate) session: Option<&'w SessionCounts>,
}

impl SessionCounts {
    /// Returns the name of the session.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for SessionCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
