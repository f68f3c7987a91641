//! Events of users and sessions, for the log and for listeners. Events contain no secrets.

mod recorder;

use std::net::IpAddr;

use crate::account_mail::MailKind;

pub(crate) use recorder::Recorder;

/// An event of a user or session.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
#[allow(missing_docs, reason = "the members say what they are")]
pub enum SecurityEvent {
    /// A user logged in.
    LoggedIn { user: i64, name: String, address: Option<IpAddr> },
    /// A login failed: unknown name or wrong password.
    LoginFailed { name: String, address: Option<IpAddr> },
    /// A login was refused because too many had failed.
    LoginLimited { name: String, address: Option<IpAddr> },
    /// A user logged out of a session.
    LoggedOut { user: i64 },
    /// All sessions of a user were ended.
    LoggedOutEverywhere { user: i64 },
    /// A user ended one session.
    SessionRevoked { user: i64 },
    /// A mail was requested. Whether the address has an account is not known then.
    MailRequested { mail: MailKind, email: String, address: Option<IpAddr> },
    /// A request of a mail was refused, or its mail was not sent, because there were too many.
    MailLimited { email: String, address: Option<IpAddr> },
    /// The token of a link was unknown, used or expired, or used for another address.
    LinkRefused { address: Option<IpAddr> },
    /// A person was invited.
    Invited { email: String },
    /// An invitation was revoked.
    InvitationRevoked { invitation: i64 },
    /// A person made an account by a link.
    SignedUp { user: i64, address: Option<IpAddr> },
    /// A user's mail address was changed by a link.
    AddressSet { user: i64 },
    /// An authenticator app was set up.
    SecondFactorSet { user: i64 },
    /// An authenticator app was removed.
    SecondFactorRemoved { user: i64 },
    /// The recovery codes of a user were replaced.
    RecoveryCodesSet { user: i64 },
    /// A recovery code was used instead of a code of the app.
    RecoveryCodeUsed { user: i64, left: usize },
    /// A code of an authenticator app was wrong, or was used already.
    CodeFailed { user: i64, address: Option<IpAddr> },
    /// A code was refused because too many were wrong.
    CodeLimited { user: i64, address: Option<IpAddr> },
    /// A passkey was added to a user.
    PasskeyAdded { user: i64, passkey: i64 },
    /// A passkey was removed from a user.
    PasskeyRemoved { user: i64, passkey: i64 },
    /// The answer of a passkey was refused.
    PasskeyRefused { user: Option<i64>, reason: String, address: Option<IpAddr> },
    /// A user signed in with an account of a provider for the first time, or added one.
    IdentityLinked { user: i64, issuer: String },
    /// An account of a provider was removed from a user.
    IdentityUnlinked { user: i64 },
    /// A page of another origin sent a request with the session of a user, or one that would start a
    /// session.
    CrossSiteRefused { path: String, address: Option<IpAddr> },
    /// The answer of a provider was refused, or a page to return to that is of another server.
    SignInRefused { reason: String, address: Option<IpAddr> },
    /// A sign-in with a provider or a passkey was refused because the client has begun too many.
    SignInLimited { address: Option<IpAddr> },
    /// A token of another issuer was refused.
    TokenRefused { reason: String },
    /// A user authenticated again in a session.
    SteppedUp { user: i64, address: Option<IpAddr> },
    /// A session expired.
    SessionEnded { user: i64 },
    /// A user's password was changed, and all sessions were ended.
    PasswordSet { user: i64 },
    /// A one-time token was created.
    TokenMade { user: i64 },
    /// A JWT was created.
    JwtMade { user: i64 },
    /// A key was created.
    KeyMade { user: i64, key: i64 },
    /// A key was revoked.
    KeyRevoked { user: i64, key: i64 },
    /// An administrator executed an SQL statement: its text, shortened, whether it writes, and the number
    /// of rows that it returned or changed.
    SqlExecuted { user: i64, sql: String, writes: bool, rows: u64, ms: u64, error: Option<String> },
    /// A user was added.
    UserAdded { user: i64, name: String },
    /// A user's groups, role or status were changed.
    UserChanged { user: i64 },
    /// A user was removed.
    UserRemoved { user: i64 },
    /// The grants of a group were changed.
    GroupSet { name: String },
    /// A group was removed.
    GroupRemoved { name: String },
}

impl SecurityEvent {
    /// Returns true for an event that an administrator should notice.
    pub(crate) const fn is_warning(&self) -> bool {
        matches!(
            self,
            Self::LoginFailed { .. }
                | Self::LoginLimited { .. }
                | Self::MailLimited { .. }
                | Self::LinkRefused { .. }
                | Self::CodeFailed { .. }
                | Self::CodeLimited { .. }
                | Self::PasskeyRefused { .. }
                | Self::CrossSiteRefused { .. }
                | Self::SignInRefused { .. }
                | Self::SignInLimited { .. }
                | Self::TokenRefused { .. }
        )
    }
}

/// Receives events, on the thread on which they occur; it should return quickly.
pub trait Listener: Send + Sync {
    /// Handles an event.
    fn happened(&self, event: &SecurityEvent);
}

impl<F: Fn(&SecurityEvent) + Send + Sync> Listener for F {
    fn happened(&self, event: &SecurityEvent) {
        self(event);
    }
}
