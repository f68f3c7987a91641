//! One server thread: an event loop over its connections.
//!
//! A turn of the loop waits for events, passes each to its connection, polls the handlers that were
//! woken, and sometimes sweeps: it checks all deadlines, returns memory and reports to the budgets
//! that threads share. The [`Reactor`] waits; a [`Connection`] reads, parses, answers and writes;
//! the worker owns both and passes between them what they ask of each other (see
//! [`Connection::next_ring_request`]).
//!
//! Nothing here blocks except the reactor's wait. Threads share only [`Common`]: counters and
//! budgets.

use std::any::Any;
use std::cmp::Reverse;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::send;

use crate::body::budget::Budget;
use crate::connection::slab::Slab;
use crate::connection::{Connection, Fate, RingRequest};
use crate::message::limits::Limits;
use crate::message::observe::ConnectionEvent;
use crate::message::problem::{self, PROBLEM_JSON};
use crate::message::thread_locals::ThreadLocals;
use crate::proto::status::Status;
use crate::reactor::Reactor;
use crate::reactor::descriptors::Descriptors;
use crate::reactor::event::{Event, Token};
use crate::reactor::memory_trimmer;
use crate::reactor::readiness_watch::WatchedSources;
use crate::reactor::task;
use crate::routing::router::Routes;
use crate::server::route_changes::RouteState;
use crate::socket::listener::Listener;
use crate::socket::system::SEND_FLAGS;

/// Connections accepted from a listener in one turn, before others are served.
const ACCEPTS_MAX: usize = 64;
/// Minimum time between two rounds of ending connections with unread answers, in ms.
const SHED_EVERY_MS: u64 = 10;
/// How long no connection is accepted after the process ran out of file descriptors or memory, in
/// ms.
const PAUSE_MS: u64 = 100;
/// How long the thread waits for events while requests are held back, in ms: it then counts those
/// in progress again.
const HELD_BACK_MS: u64 = 5;

/// Returns the answer to a connection beyond [`Limits::connections_max`]: 503 with a problem
/// document.
fn busy() -> Vec<u8> {
    let detail = "the server has reached its limit of connections; try again later";
    let body = problem::document(Status::SERVICE_UNAVAILABLE, Some(detail));
    let length = body.len();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
         Content-Type: {PROBLEM_JSON}\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), &body].concat()
}

/// The state that all threads of a server share.
#[derive(Debug)]
pub(crate) struct Common {
    /// The shutdown has begun.
    pub(crate) stop: AtomicBool,
    /// The number of descriptors of the process, compared with its limit.
    descriptors: Descriptors,
    /// Open connections of all threads.
    connections: AtomicUsize,
    /// The number of threads, at least 1.
    threads: usize,
    /// The budget for request bodies that are gathered.
    pub(crate) bodies: Arc<Budget>,
    /// The budget for answers that clients have not read.
    pub(crate) unread: Arc<Budget>,
    /// The routes, while they are replaced.
    pub(crate) routes: RouteState,
}

impl Common {
    /// Returns the state of a server that has this number of threads.
    pub(crate) fn new(descriptors: Descriptors, limits: &Limits, threads: usize) -> Self {
        Self {
            stop: AtomicBool::new(false),
            descriptors,
            connections: AtomicUsize::new(0),
            threads: threads.max(1),
            bodies: Budget::new(limits.held_body_bytes_max),
            unread: Budget::new(limits.unread_bytes_max),
            routes: RouteState::new(threads.max(1)),
        }
    }

    /// Returns true if an accepted connection may stay: the process has descriptors and the server
    /// connections left. It is counted then, and [`Worker::remove`] uncounts it.
    fn admits(&self, socket: &OwnedFd, connections_max: usize) -> bool {
        if !self.descriptors.accepts(socket.as_fd()) {
            return false;
        }
        let is_one_too_many = self.connections.fetch_add(1, Ordering::Relaxed) >= connections_max;
        if is_one_too_many {
            self.connections.fetch_sub(1, Ordering::Relaxed);
        }
        !is_one_too_many
    }
}

/// The event loop of a server thread.
pub(crate) struct Worker {
    reactor: Reactor,
    /// Empty once the shutdown has begun.
    listeners: Vec<Arc<Listener>>,
    /// The routes of new connections.
    routes: Arc<Routes>,
    /// The number of this thread.
    index: usize,
    /// The latest [`RouteState::number`] that this thread has acted on.
    route_number: u64,
    /// When listeners that are paused accept connections again.
    paused_until_ms: Option<u64>,
    /// The connections of this thread.
    slab: Slab,
    /// The descriptors that handlers watch.
    sources: Arc<WatchedSources>,
    /// The data that handlers and connections of this thread share: clock, buffers, limits.
    local: ThreadLocals,
    common: Arc<Common>,
    /// The time between two sweeps, by the shortest time limit.
    sweep_ms: u64,
    next_sweep_ms: u64,
    last_sweep_ms: u64,
    /// Bytes of unread answers that this thread has reported to the budget.
    unread_bytes: usize,
    /// When the shutdown ends the remaining connections.
    drain_until_ms: u64,
    /// A buffer for the tokens of woken handlers, reused in each turn.
    woken: Vec<Token>,
    /// The answer to connections beyond the limit.
    busy: Vec<u8>,
}

impl Worker {
    /// Registers the listeners and the watched descriptors with the reactor.
    pub(crate) fn new(
        listeners: Vec<Arc<Listener>>,
        routes: Arc<Routes>,
        index: usize,
        local: ThreadLocals,
        common: Arc<Common>,
        mut reactor: Reactor,
        sources: Arc<WatchedSources>,
    ) -> io::Result<Self> {
        for (index, listener) in listeners.iter().enumerate() {
            reactor.add_listener(index, &listener.socket)?;
        }
        sources.register(&mut reactor)?;
        let sweep_ms = local.limits.sweep_ms();
        Ok(Self {
            reactor,
            listeners,
            routes,
            index,
            route_number: 0,
            paused_until_ms: None,
            slab: Slab::default(),
            sources,
            next_sweep_ms: local.now_ms + sweep_ms,
            last_sweep_ms: 0,
            unread_bytes: 0,
            local,
            common,
            sweep_ms,
            drain_until_ms: 0,
            woken: Vec::new(),
            busy: busy(),
        })
    }

    /// Serves until the shutdown is complete.
    ///
    /// # Errors
    /// The reactor's error, which ends the thread and so the server.
    pub(crate) fn run(mut self) -> io::Result<()> {
        self.local.inbox.install();
        self.sources.install();
        loop {
            let patience_ms = self.patience_ms();
            self.turn(patience_ms)?;
            self.wake();
            if let Some(observer) = &mut self.local.observer {
                observer.flush();
            }
            if self.common.routes.number() != self.route_number || self.local.held_back {
                self.follow_routes();
            }
            if self.local.now_ms >= self.next_sweep_ms || self.has_to_shed() {
                self.sweep();
            }
            if self.common.stop.load(Ordering::Relaxed) && self.stop()? {
                return Ok(());
            }
        }
    }

    /// Waits for events, for up to `patience_ms`, and handles them.
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

    /// Returns how long the reactor may wait, in ms: 0 if a handler was woken, until the next sweep
    /// if there are connections, and without limit (`None`) otherwise. An idle server therefore
    /// uses no processor time.
    fn patience_ms(&mut self) -> Option<u64> {
        task::woken(&mut self.woken);
        if !self.woken.is_empty() {
            return Some(0);
        }
        if self.local.held_back {
            return Some(HELD_BACK_MS);
        }
        let quiet = self.slab.len() == 0
            && self.paused_until_ms.is_none()
            && !self.local.draining
            && !self.local.trimmer.needs_check();
        (!quiet).then(|| self.next_sweep_ms.saturating_sub(self.local.now_ms).max(1))
    }

    /// Passes an event to the connection, listener or inbox that it concerns.
    ///
    /// With a poller an event is readiness, and the connection reads. With io_uring it has the bytes
    /// (`Arrived`) or the buffer that was sent (`Sent`): the piece is given back to the ring before
    /// the connection is driven, so the ring does not run out of pieces.
    #[inline]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Listener(index) => self.accept(index),
            Event::Wakeup => self.local.inbox.collect(&mut self.woken),
            Event::WatchedSources => self.sources.call(),
            Event::Ready { token, readable, half_closed, gone } => {
                self.with(token, |connection, local| {
                    if readable {
                        connection.note_readable(half_closed, local);
                    }
                    if gone { Fate::Drop } else { connection.drive(local) }
                });
            }
            Event::Received { token, piece, more } => {
                let Some(ring) = self.reactor.ring() else { return };
                if let Some(connection) = self.slab.get_mut(token) {
                    connection.take(ring.bytes(&piece), more, &mut self.local);
                }
                ring.give(piece);
                self.with(token, Connection::drive);
            }
            Event::ReceiveStopped { token, error } => {
                self.with(token, |connection, local| match connection.note_dry(error) {
                    Fate::Drop => Fate::Drop,
                    Fate::Keep => connection.drive(local),
                });
            }
            Event::Writable { token } => self.with(token, |connection, local| {
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

    /// Calls `act` with a connection, then removes the connection if it is over, or passes its
    /// requests to the ring. An unknown token is ignored: its connection has ended since the event
    /// was reported.
    ///
    /// All work on a connection goes through here, so none of its requests to the ring is missed.
    #[inline]
    fn with(&mut self, token: Token, act: impl FnOnce(&mut Connection, &mut ThreadLocals) -> Fate) {
        let Some(connection) = self.slab.get_mut(token) else { return };
        if act(connection, &mut self.local) == Fate::Drop {
            return self.remove(token);
        }
        if let Some(ring) = self.reactor.ring() {
            while let Some(request) = connection.next_ring_request() {
                match request {
                    RingRequest::Send(output, from) => {
                        let number = ring.send(connection.socket(), token, output, from);
                        connection.note_sending(number);
                    }
                    RingRequest::Room => ring.await_room(connection.socket(), token),
                    RingRequest::Stop => ring.stop_receiving(token),
                    RingRequest::Resume => ring.receive(connection.socket(), token),
                }
            }
        }
    }

    /// Polls the handlers that were woken, and drives the connections that have yielded. Handlers
    /// that are woken in the meantime are polled in the next turn, after events: a handler that
    /// always wakes itself does not starve others.
    fn wake(&mut self) {
        task::woken(&mut self.woken);
        let mut woken = std::mem::take(&mut self.woken);
        for token in woken.drain(..) {
            self.with(token, Connection::wake);
        }
        // Handlers that are woken meanwhile are polled after the next wait.
        self.woken = woken;
    }

    /// Accepts up to [`ACCEPTS_MAX`] connections that wait at a listener.
    ///
    /// A connection beyond the limits is answered with 503 and closed. If the process has no
    /// descriptor or memory left, all listeners pause.
    fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = self.listeners.get(listener) else { return };
            match listener.accept() {
                Ok(Some((socket, peer))) => {
                    if !self.common.admits(&socket, self.local.limits.connections_max) {
                        if let Some(observer) = &self.local.observer {
                            observer.note(ConnectionEvent::Refused);
                        }
                        // In the queue it would wait without end, and could not go to another
                        // server. If the reason cannot be sent, the client sees the connection
                        // close.
                        if listener.options.is_plaintext() {
                            let _ = send(&socket, &self.busy, SEND_FLAGS);
                        }
                        continue;
                    }
                    let on_ring = self.reactor.ring().is_some();
                    let (entry, routes) = (&listener.options, &self.routes);
                    let local = &mut self.local;
                    if let Some(observer) = &local.observer {
                        observer.note(ConnectionEvent::Opened);
                    }
                    if self.slab.len() == 0 {
                        self.next_sweep_ms = local.now_ms + self.sweep_ms;
                    }
                    let token = self.slab.insert(|token| {
                        Connection::new(socket, peer, token, on_ring, entry, routes, local)
                    });
                    let registered = self
                        .slab
                        .get_mut(token)
                        .map(|connection| self.reactor.add_connection(connection.socket(), token));
                    if !matches!(registered, Some(Ok(()))) {
                        self.remove(token);
                    }
                }
                Ok(None) => return,
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)) => {
                    if error == Errno::MFILE {
                        self.common.descriptors.report_exhausted();
                    }
                    return self.pause();
                }
                // The client gave up while it was in the queue, or the network did.
                Err(_) => {}
            }
        }
    }

    /// Stops accepting for [`PAUSE_MS`]: the listeners would report the same connections at once,
    /// with the same error.
    fn pause(&mut self) {
        for (index, listener) in self.listeners.iter().enumerate() {
            self.reactor.remove_listener(index, &listener.socket);
        }
        let until = self.local.now_ms + PAUSE_MS;
        self.paused_until_ms = Some(until);
        self.next_sweep_ms = self.next_sweep_ms.min(until);
    }

    /// Accepts connections again after a pause.
    fn resume(&mut self) {
        if self.paused_until_ms.is_some_and(|until| self.local.now_ms >= until) {
            self.paused_until_ms = None;
            let added = self.listeners.iter().enumerate().try_for_each(|(index, listener)| {
                self.reactor.add_listener(index, &listener.socket)
            });
            if added.is_err() {
                self.pause();
            }
        }
    }

    /// Removes a connection, and uncounts it. On a ring its socket is closed once the ring has
    /// ended the operations on it.
    fn remove(&mut self, token: Token) {
        let Some(connection) = self.slab.remove(token) else { return };
        if let Some(observer) = &self.local.observer {
            observer.note(ConnectionEvent::Closed);
        }
        self.common.connections.fetch_sub(1, Ordering::Relaxed);
        self.local.trimmer.note_freed(connection.held_bytes());
        if let Some(ring) = self.reactor.ring() {
            let (socket, operations) = connection.into_operations();
            ring.close(socket, token, operations);
        } else {
            self.reactor.remove_connection(connection.socket());
        }
    }

    /// Returns true if the bytes of unread answers may exceed their budget. Only a sweep knows the
    /// exact number: this adds the bytes of clients that have stopped reading since the last one.
    fn has_to_shed(&self) -> bool {
        let unread = &self.common.unread;
        self.local.blocked_bytes > 0
            && self.local.now_ms >= self.last_sweep_ms + SHED_EVERY_MS
            && unread.held().saturating_add(self.local.blocked_bytes) > unread.max()
    }

    /// Ends the connections that have made no progress for longest, if this thread holds more than
    /// its share of the budget for unread answers.
    ///
    /// Ends so many that an eighth of the budget is free: otherwise the next answer would exceed it
    /// again. A thread below its share ends none, because other threads hold the excess. Of
    /// connections without progress for the same time, the one that holds most is ended first.
    #[cold]
    fn shed(&mut self) {
        let unread = Arc::clone(&self.common.unread);
        let (held, max) = (unread.held(), unread.max());
        let share = max / self.common.threads;
        if self.unread_bytes <= share {
            return;
        }
        let spared = |bytes: usize| bytes - bytes / 8;
        let wanted = (held - spared(max)).min(self.unread_bytes - spared(share));
        let tokens: Vec<Token> = self.slab.tokens().collect();
        let mut slow: Vec<(u64, Reverse<usize>, Token)> = Vec::new();
        for token in tokens {
            if let Some(connection) = self.slab.get_mut(token) {
                let bytes = connection.unread_bytes();
                if bytes > 0 {
                    slow.push((connection.progress_ms(&self.local), Reverse(bytes), token));
                }
            }
        }
        slow.sort_unstable();
        let mut shed = 0;
        for (_, Reverse(bytes), token) in slow {
            if shed >= wanted {
                break;
            }
            shed += bytes;
            if let Some(observer) = &self.local.observer {
                observer.note(ConnectionEvent::Shed);
            }
            self.remove(token);
        }
        let left = self.unread_bytes.saturating_sub(shed);
        unread.report(self.unread_bytes, left);
        self.unread_bytes = left;
        log::debug!(
            "{shed} bytes of unread answers were discarded: {held} of {max} bytes were in \
                     use"
        );
    }

    /// Checks the deadline of every connection, reports unread answers to the budget, and returns
    /// memory to the system after a peak.
    ///
    /// A list ordered by deadline would have to be updated at every request; walking 16,384
    /// connections once a second takes some 100 µs.
    fn sweep(&mut self) {
        self.next_sweep_ms = self.local.now_ms + self.sweep_ms;
        self.common.descriptors.recheck(self.local.now_ms);
        self.resume();
        if let Some(until) = self.paused_until_ms {
            self.next_sweep_ms = self.next_sweep_ms.min(until);
        }
        let tokens: Vec<Token> = self.slab.tokens().collect();
        let mut unread_bytes = 0;
        for token in tokens {
            self.with(token, Connection::sweep);
            unread_bytes += self.slab.get_mut(token).map_or(0, |it| it.unread_bytes());
        }
        self.common.unread.report(self.unread_bytes, unread_bytes);
        (self.unread_bytes, self.local.blocked_bytes) = (unread_bytes, 0);
        self.last_sweep_ms = self.local.now_ms;
        if self.common.unread.held() > self.common.unread.max() {
            self.shed();
        }
        self.local.trimmer.collect();
        if self.local.trimmer.should_trim() {
            self.slab.shrink();
            self.local.clear_reserves();
            if let Some(ring) = self.reactor.ring() {
                ring.shrink();
            }
            memory_trimmer::trim();
        }
    }

    /// Follows a change of the routes: holds back requests and reports those in progress, or adopts
    /// the new routes and continues with all connections.
    #[cold]
    fn follow_routes(&mut self) {
        let common = Arc::clone(&self.common);
        let number = common.routes.number();
        if self.route_number != number {
            self.route_number = number;
            self.local.held_back = number % 2 == 1;
            if self.local.held_back {
                self.local.epoch = self.local.epoch.wrapping_add(1);
            }
            if let Some(routes) = common.routes.current()
                && !Arc::ptr_eq(&routes, &self.routes)
            {
                let (context, endpoints) =
                    (Arc::clone(&routes.context), routes.endpoints().count());
                let any: Arc<dyn Any + Send + Sync> = Arc::<Routes>::clone(&routes);
                self.local.replace_routes(context, endpoints, any);
                self.routes = routes;
            }
            let tokens: Vec<Token> = self.slab.tokens().collect();
            for token in tokens {
                self.with(token, Connection::drain);
            }
        }
        if self.local.held_back {
            let tokens: Vec<Token> = self.slab.tokens().collect();
            let connections = tokens.into_iter().map(|token| match self.slab.get_mut(token) {
                Some(connection) => connection.requests_in_progress() as usize,
                None => 0,
            });
            let requests = connections.sum();
            common.routes.report(self.index, number, requests);
        }
    }

    /// Continues the shutdown. Returns true when no connection is left, or the drain timeout has
    /// passed.
    ///
    /// The first call accepts the connections in the queues, closes the listeners, and notifies
    /// every connection: idle ones end, others end after their answers.
    fn stop(&mut self) -> io::Result<bool> {
        if !self.local.draining {
            self.drain_until_ms = self.local.now_ms + self.local.limits.drain_timeout_ms;
            // Clients in the queue have connected before the shutdown: they get answers.
            (0..self.listeners.len()).for_each(|listener| self.accept(listener));
            if self.reactor.ring().is_some() {
                // Their requests are still in their sockets.
                self.turn(Some(0))?;
            }
            for (index, listener) in self.listeners.drain(..).enumerate() {
                self.reactor.remove_listener(index, &listener.socket);
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
    /// Uncounts the connections of a thread that ends early, and its unread answers, so that the
    /// other threads' limits stay right.
    fn drop(&mut self) {
        self.common.connections.fetch_sub(self.slab.len(), Ordering::Relaxed);
        self.common.unread.report(self.unread_bytes, 0);
        self.sources.end();
        // Sources must be removed before they are closed.
        if self.reactor.ring().is_none() {
            for (index, listener) in self.listeners.iter().enumerate() {
                self.reactor.remove_listener(index, &listener.socket);
            }
            let tokens: Vec<Token> = self.slab.tokens().collect();
            for token in tokens {
                if let Some(connection) = self.slab.get_mut(token) {
                    self.reactor.remove_connection(connection.socket());
                }
            }
        }
    }
}
