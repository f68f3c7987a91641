//! Who calls, as far as a token tells: found in memory where it was shown
//! before, and in the store otherwise.
//!
//! What is in memory holds as long as nothing was taken back since. A session
//! that ends is taken out; whatever concerns all sessions of a user, or what
//! users may do, raises the epoch, and what is known of an older one is read
//! again. A token that ends is counted in its shard: what was read of one before
//! is not kept if the count has changed since.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use marmota_model::{Caller, Timestamp};
use marmota_store::Store;
use marmota_store::rights::Rights;
use parking_lot::{Mutex, MutexGuard};
use quick_cache::sync::Cache;

use crate::token::TokenHash;

/// Tokens that are known without asking the store.
const KNOWN_MAX: usize = 20_000;
/// Locks among which tokens are divided.
const SHARDS: usize = 64;

/// By what a caller is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A session, by its key.
    Session(i64),
    /// A key of the user's, by its own.
    Key(i64),
}

/// Somebody who has proved who they are.
pub struct Identity {
    pub(crate) user: i64,
    pub(crate) is_admin: bool,
    pub(crate) proof: Proof,
    pub(crate) token: TokenHash,
    pub(crate) store: Store,
    pub(crate) rights: Arc<Rights>,
    /// When it ends, in microseconds; a session's moves as it is used.
    pub(crate) ends_at: AtomicI64,
    /// When it ends whatever happens.
    pub(crate) ends_at_last: i64,
    /// The end as it is kept.
    pub(crate) ends_at_kept: AtomicI64,
    epoch: u64,
    /// How many changes of accounts there were before it was read, where that is counted.
    pub(crate) changes: i64,
    read_at: i64,
}

impl Identity {
    /// Their key in the store, `@user.id` in rules.
    #[must_use]
    pub const fn user(&self) -> i64 {
        self.user
    }

    /// Name and groups.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        static NOBODY: Caller =
            Caller { id: String::new(), name: String::new(), groups: Vec::new() };
        self.rights.caller().unwrap_or(&NOBODY)
    }

    /// True if they manage users.
    #[must_use]
    pub const fn is_admin(&self) -> bool {
        self.is_admin
    }

    /// By what they are known.
    #[must_use]
    pub const fn proof(&self) -> Proof {
        self.proof
    }

    /// The store, acting under their rights.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// When it ends, unless it is used before.
    #[must_use]
    pub fn ends_at(&self) -> Option<Timestamp> {
        let ends_at = self.ends_at.load(Ordering::Relaxed);
        (ends_at != i64::MAX).then(|| Timestamp::from_micros(ends_at).unwrap_or_default())
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} by {:?}", self.rights, self.proof)
    }
}

/// What is read of a token.
pub(crate) struct Found {
    pub(crate) user: i64,
    pub(crate) is_admin: bool,
    pub(crate) proof: Proof,
    pub(crate) rights: Arc<Rights>,
    pub(crate) ends_at: i64,
    pub(crate) ends_at_last: i64,
}

impl Identity {
    pub(crate) fn new(
        found: Found,
        token: TokenHash,
        store: &Store,
        before: Mark,
        read_at: i64,
    ) -> Self {
        let session = match found.proof {
            Proof::Session(session) => format!("session {session}"),
            Proof::Key(key) => format!("key {key}"),
        };
        Self {
            user: found.user,
            is_admin: found.is_admin,
            proof: found.proof,
            token,
            store: store.with_rights(Arc::clone(&found.rights)).in_session(&session),
            rights: found.rights,
            ends_at: AtomicI64::new(found.ends_at),
            ends_at_last: found.ends_at_last,
            ends_at_kept: AtomicI64::new(found.ends_at),
            epoch: before.epoch,
            changes: before.changes,
            read_at,
        }
    }
}

/// What was so before a token was read.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    epoch: u64,
    changes: i64,
    forgotten: u64,
}

/// The tokens that are known.
pub(crate) struct Knowledge {
    tokens: Cache<TokenHash, Arc<Identity>>,
    /// How many tokens of each shard were forgotten.
    shards: Box<[Mutex<u64>]>,
    epoch: AtomicU64,
    believed_us: i64,
}

impl Knowledge {
    pub(crate) fn new(cache_ttl: Duration) -> Self {
        Self {
            tokens: Cache::new(KNOWN_MAX),
            shards: (0..SHARDS).map(|_| Mutex::new(0)).collect(),
            epoch: AtomicU64::new(0),
            believed_us: i64::try_from(cache_ttl.as_micros()).unwrap_or(i64::MAX),
        }
    }

    fn shard(&self, token: TokenHash) -> MutexGuard<'_, u64> {
        self.shards[usize::from(token.0[0]) % SHARDS].lock()
    }

    /// To be called before a token is read from the store, and after `changes` was.
    pub(crate) fn mark(&self, token: TokenHash, changes: i64) -> Mark {
        let forgotten = *self.shard(token);
        Mark { epoch: self.epoch.load(Ordering::SeqCst), changes, forgotten }
    }

    /// Keeps what was read of a token, unless it may have ended since the mark.
    pub(crate) fn put(&self, known: &Arc<Identity>, mark: Mark) {
        let shard = self.shard(known.token);
        if *shard == mark.forgotten {
            self.tokens.insert(known.token, Arc::clone(known));
        }
    }

    /// The end of a session as it was moved in this process, whether or not that was kept.
    pub(crate) fn end_of(&self, known: &Identity) -> Option<i64> {
        let earlier = self.tokens.get(&known.token)?;
        (earlier.proof == known.proof).then(|| earlier.ends_at.load(Ordering::Relaxed))
    }

    /// Who has a token, if it was read a short time ago.
    #[inline]
    pub(crate) fn good(&self, token: TokenHash, now: i64) -> Option<Arc<Identity>> {
        let known = self.tokens.get(&token)?;
        let is_good = known.epoch == self.epoch.load(Ordering::SeqCst)
            && now.saturating_sub(known.read_at) < self.believed_us;
        is_good.then_some(known)
    }

    /// A token has ended in the store.
    pub(crate) fn forget(&self, token: TokenHash) {
        let mut shard = self.shard(token);
        *shard = shard.wrapping_add(1);
        self.tokens.remove(&token);
    }

    /// What is known may not be so any more.
    pub(crate) fn doubt(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }
}
