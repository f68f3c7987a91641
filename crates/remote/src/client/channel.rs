//! A connection for other protocols than the store's: packets in both directions at any time, over
//! the same sockets.

use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::engine::{Watch, Watched};

use super::line::send_front;
use super::parse;
use super::reach::{Route, Upgrade, reach};
use super::wire::Wire;
use crate::codec::packet;

/// The maximum number of bytes that wait to be sent.
const OUTBOX_BYTES_MAX: usize = 64 << 20;

/// A connection that carries packets in both directions. Only connecting blocks.
pub struct Channel {
    wire: Box<dyn Wire>,
    watch: Arc<Watch>,
    watched: Option<Watched>,
    outbox: Vec<u8>,
    /// The number of bytes of the outbox that were sent.
    sent: usize,
    inbox: Vec<u8>,
    /// The number of bytes of the inbox that were processed.
    done: usize,
    packet_bytes_max: usize,
}

impl Channel {
    /// Connects to a server's URL (as for [`crate::Remote::from_url`]) and upgrades the connection
    /// to `protocol`, which is served under the URL's prefix and `path`. The credential is sent as
    /// `Authorization: Bearer`; `ca_file` is that of [`crate::Remote::ca_file`].
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if no server listens there, [`ErrorKind::Denied`],
    /// [`ErrorKind::Protocol`] if the protocol is not served.
    pub fn connect(
        url: &str,
        path: &str,
        protocol: &'static str,
        credential: &[u8],
        ca_file: Option<&Path>,
        within: Duration,
    ) -> Result<Self> {
        let (_, address, prefix) = parse(url)?;
        let path = format!("{}{path}", prefix.trim_end_matches('/'));
        let served = "nothing of that kind is served";
        let to = Upgrade { protocol, path: &path, served, credential };
        let (wire, inbox) =
            reach(Route { address: &address, local: None, ca_file }, to, &[], within)?;
        Ok(Self {
            wire,
            watch: Arc::default(),
            watched: None,
            outbox: Vec::new(),
            sent: 0,
            inbox,
            done: 0,
            packet_bytes_max: 64 << 20,
        })
    }

    /// Queues a packet for sending.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if the server does not read earlier packets.
    pub fn send(&mut self, body: &[u8]) -> Result<()> {
        if self.outbox.len() - self.sent + body.len() > OUTBOX_BYTES_MAX {
            return Err(Error::new(ErrorKind::Busy, "the server does not take what is sent"));
        }
        packet::put(&mut self.outbox, body);
        Ok(())
    }

    /// Sends queued bytes and returns the next packet; wakes the context when there may be more to
    /// do, and at the time `at`.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the connection has ended.
    pub fn poll(
        &mut self,
        context: &mut Context<'_>,
        at: Option<Instant>,
    ) -> Poll<Result<Vec<u8>>> {
        self.watch.look();
        if let Err(error) = self.flush() {
            return Poll::Ready(Err(lost(error)));
        }
        loop {
            match packet::first(&self.inbox[self.done..], self.packet_bytes_max)? {
                Some((body, length)) => {
                    let body = body.to_vec();
                    self.done += length;
                    return Poll::Ready(Ok(body));
                }
                None => drop(self.inbox.drain(..self.done)),
            }
            self.done = 0;
            match self.wire.receive(&mut self.inbox, context) {
                Ok(0) => {
                    // The wakeup may have been for room to send.
                    match self.flush() {
                        Ok(()) => break,
                        Err(error) => return Poll::Ready(Err(lost(error))),
                    }
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(lost(error))),
            }
        }
        if let Some(source) = self.wire.source() {
            let is_new = self.watch.keep(source, &mut self.watched);
            if is_new || self.watched.is_none() {
                // Data may have arrived before, or there is no watcher: poll again.
                context.waker().wake_by_ref();
            }
        }
        self.watch.wake(context.waker());
        if let Some(at) = at {
            self.watch.wake_at(at);
        }
        Poll::Pending
    }

    fn flush(&mut self) -> std::io::Result<()> {
        send_front(&mut *self.wire, &mut self.outbox, &mut self.sent)?;
        self.wire.flush().map(drop)
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Channel")
    }
}

#[cold]
fn lost(error: std::io::Error) -> Error {
    let message = "the connection has ended; what was under way may have taken place";
    Error::new(ErrorKind::Lost, message).with_source(error)
}
