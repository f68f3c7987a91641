//! A client connection of the floor. It counts the ends of requests and sends as many copies of the
//! response. Its state is the last byte, if a request's end may start there, and the number of
//! response bytes to be sent.

use memchr::memmem::Finder;
use options::{JSON_BYTES, PLAINTEXT};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::OwnedFd;

const READ_BYTES: usize = 32 * 1024;
const COPIES: usize = 64;
/// A line end followed by the first byte of a blank line: the end of a request without its last
/// byte. These two bytes occur nowhere else in a request, so the search need not stop at every
/// line.
const END: &[u8] = b"\n\r";
/// Bytes of a request's end that can be left over at the end of a read.
const CARRY_BYTES: usize = END.len() - 1;
/// The position of the `j` in a request for `/json`.
const PATH_AT: usize = b"GET /".len();

/// Buffers that the connections of a thread share.
pub(crate) struct Scratch {
    input: Vec<u8>,
    end: Finder<'static>,
    plaintext: Answer,
    json: Answer,
}

/// Many copies of one response, so that one write sends all that are due.
struct Answer {
    copies: Vec<u8>,
    each_bytes: usize,
}

impl Answer {
    fn new(content_type: &str, body: &str) -> Answer {
        let once = format!(
            "HTTP/1.1 200 OK\r\nServer: F\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
             Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Answer { copies: once.repeat(COPIES).into_bytes(), each_bytes: once.len() }
    }
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        let json = r#"{"message":"Hello, World!"}"#;
        assert_eq!(json.len(), JSON_BYTES);
        Scratch {
            input: vec![0; CARRY_BYTES + READ_BYTES],
            end: Finder::new(END),
            plaintext: Answer::new("text/plain", PLAINTEXT),
            json: Answer::new("application/json", json),
        }
    }
}

pub(crate) struct Connection {
    stream: OwnedFd,
    carry: [u8; CARRY_BYTES],
    carried: usize,
    due_bytes: usize,
    wants_json: Option<bool>,
}

impl Connection {
    pub(crate) fn new(stream: OwnedFd) -> Connection {
        Connection { stream, carry: [0; CARRY_BYTES], carried: 0, due_bytes: 0, wants_json: None }
    }

    /// Reads and answers until the socket would block; returns false when the client has
    /// disconnected.
    pub(crate) fn serve(&mut self, scratch: &mut Scratch) -> bool {
        loop {
            match self.send(scratch) {
                Ok(()) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
            scratch.input[..self.carried].copy_from_slice(&self.carry[..self.carried]);
            let room = &mut scratch.input[self.carried..];
            let room_bytes = room.len();
            let read = match rustix::net::recv(&self.stream, room, RecvFlags::empty()) {
                Ok((0, _)) => return false,
                Ok((read, _)) => read,
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            };
            let ends = self.count_ends(scratch, self.carried + read);
            self.due_bytes = ends * self.answer(scratch).each_bytes;
            // A short read means that the socket is empty; more bytes cause another event.
            if read < room_bytes {
                return !matches!(self.send(scratch), Err(error) if error != Errno::AGAIN);
            }
        }
    }

    fn count_ends(&mut self, scratch: &Scratch, filled: usize) -> usize {
        let input = &scratch.input[..filled];
        if self.wants_json.is_none() {
            self.wants_json = input.get(PATH_AT).map(|letter| *letter == b'j');
        }
        let mut ends = 0;
        let mut after = 0;
        for at in scratch.end.find_iter(input) {
            ends += 1;
            after = at + END.len();
        }
        let tail = &input[after.max(filled.saturating_sub(CARRY_BYTES))..];
        self.carry[..tail.len()].copy_from_slice(tail);
        self.carried = tail.len();
        ends
    }

    fn answer<'a>(&self, scratch: &'a Scratch) -> &'a Answer {
        if self.wants_json == Some(true) { &scratch.json } else { &scratch.plaintext }
    }

    fn send(&mut self, scratch: &Scratch) -> Result<(), Errno> {
        while self.due_bytes > 0 {
            let answer = self.answer(scratch);
            // The bytes due end at the end of a response, so they may start inside a response that
            // an earlier write sent in part.
            let broken_off = self.due_bytes % answer.each_bytes;
            let from = (answer.each_bytes - broken_off) % answer.each_bytes;
            let until = answer.copies.len().min(from + self.due_bytes);
            let bytes = &answer.copies[from..until];
            self.due_bytes -= rustix::net::send(&self.stream, bytes, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }
}
