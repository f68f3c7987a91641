//! What a server thread is observed by: numbers, and lines for each request. A server without
//! either asks once an answer whether it has them.

use std::sync::Arc;
use std::time::Instant;

use crate::access_log::{AccessLog, Answered, LogLines};
use crate::address::Peer;
use crate::metrics::{Counters, Metrics, add};
use crate::request::Request;
use crate::writer::Tail;

/// What a server is observed by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observing {
    pub(crate) metrics: Option<Metrics>,
    pub(crate) access_log: Option<AccessLog>,
}

impl Observing {
    /// What one thread is observed by, if it is.
    pub(crate) fn thread(&self) -> Option<Box<Observer>> {
        let counters = self.metrics.as_ref().map(Metrics::thread);
        let log = self.access_log.as_ref().map(AccessLog::thread);
        let observed = counters.is_some() || log.is_some();
        observed.then(|| Box::new(Observer { counters, log, started: Instant::now() }))
    }
}

pub(crate) struct Observer {
    counters: Option<Arc<Counters>>,
    log: Option<LogLines>,
    started: Instant,
}

impl Observer {
    /// Microseconds on a clock that never goes back.
    pub(crate) fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    pub(crate) fn note_opened(&self) {
        if let Some(counters) = &self.counters {
            add(&counters.opened, 1);
        }
    }

    pub(crate) fn note_closed(&self) {
        if let Some(counters) = &self.counters {
            add(&counters.closed, 1);
        }
    }

    #[cold]
    pub(crate) fn note_refused(&self) {
        if let Some(counters) = &self.counters {
            add(&counters.refused, 1);
        }
    }

    #[cold]
    pub(crate) fn note_shed(&self) {
        if let Some(counters) = &self.counters {
            add(&counters.shed, 1);
        }
    }

    #[cfg(feature = "http2")]
    #[cold]
    pub(crate) fn note_flooding(&self) {
        if let Some(counters) = &self.counters {
            add(&counters.flooding, 1);
        }
    }

    #[cold]
    pub(crate) fn note_cut_off(&self) {
        if let Some(counters) = &self.counters {
            add(&counters.cut_off, 1);
        }
    }

    #[cold]
    pub(crate) fn note_handshake_failed(&self) {
        if let Some(counters) = &self.counters {
            add(&counters.handshakes_failed, 1);
        }
    }

    #[cold]
    pub(crate) fn note_socket_failed(&self) {
        if let Some(counters) = &self.counters {
            add(&counters.sockets_failed, 1);
        }
    }

    pub(crate) fn note_received(&self, bytes: usize) {
        if let Some(counters) = &self.counters {
            add(&counters.received_bytes, bytes as u64);
        }
    }

    pub(crate) fn note_sent(&self, bytes: usize) {
        if let Some(counters) = &self.counters {
            add(&counters.sent_bytes, bytes as u64);
        }
    }

    /// Tells of an answer of HTTP/1.1 and what follows it.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_written(
        &mut self,
        request: Option<&Request>,
        peer: Peer,
        answer: &[u8],
        tail: Option<&Tail>,
    ) {
        let digits = answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        let status = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
        let head = answer.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |at| at + 4);
        // Of a body without a length nobody knows yet how long it will be.
        let rest = match tail {
            Some(Tail::Body(body)) => body.len() as u64,
            Some(Tail::Stream(stream)) => stream.0.length().unwrap_or(0),
            Some(Tail::Successor(_)) | None => 0,
        };
        let took_us = match request.map_or(0, |request| request.0.begun_us.get()) {
            0 => 0,
            begun_us => self.now_us().saturating_sub(begun_us),
        };
        let bytes = (answer.len() - head) as u64 + rest;
        self.note_answer(&Answered { request, peer, status, bytes, took_us });
    }

    fn note_answer(&mut self, answered: &Answered<'_>) {
        if let Some(counters) = &self.counters {
            counters.answer(answered.status, answered.took_us);
        }
        if let Some(log) = &mut self.log {
            log.note(answered);
        }
    }

    /// The end of a turn.
    pub(crate) fn flush(&mut self) {
        if let Some(log) = &mut self.log {
            log.flush();
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.flush();
    }
}
