//! Who is at the other end, as lists of subscribers know it.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Instant;

use crate::link::Link;
use crate::owned::Owned;

/// Bytes of a client's name for itself, at most.
const SECRET_BYTES_MAX: usize = 64;

/// See the module.
pub(crate) struct Subscriber {
    /// The same on each connection of a client that has said who it is.
    pub(crate) name: Option<Arc<str>>,
    end: End,
    has_left: AtomicBool,
}

enum End {
    Link(Link),
    /// A client of this process, as long as anybody calls by it.
    InProcess(Weak<Owned>),
}

impl Subscriber {
    /// The other side of a connection, which has not said who it is.
    pub(crate) fn of_link(link: &Link) -> Self {
        Self { name: None, end: End::Link(link.clone()), has_left: AtomicBool::new(false) }
    }

    /// A client that has shown what it alone knows; none for what is no such text.
    pub(crate) fn named(link: &Link, secret: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_one =
            (16..=SECRET_BYTES_MAX).contains(&secret.len()) && secret.bytes().all(is_plain);
        is_one.then(|| Self { name: Some(name_of(secret)), ..Self::of_link(link) })
    }

    /// A client of this process.
    pub(crate) fn in_process(owned: &Arc<Owned>) -> Self {
        // As long as it is held weakly, no other is at its address.
        let name = format!("client at {:p}", Arc::as_ptr(owned)).into();
        let end = End::InProcess(Arc::downgrade(owned));
        Self { name: Some(name), end, has_left: AtomicBool::new(false) }
    }

    /// It does not come back.
    pub(crate) fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
    }

    /// True of what does not come back once it has gone.
    pub(crate) fn is_passing(&self) -> bool {
        self.name.is_none()
            || self.has_left.load(Ordering::Acquire)
            || matches!(self.end, End::InProcess(..))
    }

    /// Since when it has been gone.
    pub(crate) fn gone(&self) -> Option<Instant> {
        match &self.end {
            End::Link(link) => link.ended(),
            End::InProcess(owned) => (owned.strong_count() == 0).then(Instant::now),
        }
    }

    /// Tells the other side that a call of its has put it into a list.
    pub(crate) fn tell_subscribed(&self, call: Option<u64>, list: u64) {
        if let (End::Link(link), Some(_), Some(call)) = (&self.end, &self.name, call) {
            link.notify(crate::link::SUBSCRIBED, &format!("[{call},{list}]"));
        }
    }

    /// Tells the other side that it is in a list no more.
    pub(crate) fn tell_unsubscribed(&self, list: u64) {
        if let (End::Link(link), Some(_)) = (&self.end, &self.name) {
            link.notify(crate::link::UNSUBSCRIBED, &format!("[{list}]"));
        }
    }
}

/// What a client is called here. Its own text would let whoever reads it, in a
/// log perhaps, pass for that client.
fn name_of(secret: &str) -> Arc<str> {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
    let [one, other] = KEYS.each_ref().map(|key| key.hash_one(secret));
    format!("client {one:016x}{other:016x}").into()
}
