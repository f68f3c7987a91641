//! The server in the same process, called as if it were in another.

use std::io;
use std::task::{Context, Waker};

use super::wire::{Source, Wire};
use crate::server::peer::Peer;

pub(crate) struct InProcess {
    peer: Peer,
    answers: Vec<u8>,
}

impl InProcess {
    pub(crate) const fn new(peer: Peer) -> Self {
        Self { peer, answers: Vec::new() }
    }
}

impl Wire for InProcess {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.peer.is_closing() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        // What waits is polled, with a waker, when answers are asked for.
        let mut context = Context::from_waker(Waker::noop());
        self.peer.go_on(bytes, &mut self.answers, &mut context);
        Ok(bytes.len())
    }

    fn receive(&mut self, inbox: &mut Vec<u8>, context: &mut Context<'_>) -> io::Result<usize> {
        if self.answers.is_empty() {
            self.peer.go_on(&[], &mut self.answers, context);
        }
        let count = self.answers.len();
        if count == 0 && self.peer.is_closing() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        inbox.append(&mut self.answers);
        Ok(count)
    }

    fn source(&self) -> Option<&Source> {
        None
    }
}
