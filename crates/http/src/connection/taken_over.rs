//! A connection that another protocol has taken over. The protocol decides what to do with received
//! bytes; everything else (reading, sending, waiting, returning buffers) works as for HTTP/1.1.
//!
//! HTTP/2 takes over with the first bytes; a WebSocket takes over after the answer that opens it.
//! There is no way back: the connection ends with the protocol.

use crate::connection::state::{Connection, Fate, Outgoing, Phase, Served, Timing, own};
use crate::connection::takeover::{AHEAD_BYTES, Takeover};
#[cfg(feature = "http2")]
use crate::http2::{Http2, PREFACE};
use crate::message::protocol::{Protocol, ProtocolStep};
use crate::message::thread_locals::ThreadLocals;

impl Connection {
    /// Hands the connection to another protocol: with the first bytes, or after the answer that
    /// announces it was written. Received bytes that are not used up are its first input. The
    /// protocol gets a task, whose waker calls it again.
    pub(super) fn take_over(&mut self, protocol: Box<dyn Protocol>, local: &mut ThreadLocals) {
        let task = local.take_task();
        task.aim(self.token);
        self.timing = Timing::None;
        self.phase = Phase::Taken(Box::new(Takeover {
            protocol,
            task,
            step: ProtocolStep::More,
            was_called: false,
            epoch: local.epoch,
        }));
    }

    /// Returns true if input that is not an HTTP/1.1 head begins like the HTTP/2 preface (RFC 9113,
    /// 3.4). HTTP/2 takes over the connection once the whole preface has arrived.
    #[cfg(feature = "http2")]
    #[cold]
    pub(super) fn detect_http2(&mut self, local: &mut ThreadLocals) -> bool {
        let Some(request) = &self.request else { return false };
        let come = &request.0.buffer[request.0.consumed..];
        let compared = come.len().min(PREFACE.len());
        if self.requests > 0 || come[..compared] != PREFACE[..compared] {
            return false;
        }
        if compared == PREFACE.len() {
            self.start_http2(local);
        } else if self.timing != Timing::Head {
            self.set_deadline(Timing::Head, local.now_ms + local.limits.header_timeout_ms);
        }
        true
    }

    /// Returns false: without the feature `http2` the preface is a malformed head.
    #[cfg(not(feature = "http2"))]
    pub(super) fn detect_http2(&mut self, _: &mut ThreadLocals) -> bool {
        false
    }

    /// Hands the connection to HTTP/2, by its preface or by ALPN.
    #[cfg(feature = "http2")]
    pub(super) fn start_http2(&mut self, local: &mut ThreadLocals) {
        let http2 = Http2::new(&self.routes, self.peer, self.secured.clone(), self.token, local);
        self.take_over(Box::new(http2), local);
    }

    /// Passes bytes of the ring to the protocol in place, if no other bytes wait before them, and
    /// returns how many it used. Bytes that the protocol copies into messages are so not copied
    /// into the request's buffer first.
    #[inline]
    pub(super) fn pass_to_protocol(&mut self, bytes: &[u8], local: &mut ThreadLocals) -> usize {
        let waits = self.request.as_ref().is_some_and(|request| request.0.unread() > 0);
        if waits || self.outgoing != Outgoing::Nothing || !self.output.is_empty() {
            return 0;
        }
        if self.output.capacity() == 0 {
            self.output = local.take_output();
        }
        let (Phase::Taken(takeover), None) = (&mut self.phase, &self.tail) else { return 0 };
        takeover.was_called = true;
        takeover.call(bytes, self.ended, &mut self.output, &mut self.tail, local)
    }

    /// Calls the protocol with the buffered bytes, unless too much of its output waits for the
    /// client. Returns whether the protocol wants bytes, and begins the end of the connection if it
    /// has ended.
    pub(super) fn run_protocol(&mut self, local: &mut ThreadLocals) -> Served {
        let Phase::Taken(takeover) = &mut self.phase else { return Served::Stop };
        if !std::mem::take(&mut takeover.was_called) {
            if self.sent > 0 || self.tail.is_some() || self.output.len() >= AHEAD_BYTES {
                return Served::Stop;
            }
            if self.output.capacity() == 0 {
                self.output = local.take_output();
            }
            let input = self.request.as_ref().map_or(&[][..], |request| {
                let exchange = &request.0;
                &exchange.buffer[exchange.consumed..]
            });
            let used = takeover.call(input, self.ended, &mut self.output, &mut self.tail, local);
            if used > 0
                && let Some(request) = &mut self.request
            {
                own(request).consumed += used;
            }
        }
        match takeover.step {
            ProtocolStep::Wait { hungry: true, .. }
                if self.output.is_empty() && self.tail.is_none() =>
            {
                Served::Hungry
            }
            ProtocolStep::Close { linger } => {
                let linger_bytes = if linger { takeover.protocol.linger_bytes_max() } else { 0 };
                self.phase = Phase::Closing { linger_bytes };
                Served::Stop
            }
            _ => Served::Stop,
        }
    }

    /// Returns unneeded buffers to the thread, and sets the protocol's deadline: all output is
    /// sent, and the protocol waits.
    pub(super) fn wait_for_protocol(&mut self, local: &mut ThreadLocals) -> Fate {
        local.give_output(std::mem::take(&mut self.output));
        if self.request.as_ref().is_some_and(|request| request.0.unread() == 0)
            && let Some(request) = self.request.take()
        {
            local.give_exchange(request);
        }
        self.timing = Timing::None;
        if let Phase::Taken(takeover) = &self.phase
            && let ProtocolStep::Wait { deadline_ms, .. } = takeover.step
            && deadline_ms < u64::MAX
        {
            self.set_deadline(Timing::Protocol, deadline_ms);
        }
        Fate::Keep
    }
}

#[cfg(test)]
mod tests {
    use crate::message::protocol::Turn;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::message::protocol::UpgradedProtocol;
    use crate::{Backend, Body, Endpoint, Flow, Method, Response, Router, RunningServer, Server};

    /// Echoes its input in capitals; some letters are commands.
    #[derive(Default)]
    struct Echo {
        deadline_ms: Option<u64>,
    }

    impl Protocol for Echo {
        fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep {
            if turn.local.draining {
                turn.output.extend_from_slice(b"drained");
                return ProtocolStep::Close { linger: false };
            }
            if self.deadline_ms.is_some_and(|deadline_ms| turn.local.now_ms >= deadline_ms) {
                self.deadline_ms = None;
                turn.output.extend_from_slice(b"late");
            }
            if let Some(&order) = turn.input.first()
                && self.deadline_ms.is_none()
            {
                turn.used = turn.input.len();
                match order {
                    b'!' => return ProtocolStep::Close { linger: false },
                    b'?' => panic!("as asked"),
                    b'#' => self.deadline_ms = Some(turn.local.now_ms + 100),
                    b'w' => {
                        // Continues later, woken from another thread.
                        turn.used = 1;
                        let waker = turn.context.waker().clone();
                        std::thread::spawn(move || waker.wake());
                        turn.output.push(b'W');
                        return ProtocolStep::Wait { hungry: false, deadline_ms: u64::MAX };
                    }
                    b't' => *turn.tail = Some((Body::from(vec![b'T'; 1 << 20]), 0)),
                    _ => turn.output.extend_from_slice(&turn.input.to_ascii_uppercase()),
                }
            }
            if turn.ended {
                turn.output.extend_from_slice(b"bye");
                return ProtocolStep::Close { linger: false };
            }
            let deadline_ms = self.deadline_ms.unwrap_or(u64::MAX);
            ProtocolStep::Wait { hungry: self.deadline_ms.is_none(), deadline_ms }
        }
    }

    fn serve(backend: Backend) -> RunningServer {
        let endpoint = Endpoint::direct(|_, out| {
            let echo = UpgradedProtocol(Box::<Echo>::default());
            out.respond(Response::taken_over("echo", echo));
            Flow::Done
        });
        let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).backend(backend);
        server.start(Router::new().on(Method::Get, "/", endpoint)).unwrap()
    }

    fn open(server: &RunningServer, first: &str) -> TcpStream {
        let mut stream = TcpStream::connect(server.local_addr()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(format!("GET / HTTP/1.1\r\nHost: a\r\n\r\n{first}").as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", head.escape_ascii());
        stream
    }

    fn expect(stream: &mut TcpStream, text: &[u8]) {
        let mut got = vec![0; text.len()];
        stream.read_exact(&mut got).unwrap();
        assert!(got == text, "{}", got[..got.len().min(99)].escape_ascii());
    }

    fn on_each_backend(check: impl Fn(RunningServer)) {
        check(serve(Backend::Epoll));
        check(serve(Backend::Auto));
    }

    #[test]
    fn bytes_go_to_the_protocol_and_back() {
        on_each_backend(|server| {
            let mut stream = open(&server, "first");
            expect(&mut stream, b"FIRST");
            for _ in 0..3 {
                stream.write_all(b"again").unwrap();
                expect(&mut stream, b"AGAIN");
            }
            stream.write_all(b"t").unwrap();
            expect(&mut stream, &[b'T'; 1 << 20]);
            stream.write_all(b"wwx").unwrap();
            expect(&mut stream, b"WWX");
            stream.write_all(b"!").unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
            let mut stream = open(&server, "");
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            expect(&mut stream, b"bye");
        });
    }

    #[test]
    fn deadlines_panics_and_shutdown_reach_it() {
        on_each_backend(|server| {
            let mut stream = open(&server, "#");
            let begun = Instant::now();
            expect(&mut stream, b"late");
            assert!(begun.elapsed() >= Duration::from_millis(50));
            let mut panics = open(&server, "?");
            assert_eq!(panics.read(&mut [0]).unwrap_or_default(), 0);
            let mut other = open(&server, "");
            let ended = std::thread::spawn(move || server.shutdown());
            expect(&mut other, b"drained");
            ended.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_client_that_does_not_read_is_not_read_either() {
        on_each_backend(|server| {
            let mut stream = open(&server, "");
            stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
            let (piece, mut sent) = (vec![b'x'; 1 << 16], 0);
            while let Ok(count) = stream.write(&piece) {
                sent += count;
                assert!(sent < 128 << 20, "the server takes whatever comes");
            }
            let mut got = vec![0; sent];
            stream.read_exact(&mut got).unwrap();
            assert!(got.iter().all(|&byte| byte == b'X'));
        });
    }
}
