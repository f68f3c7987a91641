//! The client of a live list: it decodes events and applies them to a document. Shared with the tests
//! of all engines.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A response of events.
pub(crate) struct Events {
    stream: TcpStream,
    /// Bytes of the response that were not decoded.
    chunks: Vec<u8>,
    /// Decoded bytes that are not a whole event.
    text: Vec<u8>,
    /// True after the last chunk.
    pub(crate) is_ended: bool,
    /// The document that the events lead to, and its text after a snapshot.
    pub(crate) document: Value,
    pub(crate) snapshot: String,
    pub(crate) id: String,
    pub(crate) names: Vec<String>,
    /// The data of all events.
    pub(crate) data: Vec<String>,
}

impl Events {
    pub(crate) fn open(address: SocketAddr, target: &str, headers: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{headers}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut events = Self {
            stream,
            chunks: Vec::new(),
            text: Vec::new(),
            is_ended: false,
            document: Value::Null,
            snapshot: String::new(),
            id: String::new(),
            names: Vec::new(),
            data: Vec::new(),
        };
        let head_end = loop {
            match events.chunks.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => assert!(events.receive(), "the response has no head"),
            }
        };
        let head = String::from_utf8(events.chunks.drain(..head_end).collect()).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        for header in ["content-type: text/event-stream", "cache-control: no-store"] {
            assert!(head.to_ascii_lowercase().contains(header), "no {header} in {head}");
        }
        events
    }

    fn receive(&mut self) -> bool {
        let mut bytes = [0; 16 * 1024];
        let count = self.stream.read(&mut bytes).unwrap_or_default();
        self.chunks.extend_from_slice(&bytes[..count]);
        count > 0
    }

    /// Decodes one chunk; false if none is complete.
    fn decode(&mut self) -> bool {
        let Some(line) = self.chunks.windows(2).position(|window| window == b"\r\n") else {
            return false;
        };
        let length = std::str::from_utf8(&self.chunks[..line]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if self.chunks.len() < line + 2 + length + 2 {
            return false;
        }
        self.is_ended |= length == 0;
        self.text.extend_from_slice(&self.chunks[line + 2..][..length]);
        self.chunks.drain(..line + 2 + length + 2);
        true
    }

    /// Reads the next event and applies it; false at the end of the response, or if there was none
    /// within the time.
    pub(crate) fn next_within(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        loop {
            while self.decode() {}
            if let Some(end) = self.text.windows(2).position(|window| window == b"\n\n") {
                let event = String::from_utf8(self.text.drain(..end + 2).collect()).unwrap();
                if !event.starts_with(':') {
                    self.apply(&event);
                    return true;
                }
                continue;
            }
            if self.is_ended || !self.receive() {
                return false;
            }
        }
    }

    pub(crate) fn next(&mut self) -> &str {
        assert!(self.next_within(Duration::from_secs(20)), "no event");
        self.names.last().unwrap()
    }

    fn apply(&mut self, event: &str) {
        let field = |name: &str| {
            let lines = event.lines().filter_map(|line| line.strip_prefix(name));
            lines.collect::<Vec<_>>().join("\n")
        };
        let (name, data) = (field("event: "), field("data: "));
        self.id = field("id: ");
        let value: Value = serde_json::from_str(&data).unwrap();
        self.data.push(data.clone());
        match &*name {
            "snapshot" => (self.document, self.snapshot) = (value, data),
            "patch" => {
                assert!(!value.as_array().unwrap().is_empty(), "an empty patch");
                for operation in value.as_array().unwrap() {
                    patch(&mut self.document, operation);
                }
            }
            other => panic!("unknown event {other}"),
        }
        self.names.push(name);
    }

    /// Applies events until the document is this one, which a plain GET has returned.
    #[track_caller]
    pub(crate) fn follow(&mut self, expected: &Value) {
        let is_it = self.reaches(|document| document == expected);
        assert!(is_it, "{} is not {expected}", self.document);
    }

    /// Applies events until this holds for the document; false if the response ends before, or
    /// after some time.
    pub(crate) fn reaches(&mut self, holds: impl Fn(&Value) -> bool) -> bool {
        let until = Instant::now() + Duration::from_secs(20);
        while !holds(&self.document) && !self.is_ended && Instant::now() < until {
            self.next_within(Duration::from_millis(100));
        }
        holds(&self.document)
    }
}

/// Applies one operation of a JSON Patch (RFC 6902).
fn patch(document: &mut Value, operation: &Value) {
    let path = operation["path"].as_str().unwrap();
    let (parent, last) = path.rsplit_once('/').unwrap();
    let last = last.replace("~1", "/").replace("~0", "~");
    let parent = document.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}"));
    let value = operation.get("value").cloned();
    match (operation["op"].as_str().unwrap(), parent) {
        ("add", Value::Array(rows)) => rows.insert(last.parse().unwrap(), value.unwrap()),
        ("remove", Value::Array(rows)) => drop(rows.remove(last.parse().unwrap())),
        ("replace", Value::Object(members)) => {
            let before = members.insert(last.clone(), value.unwrap());
            assert!(before.is_some(), "replaced a missing member {last}");
        }
        (other, _) => panic!("unexpected {other} of {path}"),
    }
}
