//! Settings: durations of sessions, default grants, and limits.

mod profile_table;

use std::sync::Arc;
use std::time::Duration;

use marmota_model::Timestamp;
use marmota_store::rights::Grant;
use zeroize::Zeroizing;

use crate::account_mail::{AccountMailer, SignUpPolicy};
use crate::credentials::external::{IdentityProviders, TokenIssuers};
use crate::credentials::passkey::PasskeyProtocol;
use crate::security_event::Listener;

pub(crate) use profile_table::{OWNER, check_profile, form_of};

/// Settings of [`crate::Auth`]; each has a default.
///
/// ```
/// use std::time::Duration;
/// use marmota_auth::Settings;
/// use marmota_store::rights::{Grant, Right};
///
/// let settings = Settings::default()
///     .everyone([Grant::new("note", &Right::ALL).rule("owner = @user.id")])
///     .anonymous([Grant::new("page", &[Right::Read])])
///     .session_idle(Duration::from_secs(30 * 60))
///     .sessions_max(5)
///     .attempts(5, Duration::from_secs(600));
/// assert_eq!(format!("{settings:?}"), "Settings");
/// ```
#[must_use]
pub struct Settings {
    pub(crate) everyone: Vec<Grant>,
    pub(crate) anonymous: Vec<Grant>,
    pub(crate) session_idle: Duration,
    pub(crate) session_age_max: Duration,
    pub(crate) one_session: bool,
    pub(crate) sessions_max: usize,
    pub(crate) jwt_age: Duration,
    pub(crate) jwt_secret: Option<Zeroizing<Vec<u8>>>,
    pub(crate) token_age: Duration,
    pub(crate) cache_ttl: Duration,
    pub(crate) password_memory_kib: u32,
    pub(crate) password_passes: u32,
    pub(crate) attempts_max: u32,
    pub(crate) attempts_window: Duration,
    pub(crate) sign_up: SignUpPolicy,
    pub(crate) mailer: Option<Arc<dyn AccountMailer>>,
    pub(crate) providers: Option<Arc<dyn IdentityProviders>>,
    pub(crate) token_issuers: Option<Arc<dyn TokenIssuers>>,
    pub(crate) passkeys: Option<Arc<dyn PasskeyProtocol>>,
    pub(crate) events_max: u64,
    pub(crate) step_up: Vec<(String, Duration)>,
    pub(crate) profile: Option<String>,
    pub(crate) title: String,
    pub(crate) account_url: String,
    pub(crate) login_links: bool,
    pub(crate) link_age: Duration,
    pub(crate) invitation_age: Duration,
    pub(crate) mails_max: u32,
    pub(crate) listener: Option<Arc<dyn Listener>>,
    pub(crate) clock: Option<Clock>,
}

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

impl Default for Settings {
    fn default() -> Self {
        Self {
            everyone: Vec::new(),
            anonymous: Vec::new(),
            session_idle: Duration::from_secs(8 * 3600),
            session_age_max: Duration::from_secs(30 * 24 * 3600),
            one_session: false,
            sessions_max: 50,
            jwt_age: Duration::from_secs(15 * 60),
            jwt_secret: None,
            token_age: Duration::from_secs(24 * 3600),
            cache_ttl: Duration::from_secs(10),
            password_memory_kib: 19 * 1024,
            password_passes: 2,
            attempts_max: 10,
            attempts_window: Duration::from_secs(15 * 60),
            sign_up: SignUpPolicy::Closed,
            mailer: None,
            providers: None,
            token_issuers: None,
            passkeys: None,
            events_max: 100_000,
            step_up: Vec::new(),
            profile: None,
            title: "Marmota".to_owned(),
            account_url: "http://127.0.0.1:8080/account".to_owned(),
            login_links: false,
            link_age: Duration::from_secs(3600),
            invitation_age: Duration::from_secs(7 * 24 * 3600),
            mails_max: 5,
            listener: None,
            clock: None,
        }
    }
}

impl Settings {
    /// Adds grants for every user, in addition to those of their groups. Default: none.
    ///
    /// They are checked by [`crate::Auth::new`]. Anonymous callers do not have them.
    pub fn everyone(mut self, grants: impl IntoIterator<Item = Grant>) -> Self {
        self.everyone.extend(grants);
        self
    }

    /// Adds grants for anonymous callers. Default: none.
    ///
    /// Without any, requests without a credential are refused.
    pub fn anonymous(mut self, grants: impl IntoIterator<Item = Grant>) -> Self {
        self.anonymous.extend(grants);
        self
    }

    /// Sets how long a session may be unused before it expires. Default: 8 hours.
    pub const fn session_idle(mut self, time: Duration) -> Self {
        self.session_idle = time;
        self
    }

    /// Sets the maximum duration of a session. Default: 30 days.
    ///
    /// It applies from the login, also to a session that is in use.
    pub const fn session_age_max(mut self, time: Duration) -> Self {
        self.session_age_max = time;
        self
    }

    /// Sets whether a login ends the user's other sessions. Default: false.
    pub const fn one_session(mut self, one: bool) -> Self {
        self.one_session = one;
        self
    }

    /// Sets the maximum number of sessions and of keys of a user. A login above it ends the oldest
    /// session. Default: 50.
    pub fn sessions_max(mut self, sessions: usize) -> Self {
        self.sessions_max = sessions.max(1);
        self
    }

    /// Sets how long a JWT is valid, at most as long as its session. Default: 15 minutes.
    pub const fn jwt_age(mut self, time: Duration) -> Self {
        self.jwt_age = time;
        self
    }

    /// Sets the secret that signs JWTs (HS256), at least 32 bytes: for several processes, or for
    /// JWTs that remain valid after a restart. Default: random for each process.
    pub fn jwt_secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.jwt_secret = Some(Zeroizing::new(secret.into()));
        self
    }

    /// Sets how long a one-time token is valid. Default: 24 hours.
    pub const fn token_age(mut self, time: Duration) -> Self {
        self.token_age = time;
        self
    }

    /// Sets how long a session is cached without reading the database. Default: 10 seconds. Changes by
    /// this process are effective at once. Another process on the same database sees a logout of one
    /// session after at most this time; it sees other changes (users, groups, keys, passwords) at its
    /// next request if the database is a SQLite file, otherwise after at most this time.
    pub const fn cache_ttl(mut self, time: Duration) -> Self {
        self.cache_ttl = time;
        self
    }

    /// Sets the cost of a password hash: KiB of memory and passes. Default: 19 MiB and 2. Lower
    /// costs are for tests only.
    pub const fn password_cost(mut self, memory_kib: u32, passes: u32) -> Self {
        (self.password_memory_kib, self.password_passes) = (memory_kib, passes);
        self
    }

    /// Sets the number of failed logins allowed in this time for an account from one address (for
    /// IPv6, a /64 network). Default: 10 in 15 minutes. Ten times as many are allowed from one
    /// address for all accounts, except accounts that have logged in from there before. After ten
    /// times as many failures for one account, addresses from which it has not logged in before
    /// have 2 attempts each: the account itself is never locked.
    pub const fn attempts(mut self, failures_max: u32, window: Duration) -> Self {
        (self.attempts_max, self.attempts_window) = (failures_max, window);
        self
    }

    /// Sets who may make an account. Default: closed, only administrators add users.
    pub fn sign_up(mut self, policy: SignUpPolicy) -> Self {
        self.sign_up = policy;
        self
    }

    /// Sets what sends mails about accounts. Default: none; requests that need one are refused.
    pub fn mailer(mut self, mailer: impl AccountMailer + 'static) -> Self {
        self.mailer = Some(Arc::new(mailer));
        self
    }

    /// Sets the providers with which people sign in. Default: none.
    pub fn providers(mut self, providers: impl IdentityProviders + 'static) -> Self {
        self.providers = Some(Arc::new(providers));
        self
    }

    /// Sets the issuers whose tokens are accepted as credentials. Default: none.
    pub fn token_issuers(mut self, issuers: impl TokenIssuers + 'static) -> Self {
        self.token_issuers = Some(Arc::new(issuers));
        self
    }

    /// Sets the protocol of passkeys: `WebAuthn` for the public URL of the program. Default: none, users
    /// cannot have passkeys.
    pub fn passkeys(mut self, protocol: impl PasskeyProtocol + 'static) -> Self {
        self.passkeys = Some(Arc::new(protocol));
        self
    }

    /// Sets the maximum number of security events that are kept. Default: 100,000. Older ones are
    /// deleted. With 0, none are kept.
    pub const fn events_max(mut self, events: u64) -> Self {
        self.events_max = events;
        self
    }

    /// Requires a recent authentication for writes to a table: at most this time ago, by a login or
    /// [`crate::Auth::step_up`]. Default: no table. API keys and tokens of other issuers cannot write to
    /// such a table.
    pub fn step_up(mut self, table: impl Into<String>, time: Duration) -> Self {
        self.step_up.push((table.into(), time));
        self
    }

    /// Sets the table with the fields of users that are the application's own, such as a display name.
    /// Default: none.
    ///
    /// It has the field `user`, unique and not null: a reference to the user, or an integer with the id. An
    /// account that is made by a link gets its row in the same transaction
    /// ([`crate::Auth::join_with_profile`]), and a user who is removed takes it along.
    ///
    /// ```
    /// use marmota_auth::{Auth, Settings, User};
    /// use marmota_derive::Model;
    /// use marmota_memory::Memory;
    /// use marmota_model::Ref;
    /// use marmota_store::Store;
    /// use marmota_store::rights::{Grant, Right};
    ///
    /// #[derive(Clone, Debug, Model)]
    /// struct Profile {
    ///     id: i64,
    ///     #[model(unique)]
    ///     user: Ref<User>,
    ///     #[model(not_empty, max = 60)]
    ///     display_name: String,
    /// }
    ///
    /// let builder = Store::builder(Memory::new()).model::<Profile>();
    /// let store = marmota_auth::models(builder).open()?;
    /// let own = Grant::new("profile", &Right::ALL).rule("user = @user.id");
    /// let auth = Auth::new(&store, Settings::default().profile("profile").everyone([own]))?;
    /// assert!(auth.profile_form().is_some_and(|form| form.name() == "profile"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn profile(mut self, table: impl Into<String>) -> Self {
        self.profile = Some(table.into());
        self
    }

    /// Sets the name of the program, which authenticator apps show. Default: `Marmota`.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets the URL of the page that links in mails open, without a part after `#`: the token follows
    /// there, so that it is not sent to servers. Default: `http://127.0.0.1:8080/account`.
    ///
    /// It is a setting, and not taken from requests: the header `Host` of a request could name a server
    /// that collects tokens.
    pub fn account_url(mut self, url: impl Into<String>) -> Self {
        self.account_url = url.into();
        self
    }

    /// Sets whether users can log in by a link in a mail, without a password. Default: false.
    pub const fn login_links(mut self, enabled: bool) -> Self {
        self.login_links = enabled;
        self
    }

    /// Sets how long a link in a mail is valid. Default: 1 hour. A link that starts a session is valid for
    /// at most 15 minutes.
    pub const fn link_age(mut self, time: Duration) -> Self {
        self.link_age = time;
        self
    }

    /// Sets how long an invitation is valid. Default: 7 days.
    pub const fn invitation_age(mut self, time: Duration) -> Self {
        self.invitation_age = time;
        self
    }

    /// Sets the number of mails that a client may request for one mail address, in the time of
    /// [`Settings::attempts`]. Default: 5. Ten times as many are allowed for all addresses together.
    pub const fn mails_max(mut self, mails: u32) -> Self {
        self.mails_max = mails;
        self
    }

    /// Sets the clock, instead of the system's: for tests of expiry.
    ///
    /// It does not apply to timestamps that the store sets.
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Sets a listener that receives each event, in addition to the log. Default: none.
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
