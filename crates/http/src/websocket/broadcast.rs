//! One message to many WebSockets. It is encoded once, and each socket reads it from a common log
//! at its own pace: a slow client holds a position in the log, not a copy of the messages.
//!
//! The log is shared by all threads under a mutex, which is held for short times only. A message is
//! encoded outside of it. Sending wakes all members; each connection then copies what it has room
//! for.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

#[cfg(feature = "compression")]
use super::deflate;
use super::frame::{Opcode, put_frame};
use super::message::Message;

/// Maximum number of messages in the log.
const MESSAGES_MAX: usize = 1_024;
/// Maximum bytes in the log, in frames without compression.
const BYTES_MAX: usize = 4 << 20;

/// Sends messages to many WebSockets, from any thread; see [`super::WebSocket::join`]. Clones have
/// the same members.
///
/// The latest messages, up to 1,024 and up to 4 MiB, are kept for sockets that are slow. A socket
/// that has not received older ones is closed (1008), so a slow client delays no other and takes no
/// memory.
///
/// ```
/// use marmota_http::{Broadcast, Router};
///
/// let room = Broadcast::new();
/// let router = Router::new().websocket("/room", {
///     let room = room.clone();
///     move |socket| {
///         let room = room.clone();
///         async move {
///             socket.join(&room);
///             while let Some(message) = socket.receive().await {
///                 room.send(message);
///             }
///             Ok(())
///         }
///     }
/// });
/// // From anywhere:
/// room.send("The server restarts at noon.");
/// ```
#[derive(Clone, Default)]
pub struct Broadcast {
    shared: Arc<Mutex<BroadcastLog>>,
}

/// The log, and the sockets that read it.
#[derive(Default)]
struct BroadcastLog {
    /// The latest messages; the last one has the number `next - 1`.
    log: VecDeque<Arc<EncodedMessage>>,
    bytes: usize,
    /// The number of the next message.
    next: u64,
    /// By the place of a [`Membership`]; `None` is a free place.
    members: Vec<Option<MemberWaker>>,
    free: Vec<usize>,
    /// The number of members.
    count: usize,
    /// Members that accept compressed messages. Without any, messages are not compressed.
    compressing_members: usize,
}

/// The waker of a member's connection, once it has read for the first time.
#[derive(Default)]
struct MemberWaker {
    waker: Option<Waker>,
}

/// A message as it is sent: a frame, and one with compression.
pub(super) struct EncodedMessage {
    plain: Arc<[u8]>,
    /// For members with the usual window; `None` if that is not shorter.
    #[cfg(feature = "compression")]
    deflated: Option<Arc<[u8]>>,
}

impl EncodedMessage {
    /// Encodes a message, also compressed if `wanted`.
    fn new(message: &Message, wanted: bool) -> Self {
        let opcode = match message {
            Message::Text(_) => Opcode::Text,
            Message::Binary(_) => Opcode::Binary,
        };
        let frame = |compressed, payload: &[u8]| {
            let mut frame = Vec::with_capacity(payload.len() + 10);
            put_frame(&mut frame, opcode, compressed, payload);
            Arc::from(frame)
        };
        #[cfg(not(feature = "compression"))]
        let _ = wanted;
        Self {
            plain: frame(false, message.as_bytes()),
            #[cfg(feature = "compression")]
            deflated: wanted
                .then(|| deflate::deflate(message.as_bytes(), deflate::WINDOW_BITS))
                .flatten()
                .map(|coded| frame(true, &coded)),
        }
    }

    /// Returns the frame for a client that agreed on this window, or on no compression.
    pub(super) fn frame(&self, window_bits: Option<u8>) -> &Arc<[u8]> {
        #[cfg(feature = "compression")]
        if window_bits == Some(deflate::WINDOW_BITS)
            && let Some(deflated) = &self.deflated
        {
            return deflated;
        }
        let _ = window_bits;
        &self.plain
    }
}

impl Broadcast {
    /// Returns a broadcast without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends a message to all sockets that have joined, and returns at once: it does not wait until
    /// they have received it. Without members it does nothing.
    ///
    /// ```
    /// use marmota_http::{Broadcast, Message};
    ///
    /// let ticker = Broadcast::new();
    /// let sender = ticker.clone();
    /// let thread = std::thread::spawn(move || {
    ///     sender.send("as text");
    ///     sender.send(Message::Binary(vec![1, 2, 3]));
    /// });
    /// # thread.join().expect("it ends");
    /// ```
    pub fn send(&self, message: impl Into<Message>) {
        let (count, compressing_members) = {
            let shared = lock(&self.shared);
            (shared.count, shared.compressing_members)
        };
        if count == 0 {
            return;
        }
        let encoded = Arc::new(EncodedMessage::new(&message.into(), compressing_members > 0));
        let bytes = encoded.plain.len();
        let mut shared = lock(&self.shared);
        shared.next += 1;
        shared.bytes += bytes;
        shared.log.push_back(encoded);
        while shared.log.len() > MESSAGES_MAX || (shared.bytes > BYTES_MAX && shared.log.len() > 1)
        {
            if let Some(old) = shared.log.pop_front() {
                shared.bytes -= old.plain.len();
            }
        }
        // The wakers belong to connections, and do not take this lock.
        for member in shared.members.iter().flatten() {
            if let Some(waker) = &member.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// Returns the number of sockets that have joined.
    ///
    /// ```
    /// use marmota_http::Broadcast;
    /// assert_eq!(Broadcast::new().members(), 0);
    /// ```
    pub fn members(&self) -> usize {
        lock(&self.shared).count
    }

    /// Adds a member, which reads from the next message on.
    pub(super) fn enter(&self, takes_compressed: bool) -> Membership {
        let mut shared = lock(&self.shared);
        let place = match shared.free.pop() {
            Some(place) => place,
            None => {
                shared.members.push(None);
                shared.members.len() - 1
            }
        };
        shared.members[place] = Some(MemberWaker::default());
        shared.count += 1;
        shared.compressing_members += usize::from(takes_compressed);
        let cursor = shared.next;
        Membership {
            shared: Arc::clone(&self.shared),
            place,
            cursor,
            takes_compressed,
            settled: false,
        }
    }
}

impl fmt::Debug for Broadcast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broadcast").field("members", &self.members()).finish()
    }
}

/// A socket's place in a broadcast, and its position in the log.
pub(super) struct Membership {
    shared: Arc<Mutex<BroadcastLog>>,
    place: usize,
    /// The number of the next message to read.
    cursor: u64,
    takes_compressed: bool,
    /// The log has the waker of the connection.
    settled: bool,
}

impl Membership {
    /// Returns true if this is a place in that broadcast.
    pub(super) fn is_of(&self, broadcast: &Broadcast) -> bool {
        Arc::ptr_eq(&self.shared, &broadcast.shared)
    }

    /// Returns the next unread message, if there is one.
    ///
    /// # Errors
    /// The message is not kept any more: the socket is too slow.
    pub(super) fn next(&mut self, waker: &Waker) -> Result<Option<Arc<EncodedMessage>>, ()> {
        let mut shared = lock(&self.shared);
        if !self.settled {
            self.settled = true;
            if let Some(Some(member)) = shared.members.get_mut(self.place) {
                member.waker = Some(waker.clone());
            }
        }
        let first = shared.next - shared.log.len() as u64;
        let Some(at) = self.cursor.checked_sub(first) else { return Err(()) };
        let encoded = shared.log.get(at as usize).cloned();
        self.cursor += u64::from(encoded.is_some());
        Ok(encoded)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut shared = lock(&self.shared);
        shared.members[self.place] = None;
        shared.free.push(self.place);
        shared.count -= 1;
        shared.compressing_members -= usize::from(self.takes_compressed);
        if shared.count == 0 {
            shared.log.clear();
            shared.bytes = 0;
        }
    }
}

/// Locks the log. A panic of another thread leaves it usable.
fn lock(shared: &Mutex<BroadcastLog>) -> MutexGuard<'_, BroadcastLog> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
