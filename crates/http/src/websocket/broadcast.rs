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
/// What was said last, 1,024 messages or 4 MiB, is kept for sockets that are behind; one that is
/// further behind is closed with 1008, so that a slow client costs nobody else anything.
///
/// ```
/// use marmota_http::{Broadcast, Router};
/// let room = Broadcast::new();
/// let router = Router::new().websocket("/room", move |socket| {
///     let room = room.clone();
///     async move {
///         socket.join(&room);
///         while let Some(message) = socket.receive().await {
///             room.send(message);
///         }
///         Ok(())
///     }
/// });
/// ```
#[derive(Clone, Default)]
pub struct Broadcast {
    room: Arc<Mutex<Room>>,
}

#[derive(Default)]
struct Room {
    log: VecDeque<Arc<Said>>,
    bytes: usize,
    /// The number of the message after the last.
    next: u64,
    members: Vec<Option<Member>>,
    free: Vec<usize>,
    count: usize,
    /// Members that take compressed messages.
    inflating: usize,
}

#[derive(Default)]
struct Member {
    waker: Option<Waker>,
}

/// A message as it goes over the wire.
pub(super) struct Said {
    plain: Arc<[u8]>,
    /// For those with the usual window; none where that is no shorter.
    #[cfg(feature = "compression")]
    deflated: Option<Arc<[u8]>>,
}

impl Said {
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
        let (count, inflating) = {
            let room = lock(&self.room);
            (room.count, room.inflating)
        };
        if count == 0 {
            return;
        }
        let said = Arc::new(Said::new(&message.into(), inflating > 0));
        let bytes = said.plain.len();
        let mut room = lock(&self.room);
        room.next += 1;
        room.bytes += bytes;
        room.log.push_back(said);
        while room.log.len() > MESSAGES_MAX || (room.bytes > BYTES_MAX && room.log.len() > 1) {
            if let Some(old) = room.log.pop_front() {
                room.bytes -= old.plain.len();
            }
        }
        // These wakers are connections': they take no lock of ours.
        for member in room.members.iter().flatten() {
            if let Some(waker) = &member.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// How many sockets have joined.
    pub fn members(&self) -> usize {
        lock(&self.room).count
    }

    pub(super) fn enter(&self, inflates: bool) -> Membership {
        let mut room = lock(&self.room);
        let place = match room.free.pop() {
            Some(place) => place,
            None => {
                room.members.push(None);
                room.members.len() - 1
            }
        };
        room.members[place] = Some(Member::default());
        room.count += 1;
        room.inflating += usize::from(inflates);
        let cursor = room.next;
        Membership { room: Arc::clone(&self.room), place, cursor, inflates, settled: false }
    }
}

impl fmt::Debug for Broadcast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broadcast").field("members", &self.members()).finish()
    }
}

/// A socket's place in a broadcast, and how far it has read.
pub(super) struct Membership {
    room: Arc<Mutex<Room>>,
    place: usize,
    cursor: u64,
    inflates: bool,
    /// The room knows whom to wake.
    settled: bool,
}

impl Membership {
    pub(super) fn is_of(&self, broadcast: &Broadcast) -> bool {
        Arc::ptr_eq(&self.room, &broadcast.room)
    }

    /// The next message that was not read yet. `Err` if it is not kept any more.
    pub(super) fn next(&mut self, waker: &Waker) -> Result<Option<Arc<Said>>, ()> {
        let mut room = lock(&self.room);
        if !self.settled {
            self.settled = true;
            if let Some(Some(member)) = room.members.get_mut(self.place) {
                member.waker = Some(waker.clone());
            }
        }
        let first = room.next - room.log.len() as u64;
        let Some(at) = self.cursor.checked_sub(first) else { return Err(()) };
        let said = room.log.get(at as usize).cloned();
        self.cursor += u64::from(said.is_some());
        Ok(said)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut room = lock(&self.room);
        room.members[self.place] = None;
        room.free.push(self.place);
        room.count -= 1;
        room.inflating -= usize::from(self.inflates);
        if room.count == 0 {
            room.log.clear();
            room.bytes = 0;
        }
    }
}

fn lock(room: &Mutex<Room>) -> MutexGuard<'_, Room> {
    room.lock().unwrap_or_else(PoisonError::into_inner)
}
