//! A server in the same process, called through the protocol of its clients elsewhere.

use std::io;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use parking_lot::Mutex;

use super::{Source, Transport};
use crate::server::protocol::ServerProtocol;

/// A connection to a server in the same process: its protocol runs on the thread of the caller.
pub struct InProcess<P> {
    protocol: P,
    output: Vec<u8>,
    reader: Arc<Reader>,
}

/// Wakes the future that last found no answer. All operations of the protocol are polled with this
/// waker: otherwise bytes that are sent, or a poll without a waker, would replace that future's
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

impl<P: ServerProtocol> InProcess<P> {
    /// Creates a connection to a server that runs this protocol.
    pub fn new(protocol: P) -> Self {
        Self { protocol, output: Vec::new(), reader: Arc::default() }
    }

    fn run(&mut self, bytes: &[u8]) -> usize {
        let waker = Waker::from(Arc::clone(&self.reader));
        self.protocol.run(bytes, &mut self.output, &mut Context::from_waker(&waker))
    }
}

impl<P: ServerProtocol + Send> Transport for InProcess<P> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.protocol.end().is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(self.run(bytes))
    }

    fn receive(&mut self, inbox: &mut Vec<u8>, context: &mut Context<'_>) -> io::Result<usize> {
        if self.output.is_empty() {
            self.run(&[]);
        }
        if self.output.is_empty() && !context.waker().will_wake(Waker::noop()) {
            *self.reader.0.lock() = Some(context.waker().clone());
            // Answers that arrived before the waker was set are read here.
            self.run(&[]);
        }
        let count = self.output.len();
        if count == 0 && self.protocol.end().is_some() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if inbox.is_empty() {
            std::mem::swap(inbox, &mut self.output);
        } else {
            inbox.append(&mut self.output);
        }
        Ok(count)
    }

    fn source(&self) -> Option<&Source> {
        None
    }
}

impl<P> std::fmt::Debug for InProcess<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InProcess")
    }
}
