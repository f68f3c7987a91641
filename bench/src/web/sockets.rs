//! A load of WebSockets: each of two threads writes a message to all of its sockets, then reads all
//! answers. So the load is the same for each server, and costs little.

use super::load::Load;
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

const THREADS: u32 = 2;
const ANSWER_TIME_MAX: Duration = Duration::from_secs(8);
const HEAD_BYTES_MAX: usize = 4096;
const MASK: [u8; 4] = [0x5a, 0xa5, 0x0f, 0xf0];

/// A binary message in one frame, as the client sends it and as the server returns it.
struct Frames {
    sent: Vec<u8>,
    answered: Vec<u8>,
}

impl Frames {
    fn new(bytes: usize) -> Frames {
        let message: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        let masked: Vec<u8> =
            message.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        Frames {
            sent: [&head(bytes, true)[..], &MASK, &masked].concat(),
            answered: [&head(bytes, false)[..], &message].concat(),
        }
    }
}

fn head(bytes: usize, is_masked: bool) -> Vec<u8> {
    let mask = if is_masked { 0x80 } else { 0 };
    match u16::try_from(bytes) {
        Ok(bytes) if bytes < 126 => vec![0x82, mask | bytes as u8],
        Ok(bytes) => [&[0x82, mask | 126][..], &bytes.to_be_bytes()].concat(),
        Err(_) => [&[0x82, mask | 127][..], &(bytes as u64).to_be_bytes()].concat(),
    }
}

fn open(port: u16, path: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).context("reading the response to the upgrade")?;
        answer.push(byte[0]);
        ensure!(answer.len() < HEAD_BYTES_MAX, "the response to the upgrade is too long");
    }
    let head = String::from_utf8_lossy(&answer);
    ensure!(head.starts_with("HTTP/1.1 101 "), "the upgrade failed: {head}");
    Ok(stream)
}

/// Checks that a server echoes a message unchanged.
pub(super) fn check(port: u16, path: &str, bytes: usize) -> Result<()> {
    let (frames, mut stream) = (Frames::new(bytes), open(port, path)?);
    stream.write_all(&frames.sent)?;
    let mut got = vec![0; frames.answered.len()];
    stream.read_exact(&mut got)?;
    ensure!(got == frames.answered, "the echo of a message of {bytes} bytes differs");
    Ok(())
}

pub(super) fn load(
    port: u16,
    path: &str,
    bytes: usize,
    connections: u32,
    time: Duration,
) -> Result<Load> {
    let frames = Frames::new(bytes);
    let mut threads = Vec::new();
    for _ in 0..THREADS {
        let streams = (0..connections.div_ceil(THREADS)).map(|_| open(port, path));
        threads.push(streams.collect::<Result<Vec<_>>>()?);
    }
    let begun = Instant::now();
    let answered = std::thread::scope(|scope| {
        let running: Vec<_> = threads
            .iter_mut()
            .map(|streams| scope.spawn(|| run_rounds(streams, &frames, begun + time)))
            .collect();
        let counts = running.into_iter().map(|thread| match thread.join() {
            Ok(count) => count,
            Err(_) => anyhow::bail!("a thread of the load generator panicked"),
        });
        counts.sum::<Result<u64>>()
    })?;
    Ok(Load { answered, seconds: begun.elapsed().as_secs_f64(), failed: 0 })
}

fn run_rounds(streams: &mut [TcpStream], frames: &Frames, end: Instant) -> Result<u64> {
    let mut got = vec![0; frames.answered.len()];
    let mut count = 0;
    while Instant::now() < end {
        for stream in streams.iter_mut() {
            stream.write_all(&frames.sent)?;
        }
        for stream in streams.iter_mut() {
            stream.read_exact(&mut got).context("waiting for an answer")?;
            count += 1;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_encoded_as_in_rfc_6455() {
        assert_eq!(head(5, true), [0x82, 0x85]);
        assert_eq!(head(126, false), [0x82, 126, 0, 126]);
        assert_eq!(head(1 << 16, false), [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        let frames = Frames::new(3);
        assert_eq!(frames.sent, [0x82, 0x83, 0x5a, 0xa5, 0x0f, 0xf0, 0x5a, 0xa4, 0x0d]);
        assert_eq!(frames.answered, [0x82, 3, 0, 1, 2]);
    }
}
