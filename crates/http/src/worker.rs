//! One server thread: waits for events, takes connections, drives those that something has
//! happened to, looks at the deadlines now and then.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::connection::{Connection, Fate, Wish};
use crate::listener;
use crate::local::Local;
use crate::reactor::{Event, Reactor};
use crate::slab::Slab;
use crate::task::{self, Token};

/// Connections taken in one turn.
const ACCEPTS_MAX: usize = 64;
/// How long no connection is taken after the process ran out of file descriptors or memory.
const PAUSE_MS: u64 = 100;
/// What a connection above the limit is told.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// What all threads of a server share.
#[derive(Debug, Default)]
pub(crate) struct Common {
    pub(crate) stop: AtomicBool,
    connections: AtomicUsize,
}

pub(crate) struct Worker {
    reactor: Reactor,
    listener: Option<Arc<OwnedFd>>,
    /// When a listener that was put aside is taken up again.
    paused_until_ms: Option<u64>,
    slab: Slab,
    local: Local,
    common: Arc<Common>,
    sweep_ms: u64,
    next_sweep_ms: u64,
    drain_until_ms: u64,
    woken: Vec<Token>,
}

impl Worker {
    pub(crate) fn new(
        listener: Arc<OwnedFd>,
        local: Local,
        common: Arc<Common>,
        mut reactor: Reactor,
    ) -> io::Result<Self> {
        reactor.add_listener(&*listener)?;
        reactor.add_bell(&local.inbox.counter)?;
        let sweep_ms = local.limits.sweep_ms();
        Ok(Self {
            reactor,
            listener: Some(listener),
            paused_until_ms: None,
            slab: Slab::default(),
            next_sweep_ms: local.now_ms + sweep_ms,
            local,
            common,
            sweep_ms,
            drain_until_ms: 0,
            woken: Vec::new(),
        })
    }

    /// Serves until shutdown.
    pub(crate) fn run(mut self) -> io::Result<()> {
        self.local.inbox.settle_here();
        loop {
            let patience_ms = self.patience_ms();
            self.turn(patience_ms)?;
            self.wake();
            if self.local.now_ms >= self.next_sweep_ms {
                self.sweep();
            }
            if self.common.stop.load(Ordering::Relaxed) && self.stop()? {
                return Ok(());
            }
        }
    }

    /// Waits for events and handles them.
    fn turn(&mut self, patience_ms: Option<u64>) -> io::Result<()> {
        self.reactor.wait(patience_ms)?;
        self.local.tick();
        let mut index = 0;
        while let Some(event) = self.reactor.event(index) {
            self.handle(event);
            index += 1;
        }
        Ok(())
    }

    /// How long nothing has to be done if nothing happens; `None` is without end, so an idle
    /// server uses no processor time at all.
    fn patience_ms(&mut self) -> Option<u64> {
        task::woken(&mut self.woken);
        if !self.woken.is_empty() {
            return Some(0);
        }
        let quiet = self.slab.len() == 0 && self.paused_until_ms.is_none() && !self.local.draining;
        (!quiet).then(|| self.next_sweep_ms.saturating_sub(self.local.now_ms).max(1))
    }

    #[inline]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Listener => self.accept(),
            Event::Bell => self.local.inbox.collect(&mut self.woken),
            Event::Ready { token, readable, half_closed, gone } => {
                self.with(token, |connection, local| {
                    if readable {
                        connection.note_readable(half_closed);
                    }
                    if gone { Fate::Drop } else { connection.drive(local) }
                });
            }
            Event::Arrived { token, piece, more } => {
                let Some(ring) = self.reactor.ring() else { return };
                if let Some(connection) = self.slab.get_mut(token) {
                    connection.take(ring.bytes(&piece), more, &mut self.local);
                }
                ring.give(piece);
                self.with(token, Connection::drive);
            }
            Event::Dry { token, error } => {
                self.with(token, |connection, local| match connection.note_dry(error) {
                    Fate::Drop => Fate::Drop,
                    Fate::Keep => connection.drive(local),
                });
            }
            Event::Room { token } => self.with(token, |connection, local| {
                connection.note_room();
                connection.drive(local)
            }),
            Event::Sent { token, output, from, result } => self.with(token, |connection, local| {
                match connection.take_back(output, from, result, local) {
                    Fate::Drop => Fate::Drop,
                    Fate::Keep => connection.drive(local),
                }
            }),
            Event::Nothing => {}
        }
    }

    /// Has something done to a connection, and sees to what follows from it.
    #[inline]
    fn with(&mut self, token: Token, act: impl FnOnce(&mut Connection, &mut Local) -> Fate) {
        let Some(connection) = self.slab.get_mut(token) else { return };
        if act(connection, &mut self.local) == Fate::Drop {
            return self.remove(token);
        }
        if let Some(ring) = self.reactor.ring() {
            while let Some(wish) = connection.wish() {
                match wish {
                    Wish::Send(output, from) => {
                        let number = ring.send(connection.socket(), token, output, from);
                        connection.note_sending(number);
                    }
                    Wish::Room => ring.await_room(connection.socket(), token),
                    Wish::Stop => ring.stop_receiving(token),
                    Wish::Resume => ring.receive(connection.socket(), token),
                }
            }
        }
    }

    /// Polls the handlers that were woken, and drives the connections that gave up their turn.
    fn wake(&mut self) {
        task::woken(&mut self.woken);
        let mut woken = std::mem::take(&mut self.woken);
        for token in woken.drain(..) {
            self.with(token, Connection::wake);
        }
        // What is woken meanwhile has its turn after the next look at the events.
        self.woken = woken;
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = &self.listener else { return };
            match listener::accept(listener) {
                Ok(Some((socket, peer))) => {
                    if self.common.connections.fetch_add(1, Ordering::Relaxed)
                        >= self.local.limits.connections_max
                    {
                        self.common.connections.fetch_sub(1, Ordering::Relaxed);
                        // Best effort: the client learns why, or sees the connection close.
                        let _ = send(&socket, BUSY, SendFlags::NOSIGNAL);
                        continue;
                    }
                    let on_ring = self.reactor.ring().is_some();
                    let local = &self.local;
                    if self.slab.len() == 0 {
                        self.next_sweep_ms = local.now_ms + self.sweep_ms;
                    }
                    let token = self
                        .slab
                        .insert(|token| Connection::new(socket, peer, token, on_ring, local));
                    let registered = self
                        .slab
                        .get_mut(token)
                        .map(|connection| self.reactor.add_connection(connection.socket(), token));
                    if !matches!(registered, Some(Ok(()))) {
                        self.remove(token);
                    }
                }
                Ok(None) => return,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    return self.pause();
                }
                // The client gave up while it was in the queue, or the network did.
                Err(_) => {}
            }
        }
    }

    /// Puts the listener aside: its event would come again at once and find nothing better.
    fn pause(&mut self) {
        let Some(listener) = &self.listener else { return };
        self.reactor.remove_listener(&**listener);
        let until = self.local.now_ms + PAUSE_MS;
        self.paused_until_ms = Some(until);
        self.next_sweep_ms = self.next_sweep_ms.min(until);
    }

    fn resume(&mut self) {
        if self.paused_until_ms.is_some_and(|until| self.local.now_ms >= until) {
            self.paused_until_ms = None;
            if let Some(listener) = &self.listener
                && self.reactor.add_listener(&**listener).is_err()
            {
                self.pause();
            }
        }
    }

    fn remove(&mut self, token: Token) {
        let Some(connection) = self.slab.remove(token) else { return };
        self.common.connections.fetch_sub(1, Ordering::Relaxed);
        if let Some(ring) = self.reactor.ring() {
            let (socket, operations) = connection.into_operations();
            ring.close(socket, token, operations);
        }
    }

    /// Looks at every connection's deadline. A list by deadline would have to be kept at every
    /// request; walking 16,384 connections once a second takes some 100 µs.
    fn sweep(&mut self) {
        self.next_sweep_ms = self.local.now_ms + self.sweep_ms;
        self.resume();
        if let Some(until) = self.paused_until_ms {
            self.next_sweep_ms = self.next_sweep_ms.min(until);
        }
        let tokens: Vec<Token> = self.slab.tokens().collect();
        for token in tokens {
            self.with(token, Connection::sweep);
        }
    }

    /// Ends the service step by step; true when all is done.
    fn stop(&mut self) -> io::Result<bool> {
        if !self.local.draining {
            self.drain_until_ms = self.local.now_ms + self.local.limits.drain_timeout_ms;
            // Those in the queue have connected to a server that was there: they get answers.
            self.accept();
            if self.reactor.ring().is_some() {
                // What they have sent is in their sockets yet.
                self.turn(Some(0))?;
            }
            if let Some(listener) = self.listener.take() {
                self.reactor.remove_listener(&*listener);
            }
            self.local.draining = true;
            let tokens: Vec<Token> = self.slab.tokens().collect();
            for token in tokens {
                self.with(token, Connection::drain);
            }
        }
        Ok(self.slab.len() == 0 || self.local.now_ms >= self.drain_until_ms)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.common.connections.fetch_sub(self.slab.len(), Ordering::Relaxed);
    }
}
