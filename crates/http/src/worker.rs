//! One server thread: waits for events, takes connections, drives those that something has
//! happened to, looks at the deadlines now and then.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::connection::{Connection, Fate};
use crate::listener;
use crate::local::Local;
use crate::reactor::{BELL, Event, LISTENER, Reactor};
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
    ) -> io::Result<Self> {
        let reactor = Reactor::new()?;
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
            self.reactor.wait(patience_ms)?;
            self.local.tick();
            let mut index = 0;
            while let Some(event) = self.reactor.event(index) {
                self.handle(event);
                index += 1;
            }
            self.wake();
            if self.local.now_ms >= self.next_sweep_ms {
                self.sweep();
            }
            if self.common.stop.load(Ordering::Relaxed) && self.stop() {
                return Ok(());
            }
        }
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
        match event.token {
            LISTENER => self.accept(),
            BELL => self.local.inbox.collect(&mut self.woken),
            token => {
                let Some(connection) = self.slab.get_mut(token) else { return };
                if event.is_readable() {
                    connection.note_readable(event.is_half_closed());
                }
                let fate =
                    if event.is_gone() { Fate::Drop } else { connection.drive(&mut self.local) };
                if fate == Fate::Drop {
                    self.remove(token);
                }
            }
        }
    }

    /// Polls the handlers that were woken, and drives the connections that gave up their turn.
    fn wake(&mut self) {
        task::woken(&mut self.woken);
        let mut woken = std::mem::take(&mut self.woken);
        for token in woken.drain(..) {
            let Some(connection) = self.slab.get_mut(token) else { continue };
            if connection.wake(&mut self.local) == Fate::Drop {
                self.remove(token);
            }
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
                    let local = &self.local;
                    if self.slab.len() == 0 {
                        self.next_sweep_ms = local.now_ms + self.sweep_ms;
                    }
                    let token =
                        self.slab.insert(|token| Connection::new(socket, peer, token, local));
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
        self.reactor.remove(&**listener);
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
        if self.slab.remove(token).is_some() {
            self.common.connections.fetch_sub(1, Ordering::Relaxed);
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
        let local = &mut self.local;
        let tokens: Vec<Token> = self.slab.tokens().collect();
        for token in tokens {
            if let Some(connection) = self.slab.get_mut(token)
                && connection.sweep(local) == Fate::Drop
                && self.slab.remove(token).is_some()
            {
                self.common.connections.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Ends the service step by step; true when all is done.
    fn stop(&mut self) -> bool {
        if !self.local.draining {
            self.drain_until_ms = self.local.now_ms + self.local.limits.drain_timeout_ms;
            // Those in the queue have connected to a server that was there: they get answers.
            self.accept();
            if let Some(listener) = self.listener.take() {
                self.reactor.remove(&*listener);
            }
            self.local.draining = true;
            let tokens: Vec<Token> = self.slab.tokens().collect();
            for token in tokens {
                if let Some(connection) = self.slab.get_mut(token)
                    && connection.drain(&mut self.local) == Fate::Drop
                {
                    self.remove(token);
                }
            }
        }
        self.slab.len() == 0 || self.local.now_ms >= self.drain_until_ms
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.common.connections.fetch_sub(self.slab.len(), Ordering::Relaxed);
    }
}
