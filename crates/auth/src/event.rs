//! What happens to users and sessions, for the log and for whoever listens.
//! No event has a secret in it.

use std::net::IpAddr;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the members say what they are")]
pub enum Event {
    /// A user logged in.
    LoggedIn { user: i64, name: String, address: Option<IpAddr> },
    /// A login failed: by a name that there is not, or a wrong password.
    LoginFailed { name: String, address: Option<IpAddr> },
    /// A login was not tried, because too many had failed.
    LoginLimited { name: String, address: Option<IpAddr> },
    /// A user ended a session.
    LoggedOut { user: i64 },
    /// All sessions of a user were ended.
    LoggedOutEverywhere { user: i64 },
    /// A session came to its end.
    SessionEnded { user: i64 },
    /// A user has another password, and no session.
    PasswordSet { user: i64 },
    /// A one-time token was made.
    TokenMade { user: i64 },
    /// A JWT was made.
    JwtMade { user: i64 },
    /// A key was made.
    KeyMade { user: i64, key: i64 },
    /// A key was taken back.
    KeyRevoked { user: i64, key: i64 },
    /// A user was added.
    UserAdded { user: i64, name: String },
    /// A user's groups, or what else is said of them, were changed.
    UserChanged { user: i64 },
    /// A user was removed.
    UserRemoved { user: i64 },
    /// What a group may do was changed.
    GroupSet { name: String },
    /// A group was removed.
    GroupRemoved { name: String },
}

/// Hears of events, on the thread where they happen: quickly, please.
pub trait Listener: Send + Sync {
    /// It happened.
    fn happened(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> Listener for F {
    fn happened(&self, event: &Event) {
        self(event);
    }
}
