//! A server in the same process, called through the protocol of remote servers.

use std::io;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use parking_lot::Mutex;

use super::wire::{Source, Wire};
use crate::server::peer::Peer;

pub(crate) struct InProcess {
    peer: Peer,
    answers: Vec<u8>,
    reader: Arc<Reader>,
}

/// Wakes the future that last found no answer. All operations in the peer are polled with this
/// waker: otherwise a packet that is sent, or a poll without a waker, would replace that future's
/// waker.
#[derive(Default)]
struct Reader(Mutex<Option<Waker>>);

impl Wake for Reader {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let reader = self.0.lock().clone();
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl InProcess {
    pub(crate) fn new(peer: Peer) -> Self {
        Self { peer, answers: Vec::new(), reader: Arc::default() }
    }

    fn go_on(&mut self, bytes: &[u8]) {
        let waker = Waker::from(Arc::clone(&self.reader));
        self.peer.go_on(bytes, &mut self.answers, &mut Context::from_waker(&waker));
    }
}

impl Wire for InProcess {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.peer.is_closing() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.go_on(bytes);
        Ok(bytes.len())
    }

    fn receive(&mut self, inbox: &mut Vec<u8>, context: &mut Context<'_>) -> io::Result<usize> {
        if self.answers.is_empty() {
            self.go_on(&[]);
        }
        if self.answers.is_empty() && !context.waker().will_wake(Waker::noop()) {
            *self.reader.0.lock() = Some(context.waker().clone());
            // Answers that arrived before the waker was set are read here.
            self.go_on(&[]);
        }
        let count = self.answers.len();
        if count == 0 && self.peer.is_closing() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if inbox.is_empty() {
            std::mem::swap(inbox, &mut self.answers);
        } else {
            inbox.append(&mut self.answers);
        }
        Ok(count)
    }

    fn source(&self) -> Option<&Source> {
        None
    }
}
