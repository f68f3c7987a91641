//! A cache of authenticated tokens.
//!
//! A cached token is valid as long as nothing was revoked since it was read. A session that ends is
//! removed. Changes to all sessions of a user, or to rights, increase the epoch; entries of an
//! older epoch are read again. The end of a token is counted in its shard: a result that was read
//! before is not cached if the count has changed since.
//!
//! Three events end an entry:
//!
//! | event | what changes | effect |
//! |---|---|---|
//! | a session or key ends | the count of the token's shard | the entry is removed; a read in progress is not cached |
//! | a user, group, password or key changes | the epoch | all entries are read again at their next use |
//! | the time of [`crate::Settings::cache_ttl`] has passed | – | the entry is read again |

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use event_listener::Event;
use marmota_model::{Caller, Timestamp};
use marmota_store::Store;
use marmota_store::rights::Rights;
use parking_lot::{Mutex, MutexGuard};
use quick_cache::sync::Cache;

use crate::credentials::token::TokenHash;

/// The maximum number of cached tokens.
const KNOWN_MAX: usize = 20_000;
/// The number of locks that tokens are distributed over.
const SHARDS: usize = 64;

/// The credential by which a caller was authenticated.
///
/// ```
/// use marmota_auth::Proof;
/// assert_ne!(Proof::Session(1), Proof::Key(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A session, by its primary key.
    Session(i64),
    /// A key of the user, by its primary key.
    Key(i64),
    /// A token of another issuer, which ends by itself.
    Token,
}

/// An authenticated caller.
///
/// It is immutable but for its expiry. A later request gets another one if the user's rights have
/// changed.
pub struct Identity {
    /// The user's id.
    pub(crate) user: i64,
    /// True for an administrator.
    pub(crate) is_admin: bool,
    /// The session or key.
    pub(crate) proof: Proof,
    /// The hash of the credential, by which it is cached.
    pub(crate) token: TokenHash,
    /// The store with the caller's rights.
    pub(crate) store: Store,
    /// The same rights.
    pub(crate) rights: Arc<Rights>,
    /// The expiry in microseconds; that of a session moves as it is used.
    pub(crate) ends_at: AtomicI64,
    /// The latest possible expiry.
    pub(crate) ends_at_last: i64,
    /// The expiry that is stored.
    pub(crate) ends_at_kept: AtomicI64,
    /// The time at which writes to some tables need a new authentication, in microseconds.
    pub(crate) fresh_until: i64,
    /// The epoch before it was read.
    epoch: u64,
    /// The number of changes of accounts before it was read, if they are counted.
    pub(crate) changes: i64,
    /// The time of the read, in microseconds.
    read_at: i64,
}

impl Identity {
    /// Returns the user's primary key, `@user.id` in rules.
    #[must_use]
    pub const fn user(&self) -> i64 {
        self.user
    }

    /// Returns the name and groups.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        static NOBODY: Caller =
            Caller { id: String::new(), name: String::new(), groups: Vec::new() };
        self.rights.caller().unwrap_or(&NOBODY)
    }

    /// Returns true if the user is an administrator.
    #[must_use]
    pub const fn is_admin(&self) -> bool {
        self.is_admin
    }

    /// Returns the session or key that authenticated the caller.
    #[must_use]
    pub const fn proof(&self) -> Proof {
        self.proof
    }

    /// Returns the store with the rights of the caller.
    ///
    /// Every operation on it is checked against the caller's grants, and history entries name the
    /// caller.
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{ErrorKind, Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let note = Schema::new("note", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).schema(note).open()?;
    /// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
    /// # let (_, token) = auth.add_user("ann", &[], false)?;
    /// # auth.set_password("ann", &token, "correct horse battery", None)?;
    /// # let session = auth.login("ann", "correct horse battery", None)?;
    /// let known = auth.authenticate(&session.token).run()?;
    /// assert_eq!(known.caller().name, "ann");
    /// // Ann has no grant on notes.
    /// let refused = known.store().list_records(&store.table("note")?).run().unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Denied);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the expiry, unless the session is used before.
    ///
    /// `None` for a key without end.
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

/// The stored data of a token.
pub(crate) struct Found {
    pub(crate) user: i64,
    pub(crate) is_admin: bool,
    pub(crate) proof: Proof,
    pub(crate) rights: Arc<Rights>,
    pub(crate) ends_at: i64,
    pub(crate) ends_at_last: i64,
    pub(crate) fresh_until: i64,
}

impl Identity {
    /// Creates the identity of a token that was read at `read_at`, after the mark `before`.
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
            Proof::Token => "token of another issuer".to_owned(),
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
            fresh_until: found.fresh_until,
            epoch: before.epoch,
            changes: before.changes,
            read_at,
        }
    }
}

/// The state of the cache before a token was read.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    /// The epoch.
    epoch: u64,
    /// The number of changes of accounts in the store, if they are counted.
    changes: i64,
    /// The number of removed tokens of the shard.
    forgotten: u64,
}

/// The count of changes of accounts by all processes, as it was last read. All subscriptions to
/// changes share it.
#[derive(Default)]
pub(crate) struct KnownCount(Mutex<(Option<Instant>, Option<i64>)>);

impl KnownCount {
    /// Returns true if the count was not read within this time. The caller has to read it.
    pub(crate) fn is_due(&self, age_max: Duration) -> bool {
        let mut known = self.0.lock();
        let is_due = known.0.is_none_or(|at| at.elapsed() >= age_max);
        if is_due {
            known.0 = Some(Instant::now());
        }
        is_due
    }

    /// Stores a count that was read. Returns true if it has changed.
    pub(crate) fn replace(&self, count: i64) -> bool {
        self.0.lock().1.replace(count) != Some(count)
    }
}

/// The cached tokens.
pub(crate) struct Knowledge {
    tokens: Cache<TokenHash, Arc<Identity>>,
    /// The number of removed tokens of each shard.
    shards: Box<[Mutex<u64>]>,
    epoch: AtomicU64,
    /// Is notified when the epoch changes.
    pub(crate) changed: Event,
    /// How long an entry is used without a read, in microseconds.
    believed_us: i64,
}

impl Knowledge {
    /// Creates an empty cache.
    pub(crate) fn new(cache_ttl: Duration) -> Self {
        Self {
            tokens: Cache::new(KNOWN_MAX),
            shards: (0..SHARDS).map(|_| Mutex::new(0)).collect(),
            epoch: AtomicU64::new(0),
            changed: Event::new(),
            believed_us: i64::try_from(cache_ttl.as_micros()).unwrap_or(i64::MAX),
        }
    }

    /// Locks the shard of a token.
    fn shard(&self, token: TokenHash) -> MutexGuard<'_, u64> {
        self.shards[usize::from(token.0[0]) % SHARDS].lock()
    }

    /// Returns a mark; called before a token is read from the store, and after `changes` was read.
    pub(crate) fn mark(&self, token: TokenHash, changes: i64) -> Mark {
        let forgotten = *self.shard(token);
        Mark { epoch: self.epoch.load(Ordering::SeqCst), changes, forgotten }
    }

    /// Caches the data of a token, unless the token may have ended since the mark.
    pub(crate) fn put(&self, known: &Arc<Identity>, mark: Mark) {
        let shard = self.shard(known.token);
        if *shard == mark.forgotten {
            self.tokens.insert(known.token, Arc::clone(known));
        }
    }

    /// Returns the end of a session as extended by this process, even if it is not stored yet.
    pub(crate) fn end_of(&self, known: &Identity) -> Option<i64> {
        let earlier = self.tokens.get(&known.token)?;
        (earlier.proof == known.proof).then(|| earlier.ends_at.load(Ordering::Relaxed))
    }

    /// Returns the caller of a token, if it was read a short time ago.
    #[inline]
    pub(crate) fn good(&self, token: TokenHash, now: i64) -> Option<Arc<Identity>> {
        let known = self.tokens.get(&token)?;
        let is_good = known.epoch == self.epoch.load(Ordering::SeqCst)
            && now.saturating_sub(known.read_at) < self.believed_us;
        is_good.then_some(known)
    }

    /// Removes a token that has ended in the store.
    pub(crate) fn forget(&self, token: TokenHash) {
        let mut shard = self.shard(token);
        *shard = shard.wrapping_add(1);
        self.tokens.remove(&token);
    }

    /// Invalidates all cached tokens.
    pub(crate) fn doubt(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.changed.notify(usize::MAX);
    }
}
