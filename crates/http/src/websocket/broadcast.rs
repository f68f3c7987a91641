//! One message to many WebSockets: made a frame once, and read by each socket from a common log,
//! so that what a slow one has not taken is nobody's copy.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

#[cfg(feature = "compression")]
use super::deflate;
use super::frame::{Opcode, put_frame};
use super::message::Message;

/// Messages kept for those that are behind.
const MESSAGES_MAX: usize = 1_024;
/// Bytes of them.
const BYTES_MAX: usize = 4 << 20;

/// Says the same to many WebSockets ([`super::WebSocket::join`]), from any thread.
///
/// What was encoded last, 1,024 messages or 4 MiB, is kept for sockets that are behind; one that is
/// further behind is closed with 1008, so that a slow client costs nobody else anything.
///
/// ```
/// use marmota_http::{Broadcast, Router};
/// let shared = Broadcast::new();
/// let router = Router::new().websocket("/shared", move |socket| {
///     let shared = shared.clone();
///     async move {
///         socket.join(&shared);
///         while let Some(message) = socket.receive().await {
///             shared.send(message);
///         }
///         Ok(())
///     }
/// });
/// ```
#[derive(Clone, Default)]
pub struct Broadcast {
    shared: Arc<Mutex<BroadcastLog>>,
}

#[derive(Default)]
struct BroadcastLog {
    log: VecDeque<Arc<EncodedMessage>>,
    bytes: usize,
    /// The number of the message after the last.
    next: u64,
    members: Vec<Option<MemberWaker>>,
    free: Vec<usize>,
    count: usize,
    /// Members that take compressed messages.
    compressing_members: usize,
}

#[derive(Default)]
struct MemberWaker {
    waker: Option<Waker>,
}

/// A message as it goes over the wire.
pub(super) struct EncodedMessage {
    plain: Arc<[u8]>,
    /// For those with the usual window; none where that is no shorter.
    #[cfg(feature = "compression")]
    deflated: Option<Arc<[u8]>>,
}

impl EncodedMessage {
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

    /// The bytes for a client that agreed on this window, or on none.
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
    /// A broadcast that nobody listens to yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says something to all that have joined; it does not wait for any of them.
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
        // These wakers are connections': they take no lock of ours.
        for member in shared.members.iter().flatten() {
            if let Some(waker) = &member.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// How many sockets have joined.
    pub fn members(&self) -> usize {
        lock(&self.shared).count
    }

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

/// A socket's place in a broadcast, and how far it has read.
pub(super) struct Membership {
    shared: Arc<Mutex<BroadcastLog>>,
    place: usize,
    cursor: u64,
    takes_compressed: bool,
    /// The shared knows whom to wake.
    settled: bool,
}

impl Membership {
    pub(super) fn is_of(&self, broadcast: &Broadcast) -> bool {
        Arc::ptr_eq(&self.shared, &broadcast.shared)
    }

    /// The next message that was not read yet. `Err` if it is not kept any more.
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

fn lock(shared: &Mutex<BroadcastLog>) -> MutexGuard<'_, BroadcastLog> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
