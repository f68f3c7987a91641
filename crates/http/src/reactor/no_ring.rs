//! The ring on systems other than Linux: a type without values, so that the code for rings compiles
//! everywhere. [`Ring::new`] always fails.

use std::io;

use rustix::fd::{AsFd, OwnedFd};

use crate::reactor::event::{Event, Operations, Token};

/// A ring, of which there are no values.
#[derive(Debug)]
pub(crate) enum Ring {}

/// Received bytes of a ring, of which there are no values.
#[derive(Debug)]
pub(crate) enum Piece {}

impl Ring {
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn probe() -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn watch(&mut self, _: impl AsFd, _: Token) {
        match *self {}
    }

    pub(crate) fn unwatch(&mut self, _: Token) {
        match *self {}
    }

    pub(crate) fn receive(&mut self, _: impl AsFd, _: Token) {
        match *self {}
    }

    pub(crate) fn stop_receiving(&mut self, _: Token) {
        match *self {}
    }

    pub(crate) fn await_room(&mut self, _: impl AsFd, _: Token) {
        match *self {}
    }

    pub(crate) fn send(&mut self, _: impl AsFd, _: Token, _: Vec<u8>, _: usize) -> u32 {
        match *self {}
    }

    pub(crate) fn close(&mut self, _: OwnedFd, _: Token, _: Operations) {
        match *self {}
    }

    pub(crate) fn wait(&mut self, _: Option<u64>) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn event(&mut self, _: usize) -> Option<Event> {
        match *self {}
    }

    pub(crate) fn shrink(&mut self) {
        match *self {}
    }

    pub(crate) fn bytes(&self, _: &Piece) -> &[u8] {
        match *self {}
    }

    pub(crate) fn give(&mut self, _: Piece) {
        match *self {}
    }
}
