//! A blocking HTTP/1.1 client on one connection: as much as these tests need.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    request: String,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, unread: Vec::new() }
    }

    /// Sends `METHOD target` with further header lines and a body, and reads the answer.
    pub(crate) fn send(&mut self, request: &str, headers: &[&str], body: &[u8]) -> Answer {
        let mut bytes = format!("{request} HTTP/1.1\r\nHost: localhost\r\n");
        for header in headers {
            bytes.push_str(header);
            bytes.push_str("\r\n");
        }
        if !body.is_empty() || request.starts_with('P') {
            bytes.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        bytes.push_str("\r\n");
        let mut bytes = bytes.into_bytes();
        bytes.extend_from_slice(body);
        self.stream.write_all(&bytes).unwrap();
        self.read(request)
    }

    /// [`Client::send`] of JSON, or of nothing.
    pub(crate) fn json(&mut self, request: &str, body: &str) -> Answer {
        let headers: &[&str] =
            if body.is_empty() { &[] } else { &["Content-Type: application/json"] };
        self.send(request, headers, body.as_bytes())
    }

    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.json(&format!("GET {target}"), "")
    }

    /// Sends bytes of a request.
    #[cfg(feature = "auth")]
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Reads the answer to a request that was written.
    #[cfg(feature = "auth")]
    pub(crate) fn answer(&mut self, request: &str) -> Answer {
        self.read(request)
    }

    fn read(&mut self, request: &str) -> Answer {
        let head_end = loop {
            if let Some(at) = self.unread.windows(4).position(|window| window == b"\r\n\r\n") {
                break at;
            }
            self.more();
        };
        let head = String::from_utf8(self.unread.drain(..head_end + 4).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let chunked =
            headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        if chunked && !request.starts_with("HEAD") {
            let body = self.chunks();
            return Answer { status, headers, body, request: request.to_owned() };
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = match length {
            Some((_, length)) if !request.starts_with("HEAD") => length.parse().unwrap(),
            _ => 0,
        };
        while self.unread.len() < length {
            self.more();
        }
        let body = self.unread.drain(..length).collect();
        Answer { status, headers, body, request: request.to_owned() }
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line_end = loop {
                match self.unread.windows(2).position(|window| window == b"\r\n") {
                    Some(at) => break at,
                    None => self.more(),
                }
            };
            let line = std::str::from_utf8(&self.unread[..line_end]).unwrap();
            let start = line_end + 2;
            let end = start + usize::from_str_radix(line, 16).unwrap();
            while self.unread.len() < end + 2 {
                self.more();
            }
            body.extend_from_slice(&self.unread[start..end]);
            self.unread.drain(..end + 2);
            if start == end {
                return body;
            }
        }
    }

    fn more(&mut self) {
        let mut chunk = [0; 16 * 1024];
        let count = self.stream.read(&mut chunk).unwrap();
        assert_ne!(count, 0, "the server closed the connection");
        self.unread.extend_from_slice(&chunk[..count]);
    }
}

impl Answer {
    /// Asserts the status.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}: {}", self.request, self.text());
        self
    }

    /// Asserts that it is a problem of this status that names a field and its rule.
    #[track_caller]
    pub(crate) fn names(self, status: u16, field: &str, rule: &str) -> Self {
        let answer = self.refuses(status);
        let named = answer.value()["errors"].as_array().is_some_and(|errors| {
            errors.iter().any(|error| error["field"] == field && error["rule"] == rule)
        });
        assert!(named, "{}: no `{field}` ({rule}) in {}", answer.request, answer.text());
        answer
    }

    /// Asserts that it is a problem of this status, whole by RFC 9457.
    #[track_caller]
    pub(crate) fn refuses(self, status: u16) -> Self {
        let answer = self.is(status);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let problem = answer.value();
        assert_eq!(problem["status"], status);
        let kind = problem["type"].as_str().unwrap();
        assert!(kind.starts_with("urn:marmota:error:"), "{kind}");
        assert!(!problem["title"].as_str().unwrap().is_empty());
        assert!(!problem["detail"].as_str().unwrap().is_empty());
        answer
    }

    /// Asserts that the problem's detail says this.
    #[track_caller]
    pub(crate) fn says(self, part: &str) -> Self {
        let text = self.text();
        assert!(text.contains(part), "{}: no {part:?} in {text}", self.request);
        self
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    #[cfg(feature = "auth")]
    pub(crate) fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.iter().filter(move |(known, _)| known == name).map(|(_, value)| &**value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.request, self.text()))
    }
}
