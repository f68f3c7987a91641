//! Answers that clients do not read: one budget for all of them, and who is ended when it is used
//! up.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use marmota_http::{Limits, Metrics, Request, Response, Router};

use super::client::{Client, PATIENCE, bind, get, over_tls};

const LARGE: usize = 2 << 20;

/// The server's number of this name.
fn number(metrics: &Metrics, name: &str) -> u64 {
    let text = metrics.text();
    let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_slowest_are_ended_when_too_much_is_unread() {
    let metrics = Metrics::new();
    let limits = Limits { unread_bytes_max: 4 * LARGE, ..Limits::default() };
    let router = Router::new()
        .get("/large", |_| async { Response::text("x".repeat(LARGE)) })
        .get("/", |_| async { "ok" });
    let server = bind().listeners(2).limits(limits).metrics(&metrics).start(router).unwrap();
    let mut stuck: Vec<Client> = (0..12).map(|_| Client::new(server.local_addr())).collect();
    for client in &mut stuck {
        client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    // Without the budget they would be ended by `write_timeout_ms`, which is not counted here.
    let shed = || number(&metrics, "marmota_http_connections_shed_total");
    wait_for("twelve answers are held, and there is room for four", || shed() >= 8);
    assert!(shed() < 12, "some have room");
    // Those who read are served.
    assert_eq!(get(server.local_addr(), "/large").body.len(), LARGE);
    assert_eq!(get(server.local_addr(), "/").text(), "ok");
    let whole = stuck.into_iter().filter_map(|mut client| {
        let (mut read, mut piece) = (0, vec![0; 1 << 16]);
        while let Ok(count @ 1..) = client.stream.read(&mut piece) {
            read += count;
            if read > LARGE {
                return Some(client);
            }
        }
        None
    });
    let whole: Vec<Client> = whole.collect();
    assert!((1..=4).contains(&whole.len()), "{} were left", whole.len());
}

/// A frame of HTTP/2.
#[cfg(feature = "http2")]
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// One connection whose client takes nothing: few of its requests are answered at all.
#[cfg(feature = "http2")]
#[test]
fn a_connection_of_http2_that_takes_nothing_is_not_answered_for_long() {
    if over_tls() {
        return; // The frames are the same; the tunnel would want its protocol said.
    }
    let (metrics, answered) = (Metrics::new(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&answered);
    let router = Router::new().get("/", move |_: Request| {
        count.fetch_add(1, Ordering::SeqCst);
        async { "x".repeat(100_000) }
    });
    let limits = Limits { unsent_bytes_max: 250_000, ..Limits::default() };
    let server = bind().listeners(1).limits(limits).metrics(&metrics).start(router).unwrap();
    let mut client = Client::new(server.local_addr());
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    // Streams whose window is closed (SETTINGS_INITIAL_WINDOW_SIZE).
    client.send(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    for stream in 0..50 {
        client.send(frame(1, 5, stream * 2 + 1, b"\x82\x86\x84\x41\x01a"));
    }
    wait_for("seven answers may wait", || answered.load(Ordering::SeqCst) >= 7);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(answered.load(Ordering::SeqCst), 7);
    // They are answered when the client takes them.
    client.send(frame(4, 0, 0, &[0, 4, 0, 1, 0x86, 0xa0]));
    client.send(frame(8, 0, 0, &[0x7f, 0, 0, 0]));
    let mut reader = client.stream.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut piece = [0; 1 << 16];
        while let Ok(1..) = reader.read(&mut piece) {}
    });
    wait_for("all are answered", || answered.load(Ordering::SeqCst) == 50);
}

/// Frames that carry nothing end the connection.
#[cfg(feature = "http2")]
#[test]
fn control_frames_without_end_are_a_flood() {
    if over_tls() {
        return;
    }
    let metrics = Metrics::new();
    let limits = Limits { control_frames_per_second_max: 100, ..Limits::default() };
    let router = Router::new().get("/", |_| async { "ok" });
    let server = bind().listeners(1).limits(limits).metrics(&metrics).start(router).unwrap();
    let floods = [
        frame(2, 0, 1, &[0, 0, 0, 0, 7]),
        frame(8, 0, 0, &[0, 0, 0, 1]),
        frame(4, 0, 0, &[]),
        frame(6, 1, 0, &[7; 8]),
        frame(0x7f, 0, 0, b"unknown"),
    ];
    for (index, flood) in floods.iter().enumerate() {
        let mut client = Client::new(server.local_addr());
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").send(frame(4, 0, 0, &[]));
        client.send(flood.repeat(900));
        client.send(flood.repeat(20_000));
        // The answers to it, GOAWAY, and the end.
        let mut said = Vec::new();
        let _ = client.stream.read_to_end(&mut said);
        let calm = 11_u32.to_be_bytes();
        let is_goaway = |at: usize| said[at] == 7 && said.get(at + 10..at + 14) == Some(&calm[..]);
        assert!((3..said.len()).any(is_goaway), "flood {index}: {}", said.escape_ascii());
        let flooding = number(&metrics, "marmota_http_connections_flooding_total");
        assert_eq!(flooding, index as u64 + 1);
    }
    assert_eq!(get(server.local_addr(), "/").text(), "ok");
}
