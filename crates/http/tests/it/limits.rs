//! Timeouts and limits.

use std::time::{Duration, Instant};

use marmota_http::{Limits, Request, Response, Router};

use super::client::{Client, PATIENCE, over_tls, serve_with};

fn router() -> Router {
    Router::new()
        .get("/", |_| async { "ok" })
        .get("/large", |_| async { Response::text("x".repeat(8 << 20)) })
        .post("/", |request: Request| async move { request.body().len().to_string() })
}

fn quick() -> Limits {
    Limits {
        header_timeout_ms: 200,
        body_timeout_ms: 200,
        idle_timeout_ms: 400,
        write_timeout_ms: 300,
        body_rate_min: 1_000_000,
        ..Limits::default()
    }
}

#[test]
fn slow_heads_and_bodies_time_out() {
    let server = serve_with(router(), quick());
    for start in ["GET / HT", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nab"] {
        let mut client = Client::new(server.local_addr());
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer().unwrap();
        let answer = client.send(start).answer().unwrap();
        assert_eq!(answer.status, 408);
        assert!(client.is_closed());
    }
}

#[test]
fn a_head_that_trickles_times_out_all_the_same() {
    let server = serve_with(router(), quick());
    let mut client = Client::new(server.local_addr());
    let begun = Instant::now();
    for byte in b"GET / HTTP/1.1\r\nHost: aaaaaaaaaaaaaaaaaaaaaaaaa" {
        client.send([*byte]);
        std::thread::sleep(Duration::from_millis(20));
        if begun.elapsed() > Duration::from_millis(600) {
            break;
        }
    }
    assert_eq!(client.answer().unwrap().status, 408);
}

#[test]
fn idle_connections_are_closed_without_a_word() {
    let server = serve_with(router(), quick());
    let mut fresh = Client::new(server.local_addr());
    let mut used = Client::new(server.local_addr());
    used.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer().unwrap();
    let begun = Instant::now();
    assert!(fresh.is_closed() && used.is_closed());
    assert!(begun.elapsed() > Duration::from_millis(200), "not at once");
}

#[test]
fn a_reader_that_stops_is_dropped() {
    let server = serve_with(router(), quick());
    let mut client = Client::new(server.local_addr());
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n".repeat(4));
    std::thread::sleep(Duration::from_millis(1_500));
    let mut read = 0;
    let mut piece = vec![0; 1 << 16];
    while let Ok(count) = std::io::Read::read(&mut client.stream, &mut piece) {
        if count == 0 {
            break;
        }
        read += count;
    }
    assert!(read < 4 * (8 << 20), "all of it came");
}

#[test]
fn a_waiting_handler_has_no_deadline() {
    let limits = quick();
    let server = serve_with(
        Router::new().get("/", |_| async {
            tokio::time::sleep(Duration::from_millis(1_200)).await;
            "done"
        }),
        limits,
    );
    let mut client = Client::new(server.local_addr());
    assert_eq!(client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer().unwrap().text(), "done");
}

#[test]
fn too_many_connections_are_told() {
    let server = serve_with(router(), Limits { connections_max: 3, ..Limits::default() });
    let mut kept: Vec<Client> = (0..3).map(|_| Client::new(server.local_addr())).collect();
    for client in &mut kept {
        assert_eq!(client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer().unwrap().status, 200);
    }
    let mut refused = Client::new(server.local_addr());
    // Where TLS is to be spoken the connection only ends.
    let answer = refused.answer();
    assert!(answer.as_ref().is_none_or(|answer| answer.detail().is_some()));
    let status = answer.map(|answer| answer.status);
    assert_eq!(status, (!over_tls()).then_some(503));
    drop(kept.pop());
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let mut client = Client::new(server.local_addr());
        if client
            .send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .answer()
            .is_some_and(|answer| answer.status == 200)
        {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the place of a closed connection was not given again");
}

#[test]
fn a_connection_may_have_a_last_request() {
    let server =
        serve_with(router(), Limits { requests_per_connection_max: Some(2), ..Limits::default() });
    let mut client = Client::new(server.local_addr());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
    assert_eq!(client.answer().unwrap().header("connection"), None);
    assert_eq!(client.answer().unwrap().header("connection"), Some("close"));
    assert!(client.answer().is_none());
}

#[test]
fn a_client_that_only_sends_is_held_back() {
    let server = serve_with(router(), Limits::default());
    let mut client = Client::new(server.local_addr());
    client.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let batch = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1_000);
    let mut sent = 0;
    while let Ok(count) =
        std::io::Write::write(&mut client.stream, &batch.as_bytes()[sent % batch.len()..])
    {
        sent += count;
        assert!(sent < 128 << 20, "the server takes whatever comes");
    }
    // Reading goes on where it stopped.
    for _ in 0..5_000 {
        assert_eq!(client.answer().unwrap().text(), "ok");
    }
}
