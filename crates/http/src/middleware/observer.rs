//! The observer of a server thread: metrics, and lines of the access log. The server calls it
//! through the trait [`Observe`] (`message/observe.rs`), which the lower folders know. A server
//! without both has no observer, and each answer costs it one comparison.

use std::sync::Arc;
use std::time::Instant;

use crate::message::observe::{ConnectionEvent, Observe};
use crate::message::request::Request;
use crate::middleware::access_log::{AccessLog, Answered, LogLines};
use crate::middleware::metrics::{Counters, Metrics, add};
use crate::socket::address::Peer;

/// The settings of a server from which each thread's observer is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observing {
    pub(crate) metrics: Option<Metrics>,
    pub(crate) access_log: Option<AccessLog>,
}

impl Observing {
    /// Returns the observer of one thread; `None` if nothing is observed.
    pub(crate) fn thread(&self) -> Option<Box<dyn Observe>> {
        let counters = self.metrics.as_ref().map(Metrics::thread);
        let log = self.access_log.as_ref().map(AccessLog::thread);
        let observed = counters.is_some() || log.is_some();
        observed.then(|| -> Box<dyn Observe> {
            Box::new(Observer { counters, log, started: Instant::now() })
        })
    }
}

/// The observer of one thread.
pub(crate) struct Observer {
    /// This thread's numbers, if there are metrics.
    counters: Option<Arc<Counters>>,
    /// This turn's lines, if there is an access log.
    log: Option<LogLines>,
    /// The origin of the times in microseconds.
    started: Instant,
}

impl Observe for Observer {
    /// Returns the time in microseconds. It is read once for each request and each answer.
    fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    /// Counts an event that is not an answer.
    #[cold]
    fn note(&self, seen: ConnectionEvent) {
        let Some(counters) = &self.counters else { return };
        let counter = match seen {
            ConnectionEvent::Opened => &counters.opened,
            ConnectionEvent::Closed => &counters.closed,
            ConnectionEvent::Refused => &counters.refused,
            ConnectionEvent::Shed => &counters.shed,
            #[cfg(feature = "http2")]
            ConnectionEvent::Flooding => &counters.flooding,
            ConnectionEvent::CutOff => &counters.cut_off,
            ConnectionEvent::HandshakeFailed => &counters.handshakes_failed,
            ConnectionEvent::SocketFailed => &counters.sockets_failed,
        };
        add(counter, 1);
    }

    fn note_received(&self, bytes: usize) {
        if let Some(counters) = &self.counters {
            add(&counters.received_bytes, bytes as u64);
        }
    }

    fn note_sent(&self, bytes: usize) {
        if let Some(counters) = &self.counters {
            add(&counters.sent_bytes, bytes as u64);
        }
    }

    /// Reads the status and the length from the text of an answer, which all protocols have, and
    /// notes it. `rest` is the number of bytes that follow the text.
    #[cold]
    #[inline(never)]
    fn note_written(&mut self, request: Option<&Request>, peer: Peer, answer: &[u8], rest: u64) {
        let digits = answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        let status = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
        let head = answer.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |at| at + 4);
        let took_us = match request.map_or(0, |request| request.0.begun_us.get()) {
            0 => 0,
            begun_us => self.now_us().saturating_sub(begun_us),
        };
        let bytes = (answer.len() - head) as u64 + rest;
        self.note_answer(&Answered { request, peer, status, bytes, took_us });
    }

    /// Passes the lines of this turn to the access log's writer.
    fn flush(&mut self) {
        if let Some(log) = &mut self.log {
            log.flush();
        }
    }
}

impl Observer {
    /// Counts an answer, and writes its line.
    fn note_answer(&mut self, answered: &Answered<'_>) {
        if let Some(counters) = &self.counters {
            counters.answer(answered.status, answered.took_us);
        }
        if let Some(log) = &mut self.log {
            log.note(answered);
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.flush();
    }
}
