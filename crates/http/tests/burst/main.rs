//! What a burst leaves behind. A program of its own, since it looks at the memory of the process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use marmota_http::{Request, Router, Server};

const CLIENTS: usize = 1_000;
/// What arrives piece by piece is in the heap, where a buffer that is kept for a while in the middle
/// has all before it stay.
const BODY: &[u8] = &[b'b'; 64 << 10];
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn the_memory_of_a_burst_is_given_back() {
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
