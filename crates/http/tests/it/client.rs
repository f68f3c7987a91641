//! A client that sends bytes as they are and reads answers strictly.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use marmota_http::{Backend, Limits, Router, RunningServer, Server, Tls};

/// The backend that this copy of the tests is for. Where the kernel has no ring to give, the
/// ring's copy tests what a user gets there.
pub(crate) fn backend() -> Backend {
    static RING: OnceLock<Backend> = OnceLock::new();
    if module_path!().contains("::portable") {
        return Backend::Portable;
    }
    if !module_path!().contains("::ring") {
        return Backend::Epoll;
    }
    *RING.get_or_init(|| {
        let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).backend(Backend::Ring);
        match server.start(Router::new()) {
            Ok(_) => Backend::Ring,
            Err(error) => {
                eprintln!("the ring is not tested: {error}");
                Backend::Auto
            }
        }
    })
}

/// Whether this copy of the tests is for TLS.
pub(crate) fn over_tls() -> bool {
    module_path!().contains("_over_tls::")
}

/// Whether this copy of the tests is for HTTP/2.
pub(crate) fn over_http2() -> bool {
    module_path!().contains("_over_http2")
}

/// Where a client of HTTP/2 reaches a server that [`bind`] has made.
#[cfg(feature = "http2")]
pub(crate) fn http2_address(address: SocketAddr) -> SocketAddr {
    if over_tls() { super::super::tunnel::open_http2(address) } else { address }
}

/// A server on a free port that is not started yet.
pub(crate) fn bind() -> Server {
    let server = Server::bind("127.0.0.1:0").unwrap().backend(backend());
    if over_tls() { server.tls(Tls::self_signed()) } else { server }
}

/// Starts a server on a free port.
pub(crate) fn serve(router: Router) -> RunningServer {
    serve_with(router, Limits::default())
}

pub(crate) fn serve_with(router: Router, limits: Limits) -> RunningServer {
    bind().listeners(2).limits(limits).start(router).unwrap()
}

/// How long a test waits for what has to come: long enough for a machine that does much else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Handlers that wait until they are let go, and a test that waits until they do.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(AtomicBool, AtomicBool)>);

impl Gate {
    /// For a handler: says that it is there, and waits.
    pub(crate) async fn pass(&self) {
        let (reached, opened) = &*self.0;
        reached.store(true, Ordering::SeqCst);
        while !opened.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits for a handler to be there.
    pub(crate) fn wait(&self) {
        let begun = Instant::now();
        while !self.0.0.load(Ordering::SeqCst) {
            assert!(begun.elapsed() < PATIENCE, "no handler has begun");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether a handler is there.
    #[allow(dead_code, reason = "not all copies of the tests ask")]
    pub(crate) fn is_reached(&self) -> bool {
        self.0.0.load(Ordering::SeqCst)
    }

    /// Lets all go.
    pub(crate) fn open(&self) {
        self.0.1.store(true, Ordering::SeqCst);
    }
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// The connection ended inside of the body.
    pub(crate) cut: bool,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// What a problem document says is wrong.
    #[allow(dead_code, reason = "not all copies of the tests look at it")]
    pub(crate) fn detail(&self) -> Option<String> {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["status"], self.status, "{self:?}");
        assert!(problem["title"].is_string() && problem["type"].is_string(), "{self:?}");
        problem["detail"].as_str().map(str::to_owned)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// A client of a server that [`bind`] has made: over TLS, and for WebSockets over HTTP/2, in
    /// the copies of the tests for that.
    pub(crate) fn new(address: SocketAddr) -> Self {
        #[cfg(feature = "http2")]
        if over_http2() {
            return Self::plain(super::super::bridge::open(http2_address(address)));
        }
        if over_tls() { Self::new_tls(address) } else { Self::plain(address) }
    }

    pub(crate) fn new_tls(address: SocketAddr) -> Self {
        Self::plain(super::super::tunnel::open(address))
    }

    pub(crate) fn plain(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        // The server may have answered and closed already, which is for the reader to see.
        let _ = self.stream.write_all(bytes.as_ref());
        self
    }

    /// Reads the next answer, `None` at the end of the connection.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        self.answer_to("GET")
    }

    pub(crate) fn answer_to(&mut self, method: &str) -> Option<Answer> {
        let head_end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.fill() {
                assert!(self.buffer.is_empty(), "cut off: {}", self.buffer.escape_ascii());
                return None;
            }
        };
        let head = String::from_utf8(self.buffer.drain(..head_end).collect()).unwrap();
        let status: u16 = head[9..12].parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new(), cut: false };
        if answer.header("transfer-encoding") == Some("chunked") {
            assert_eq!(answer.header("content-length"), None);
            if method != "HEAD" {
                answer.cut = !self.chunks(&mut answer.body);
            }
            return Some(answer);
        }
        let length = answer.header("content-length").map(|length| length.parse().unwrap());
        assert_eq!(length.is_none(), status < 200 || status == 204 || status == 304, "{answer:?}");
        if method != "HEAD" {
            let length: usize = length.unwrap_or(0);
            while self.buffer.len() < length && !answer.cut {
                answer.cut = !self.fill();
            }
            answer.body = self.buffer.drain(..length.min(self.buffer.len())).collect();
        }
        Some(answer)
    }

    /// Reads chunks; false when the connection ends inside of them.
    fn chunks(&mut self, body: &mut Vec<u8>) -> bool {
        loop {
            let line_end = loop {
                match self.buffer.windows(2).position(|window| window == b"\r\n") {
                    Some(at) => break at,
                    None if !self.fill() => return false,
                    None => {}
                }
            };
            let line = std::str::from_utf8(&self.buffer[..line_end]).unwrap();
            let size = usize::from_str_radix(line, 16).unwrap();
            let end = line_end + 2 + size;
            while self.buffer.len() < end + 2 {
                if !self.fill() {
                    body.extend_from_slice(&self.buffer[line_end + 2..end.min(self.buffer.len())]);
                    self.buffer.clear();
                    return false;
                }
            }
            assert_eq!(&self.buffer[end..end + 2], b"\r\n");
            body.extend_from_slice(&self.buffer[line_end + 2..end]);
            self.buffer.drain(..end + 2);
            if size == 0 {
                return true;
            }
        }
    }

    /// All that comes until the end of the connection.
    pub(crate) fn rest(&mut self) -> String {
        while self.fill() {}
        String::from_utf8(std::mem::take(&mut self.buffer)).unwrap()
    }

    /// The next bytes, so many.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            assert!(self.fill(), "the end came before: {}", self.buffer.escape_ascii());
        }
        self.buffer.drain(..count).collect()
    }

    /// Whether the server has closed and nothing but its end is left.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && !self.fill()
    }

    fn fill(&mut self) -> bool {
        let mut piece = [0; 16 * 1024];
        match self.stream.read(&mut piece) {
            Ok(count) => {
                self.buffer.extend_from_slice(&piece[..count]);
                count > 0
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("the server neither answered nor closed: {error}"),
        }
    }
}

/// Sends one request on a connection of its own.
pub(crate) fn ask(address: SocketAddr, request: &str) -> Answer {
    Client::new(address).send(request).answer().unwrap()
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
}
