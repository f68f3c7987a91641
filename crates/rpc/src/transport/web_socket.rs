//! A WebSocket as a client's transport (RFC 6455): bytes travel in binary messages, whose
//! boundaries have no meaning.

use std::io;
use std::task::Context;

use marmota_http::Message;
use marmota_http::websocket::client::ClientFrame;
use marmota_http::websocket::{Decoder, FrameError, Incoming};

use super::{Source, Transport};

/// The maximum size of a message that is sent, because servers limit it.
const SENT_BYTES_MAX: usize = 256 * 1024;
/// The maximum size of a message that is received. Marmota's server sends up to 1 MiB in one.
const RECEIVED_BYTES_MAX: usize = 64 << 20;
/// Larger buffers are not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// A larger message is taken with its buffer.
const COPIED_BYTES_MAX: usize = 32 * 1024;
/// The number of masks that are made at once.
const MASKS: usize = 64;

/// A WebSocket over another transport.
pub(crate) struct WebSocketTransport {
    inner: Box<dyn Transport>,
    decoder: Decoder,
    /// Received bytes, which may begin or end within a frame.
    received: Vec<u8>,
    /// Frames that could not be sent yet.
    unsent: Vec<u8>,
    /// The number of bytes of `unsent` that were sent.
    sent: usize,
    masks: Masks,
    end: Option<End>,
}

/// The end of a WebSocket.
#[derive(Clone, Copy)]
enum End {
    /// The server has closed it.
    Closed,
    /// The server has sent an invalid frame.
    Faulty(&'static str),
}

impl WebSocketTransport {
    /// Creates a WebSocket after the upgrade, with the bytes received after the response.
    pub(crate) fn new(inner: Box<dyn Transport>, received: Vec<u8>) -> Self {
        Self {
            inner,
            decoder: Decoder::of_server(RECEIVED_BYTES_MAX),
            received,
            unsent: Vec::new(),
            sent: 0,
            masks: Masks::default(),
            end: None,
        }
    }

    fn put(&mut self, frame: ClientFrame<'_>) -> io::Result<()> {
        frame.put(&mut self.unsent, self.masks.next()?);
        Ok(())
    }

    /// Decodes received frames: appends the bytes of messages, and answers control frames.
    fn decode(&mut self, inbox: &mut Vec<u8>) -> io::Result<()> {
        let mut used = 0;
        while self.end.is_none() && used < self.received.len() {
            match self.decoder.decode(&self.received[used..]) {
                Ok((count, incoming)) => {
                    used += count;
                    match incoming {
                        Some(incoming) => self.take(incoming, inbox)?,
                        None => break,
                    }
                }
                Err(FrameError { code, reason }) => {
                    self.end = Some(End::Faulty(reason));
                    self.put(ClientFrame::Close(Some(code)))?;
                }
            }
        }
        self.received.drain(..used);
        if self.received.is_empty() && self.received.capacity() > KEPT_BYTES_MAX {
            self.received = Vec::new();
        }
        Ok(())
    }

    fn take(&mut self, incoming: Incoming, inbox: &mut Vec<u8>) -> io::Result<()> {
        match incoming {
            Incoming::Message(Message::Binary(bytes)) => {
                if inbox.is_empty() && bytes.len() > COPIED_BYTES_MAX {
                    *inbox = bytes;
                } else {
                    inbox.extend_from_slice(&bytes);
                }
            }
            Incoming::Message(Message::Text(_)) | Incoming::Pong => {}
            Incoming::Ping(bytes) => self.put(ClientFrame::Pong(&bytes))?,
            Incoming::Close(reason) => {
                self.end = Some(End::Closed);
                self.put(ClientFrame::Close(reason.map(|(code, _)| code)))?;
            }
        }
        Ok(())
    }
}

impl Transport for WebSocketTransport {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        for piece in bytes.chunks(SENT_BYTES_MAX) {
            if !self.flush()? {
                break;
            }
            // It is kept, and sent by the next flush.
            self.put(ClientFrame::Binary(piece))?;
            sent += piece.len();
        }
        self.flush()?;
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<bool> {
        while self.sent < self.unsent.len() {
            match self.inner.send(&self.unsent[self.sent..])? {
                0 => return Ok(false),
                count => self.sent += count,
            }
        }
        if self.sent > 0 {
            self.unsent.clear();
            self.sent = 0;
            if self.unsent.capacity() > KEPT_BYTES_MAX {
                self.unsent = Vec::new();
            }
        }
        self.inner.flush()
    }

    fn receive(&mut self, inbox: &mut Vec<u8>, context: &mut Context<'_>) -> io::Result<usize> {
        let before = inbox.len();
        // The first bytes may have come with the response to the upgrade.
        self.decode(inbox)?;
        while inbox.len() == before && self.end.is_none() {
            if self.inner.receive(&mut self.received, context)? == 0 {
                break;
            }
            self.decode(inbox)?;
        }
        let count = inbox.len() - before;
        match (self.flush(), self.end) {
            // Bytes received before the end are returned first; the end is reported again.
            _ if count > 0 => Ok(count),
            (_, Some(End::Closed)) => Err(io::ErrorKind::UnexpectedEof.into()),
            (_, Some(End::Faulty(reason))) => {
                Err(io::Error::other(format!("the server's WebSocket is not valid: {reason}")))
            }
            (flushed, None) => flushed.map(|_| 0),
        }
    }

    fn source(&self) -> Option<&Source> {
        self.inner.source()
    }
}

/// Random masks.
#[derive(Default)]
struct Masks {
    made: Vec<[u8; 4]>,
}

impl Masks {
    fn next(&mut self) -> io::Result<[u8; 4]> {
        if self.made.is_empty() {
            let mut random = [0; 4 * MASKS];
            getrandom::fill(&mut random).map_err(io::Error::from)?;
            self.made.extend(random.as_chunks::<4>().0);
        }
        Ok(self.made.pop().unwrap_or_default())
    }
}
