//! The context of a handle to a store: where its operations are executed, and for whom.
//!
//! The layers belong to the store, and serve all of its handles. What differs between handles is
//! passed to the layers with each operation: a server makes a handle for each request
//! ([`Store::with_rights`](crate::Store::with_rights)), which takes a few reference counts.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize};
use std::sync::{Arc, OnceLock};

use marmota_model::Timestamp;
use parking_lot::Mutex;

use crate::contract::change::ReplicaRead;
use crate::contract::engine::Session;
use crate::layers::cache::table_versions::Writing;
use crate::layers::metrics::session_counts::SessionCounts;
use crate::rights::Rights;

/// The context of the operations of one handle to a store.
#[derive(Clone)]
pub(crate) struct HandleContext {
    pub(crate) place: Place,
    /// The actor that history entries name.
    pub(crate) actor: Option<Arc<str>>,
    /// The rights; `None` if everything is allowed.
    pub(crate) rights: Option<Arc<Rights>>,
    /// The session for which operations are counted, if there is one.
    pub(crate) session: Option<Arc<SessionCounts>>,
    /// How many hooks its operations are inside of: 0 for those of a program.
    pub(crate) hook_depth: u8,
    /// True if its reads do not use cached rows.
    pub(crate) skips_cache: bool,
    /// How its reads use replicas, if they do.
    pub(crate) replica: Option<ReplicaRead>,
}

/// Where operations are executed.
#[derive(Clone)]
pub(crate) enum Place {
    /// In the session of the calling thread.
    Thread,
    /// In a transaction.
    Transaction(Arc<TransactionState>),
}

/// The state of a transaction, which its handles share.
pub(crate) struct TransactionState {
    /// The session of the transaction alone; `None` once the transaction was dropped.
    pub(super) session: Mutex<Option<Box<dyn Session>>>,
    /// True after a commit or rollback: a later operation would be executed at once, and could not
    /// be undone.
    pub(super) ended: AtomicBool,
    /// The time of its first write, which all its writes have.
    time: OnceLock<Timestamp>,
    /// The tables that it has written to, for the cache.
    pub(super) written: Mutex<Writing>,
    /// The thread that used it last, while it is open; otherwise 0.
    pub(super) user: Arc<AtomicUsize>,
    /// How many writes with hooks are in progress in it, each inside of a hook of the one before.
    pub(super) hooked_writes: AtomicU8,
}

impl HandleContext {
    /// Returns the context of a store without limits.
    pub(crate) const fn of_store() -> Self {
        Self {
            place: Place::Thread,
            actor: None,
            rights: None,
            session: None,
            hook_depth: 0,
            skips_cache: false,
            replica: None,
        }
    }

    /// Returns the timestamp of a write: the current time, or in a transaction that of its first
    /// write, as in SQL.
    pub(crate) fn time(&self) -> Timestamp {
        match &self.place {
            Place::Thread => Timestamp::now(),
            Place::Transaction(state) => *state.time.get_or_init(Timestamp::now),
        }
    }
}

impl TransactionState {
    /// Creates the state of a transaction in this session, which has not begun. `user` is set to
    /// the thread that uses it.
    pub(super) fn new(session: Box<dyn Session>, user: Arc<AtomicUsize>) -> Self {
        Self {
            session: Mutex::new(Some(session)),
            ended: AtomicBool::new(false),
            time: OnceLock::new(),
            written: Mutex::default(),
            user,
            hooked_writes: AtomicU8::new(0),
        }
    }
}
