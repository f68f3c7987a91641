//! The identity of a client for lists of subscribers.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Instant;

use super::owned::Owned;
use crate::peer::{Peer, SUBSCRIBED, UNSUBSCRIBED};

/// The maximum length of a client's secret in bytes.
const SECRET_BYTES_MAX: usize = 64;

/// A client that can be in lists of subscribers.
pub(crate) struct Subscriber {
    /// The name; the same on each connection of a client that has identified itself.
    pub(crate) name: Option<Arc<str>>,
    end: End,
    has_left: AtomicBool,
}

enum End {
    Peer(Peer),
    /// A client of this process, until it is dropped.
    InProcess(Weak<Owned>),
}

impl Subscriber {
    /// Creates a subscriber for the peer of a connection that has not identified itself.
    pub(crate) fn of_peer(peer: &Peer) -> Self {
        Self { name: None, end: End::Peer(peer.clone()), has_left: AtomicBool::new(false) }
    }

    /// Creates a subscriber from the client's secret; `None` if it is not a valid secret.
    pub(crate) fn named(peer: &Peer, secret: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_one =
            (16..=SECRET_BYTES_MAX).contains(&secret.len()) && secret.bytes().all(is_plain);
        is_one.then(|| Self { name: Some(name_of(secret)), ..Self::of_peer(peer) })
    }

    /// Creates a subscriber for a client of this process.
    pub(crate) fn in_process(owned: &Arc<Owned>) -> Self {
        // The weak reference keeps the address from being reused.
        let name = format!("client at {:p}", Arc::as_ptr(owned)).into();
        let end = End::InProcess(Arc::downgrade(owned));
        Self { name: Some(name), end, has_left: AtomicBool::new(false) }
    }

    /// Marks that the client does not come back.
    pub(crate) fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
    }

    /// Returns true if the client does not come back after it disconnects.
    pub(crate) fn is_passing(&self) -> bool {
        self.name.is_none()
            || self.has_left.load(Ordering::Acquire)
            || matches!(self.end, End::InProcess(..))
    }

    /// Returns since when the client is disconnected.
    pub(crate) fn gone(&self) -> Option<Instant> {
        match &self.end {
            End::Peer(peer) => peer.ended(),
            End::InProcess(owned) => (owned.strong_count() == 0).then(Instant::now),
        }
    }

    /// Notifies the peer that its call has added it to a list.
    pub(crate) fn send_subscribed(&self, call: Option<u64>, list: u64) {
        if let (End::Peer(peer), Some(_), Some(call)) = (&self.end, &self.name, call) {
            peer.notify(SUBSCRIBED, &format!("[{call},{list}]"));
        }
    }

    /// Notifies the peer that it was removed from a list.
    pub(crate) fn send_unsubscribed(&self, list: u64) {
        if let (End::Peer(peer), Some(_)) = (&self.end, &self.name) {
            peer.notify(UNSUBSCRIBED, &format!("[{list}]"));
        }
    }
}

/// Derives the name of a client. The secret itself, read from a log for example, would allow others
/// to impersonate that client.
fn name_of(secret: &str) -> Arc<str> {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
    let [one, other] = KEYS.each_ref().map(|key| key.hash_one(secret));
    format!("client {one:016x}{other:016x}").into()
}
