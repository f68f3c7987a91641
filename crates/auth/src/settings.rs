//! How long sessions last, what everybody may do, and the limits.

use std::sync::Arc;
use std::time::Duration;

use marmota_model::Timestamp;
use marmota_store::rights::Grant;
use zeroize::Zeroizing;

use crate::event::Listener;

/// Settings of [`crate::Auth`]; each has a default.
#[must_use]
pub struct Settings {
    pub(crate) everyone: Vec<Grant>,
    pub(crate) nobody: Vec<Grant>,
    pub(crate) session_idle: Duration,
    pub(crate) session_age_max: Duration,
    pub(crate) one_session: bool,
    pub(crate) sessions_max: usize,
    pub(crate) jwt_age: Duration,
    pub(crate) jwt_secret: Option<Zeroizing<Vec<u8>>>,
    pub(crate) token_age: Duration,
    pub(crate) believed_for: Duration,
    pub(crate) password_memory_kib: u32,
    pub(crate) password_passes: u32,
    pub(crate) attempts_max: u32,
    pub(crate) attempts_window: Duration,
    pub(crate) listener: Option<Arc<dyn Listener>>,
    pub(crate) clock: Option<Clock>,
}

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

impl Default for Settings {
    fn default() -> Self {
        Self {
            everyone: Vec::new(),
            nobody: Vec::new(),
            session_idle: Duration::from_secs(8 * 3600),
            session_age_max: Duration::from_secs(30 * 24 * 3600),
            one_session: false,
            sessions_max: 50,
            jwt_age: Duration::from_secs(15 * 60),
            jwt_secret: None,
            token_age: Duration::from_secs(24 * 3600),
            believed_for: Duration::from_secs(10),
            password_memory_kib: 19 * 1024,
            password_passes: 2,
            attempts_max: 10,
            attempts_window: Duration::from_secs(15 * 60),
            listener: None,
            clock: None,
        }
    }
}

impl Settings {
    /// What every user may do, beside what their groups may.
    pub fn everyone(mut self, grants: impl IntoIterator<Item = Grant>) -> Self {
        self.everyone.extend(grants);
        self
    }

    /// What may be done without a login; nothing if never called.
    pub fn nobody(mut self, grants: impl IntoIterator<Item = Grant>) -> Self {
        self.nobody.extend(grants);
        self
    }

    /// A session ends when it was not used for so long; 8 hours.
    pub const fn session_idle(mut self, time: Duration) -> Self {
        self.session_idle = time;
        self
    }

    /// A session ends after this however it is used; 30 days.
    pub const fn session_age_max(mut self, time: Duration) -> Self {
        self.session_age_max = time;
        self
    }

    /// A login ends the user's other sessions.
    pub const fn one_session(mut self, one: bool) -> Self {
        self.one_session = one;
        self
    }

    /// So many sessions a user at most, and so many keys; 50. A login beyond it
    /// ends the oldest session.
    pub fn sessions_max(mut self, sessions: usize) -> Self {
        self.sessions_max = sessions.max(1);
        self
    }

    /// A JWT is good for so long, if its session is; 15 minutes.
    pub const fn jwt_age(mut self, time: Duration) -> Self {
        self.jwt_age = time;
        self
    }

    /// What JWTs are signed with (HS256), at least 32 bytes: for several
    /// processes, or for JWTs that outlive one. Random for each process by
    /// default.
    pub fn jwt_secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.jwt_secret = Some(Zeroizing::new(secret.into()));
        self
    }

    /// A one-time token is good for so long; 24 hours.
    pub const fn token_age(mut self, time: Duration) -> Self {
        self.token_age = time;
        self
    }

    /// For so long what was read of a session is believed without asking the
    /// database; 10 seconds. What this process changes holds at once; this is
    /// how long another one on the same database may take to hear of a logout.
    pub const fn believed_for(mut self, time: Duration) -> Self {
        self.believed_for = time;
        self
    }

    /// What a password costs: KiB of memory (19 MiB) and passes over it (2). What
    /// is less is for tests.
    pub const fn password_cost(mut self, memory_kib: u32, passes: u32) -> Self {
        (self.password_memory_kib, self.password_passes) = (memory_kib, passes);
        self
    }

    /// Sets how many failed logins in this time are let through for an account from one address
    /// (of IPv6, one network of 64 bits). Default: 10 in 15 minutes. Ten times as many are let
    /// through from one address for all accounts, save those that have logged in from there
    /// before. After ten times as many for one account, addresses from which it has not logged in
    /// before have 2 each: the account itself is never locked.
    pub const fn attempts(mut self, failures_max: u32, window: Duration) -> Self {
        (self.attempts_max, self.attempts_window) = (failures_max, window);
        self
    }

    /// Reads the time from `clock` instead of the system: for tests of what ends.
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Hears of each event, beside the log.
    pub fn listener(mut self, listener: impl Listener + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Settings")
    }
}
