//! What a burst leaves behind. A program of its own, since it looks at the memory of the process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use marmota_http::{Limits, Request, Router, Server};

const CLIENTS: usize = 1_000;
/// What arrives piece by piece is in the heap, where a buffer that is kept for a while in the middle
/// has all before it stay.
const BODY: &[u8] = &[b'b'; 64 << 10];
const PATIENCE: Duration = Duration::from_secs(120);
/// Both look at the memory of the process.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn the_memory_of_a_burst_is_given_back() {
    let _alone = ALONE.lock().unwrap();
    let router =
        Router::new().post("/", |request: Request| async move { request.body().len().to_string() });
    let server = Server::bind("127.0.0.1:0").unwrap().start(router).unwrap();
    let idle = resident_bytes();
    let mut clients: Vec<TcpStream> =
        (0..CLIENTS).map(|_| TcpStream::connect(server.local_addr()).unwrap()).collect();
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", BODY.len());
    let (half, rest) = BODY.split_at(BODY.len() / 2);
    for client in &mut clients {
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(half).unwrap();
    }
    wait_until("half of the bodies is there", || resident_bytes() > idle + CLIENTS * half.len());
    for client in &mut clients {
        client.write_all(rest).unwrap();
        let mut answer = [0; 1024];
        let count = client.read(&mut answer).unwrap();
        assert!(answer[..count].starts_with(b"HTTP/1.1 200 "), "{answer:?}");
    }
    drop(clients);
    // Reserves, the ring's pieces, what a test's own thread needs: far from a burst.
    wait_until("memory is given back", || resident_bytes() < idle + (12 << 20));
    server.shutdown().unwrap();
}

/// Connections of HTTP/2 whose clients ask and never open their windows.
#[cfg(feature = "http2")]
#[test]
fn the_memory_of_answers_that_were_never_taken_is_given_back() {
    let _alone = ALONE.lock().unwrap();
    let router = Router::new().get("/", |_| async { "x".repeat(100_000) });
    // Far more than one connection would be given.
    let limits = Limits { unsent_bytes_max: usize::MAX, ..Limits::default() };
    let server = Server::bind("127.0.0.1:0").unwrap().limits(limits).start(router).unwrap();
    let idle = resident_bytes();
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    for stream in 0..50 {
        bytes.extend(frame(1, 5, stream * 2 + 1, b"\x82\x86\x84\x41\x01a"));
    }
    let clients: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut client = TcpStream::connect(server.local_addr()).unwrap();
            client.write_all(&bytes).unwrap();
            client
        })
        .collect();
    wait_until("most of 200 MB is held", || resident_bytes() > idle + (150 << 20));
    drop(clients);
    wait_until("memory is given back", || resident_bytes() < idle + (12 << 20));
    server.shutdown().unwrap();
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not with {} KiB", resident_bytes() >> 10);
        std::thread::sleep(Duration::from_millis(50));
    }
}
