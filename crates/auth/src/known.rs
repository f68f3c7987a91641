//! Who calls, as far as a token tells: found in memory where it was shown
//! before, and in the store otherwise.
//!
//! What is in memory holds as long as nothing was taken back since. A session
//! that ends is taken out; whatever concerns all sessions of a user, or what
//! users may do, raises the epoch, and what is known of an older one is read
//! again. A token is looked up in the store under a lock that whoever takes
//! it out takes as well: so none is put in behind that.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use marmota_model::{Caller, Result, Timestamp};
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
pub struct Known {
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
    read_at: i64,
}

impl Known {
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

impl std::fmt::Debug for Known {
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

/// The tokens that are known.
pub(crate) struct Knowledge {
    tokens: Cache<TokenHash, Arc<Known>>,
    shards: Box<[Mutex<()>]>,
    epoch: AtomicU64,
    believed_us: i64,
}

impl Knowledge {
    pub(crate) fn new(believed_for: Duration) -> Self {
        Self {
            tokens: Cache::new(KNOWN_MAX),
            shards: (0..SHARDS).map(|_| Mutex::new(())).collect(),
            epoch: AtomicU64::new(0),
            believed_us: i64::try_from(believed_for.as_micros()).unwrap_or(i64::MAX),
        }
    }

    fn shard(&self, token: TokenHash) -> MutexGuard<'_, ()> {
        self.shards[usize::from(token.0[0]) % SHARDS].lock()
    }

    /// Who has a token: as it is known, or by `read`.
    pub(crate) fn find(
        &self,
        token: TokenHash,
        now: i64,
        store: &Store,
        read: impl FnOnce() -> Result<Option<Found>>,
    ) -> Result<Option<Arc<Known>>> {
        if let Some(known) = self.good(token, now) {
            return Ok(Some(known));
        }
        let _shard = self.shard(token);
        // Somebody else has just read it.
        if let Some(known) = self.good(token, now) {
            return Ok(Some(known));
        }
        let epoch = self.epoch.load(Ordering::SeqCst);
        let Some(found) = read()? else {
            self.tokens.remove(&token);
            return Ok(None);
        };
        let session = match found.proof {
            Proof::Session(session) => format!("session {session}"),
            Proof::Key(key) => format!("key {key}"),
        };
        let known = Arc::new(Known {
            user: found.user,
            is_admin: found.is_admin,
            proof: found.proof,
            token,
            store: store.acting_under(Arc::clone(&found.rights)).in_session(&session),
            rights: found.rights,
            ends_at: AtomicI64::new(found.ends_at),
            ends_at_last: found.ends_at_last,
            ends_at_kept: AtomicI64::new(found.ends_at),
            epoch,
            read_at: now,
        });
        self.tokens.insert(token, Arc::clone(&known));
        Ok(Some(known))
    }

    fn good(&self, token: TokenHash, now: i64) -> Option<Arc<Known>> {
        let known = self.tokens.get(&token)?;
        let is_good = known.epoch == self.epoch.load(Ordering::SeqCst)
            && now.saturating_sub(known.read_at) < self.believed_us;
        is_good.then_some(known)
    }

    /// A token has ended in the store.
    pub(crate) fn forget(&self, token: TokenHash) {
        let _shard = self.shard(token);
        self.tokens.remove(&token);
    }

    /// What is known may not be so any more.
    pub(crate) fn doubt(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }
}
