//! Bodies that are made while they are sent.

use std::io::Read;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use marmota_http::{
    BodyStream, BoxError, Event, Flow, Limits, Method, Producer, Request, Response, Router, Status,
};

use super::client::{Client, PATIENCE, get, serve, serve_with};
use super::handlers::{Signal, yield_once};

/// Lines of the numbers below `count`, a line a piece.
fn numbers(count: usize) -> BodyStream {
    let mut number = 0;
    BodyStream::new(move |out: &mut Vec<u8>| {
        if number == count {
            return Ok(ControlFlow::Break(()));
        }
        out.extend_from_slice(format!("{number}\n").as_bytes());
        number += 1;
        Ok(ControlFlow::Continue(()))
    })
}

fn lines(count: usize) -> String {
    (0..count).map(|number| format!("{number}\n")).collect()
}

/// Half a body, then what `end` says.
fn half(end: fn() -> Result<ControlFlow<()>, BoxError>) -> BodyStream {
    let mut begun = false;
    BodyStream::new(move |out: &mut Vec<u8>| {
        if std::mem::replace(&mut begun, true) {
            return end();
        }
        out.extend_from_slice(b"half");
        Ok(ControlFlow::Continue(()))
    })
}

fn text(body: BodyStream) -> Response {
    Response::streamed("text/plain", body)
}

fn router() -> Router {
    Router::new()
        .get("/", |_| async { "ok" })
        .get("/numbers/{n:int}", |request: Request| async move {
            text(numbers(request.param_int("n").unwrap_or(0) as usize))
        })
        .direct(Method::Get, "/direct", |_, out| {
            out.content_type("text/plain").stream(numbers(3));
            Flow::Done
        })
        .get("/length", |_| async { text(numbers(10).with_length(20)) })
        .get("/later", |_| async {
            yield_once().await;
            text(numbers(10))
        })
        .get("/written", |_| async {
            text(BodyStream::write(|mut out| async move {
                for number in 0..5_000 {
                    out.send(format!("{number}\n")).await?;
                    if number % 1_000 == 0 {
                        Signal::after(Duration::from_millis(2)).await;
                    }
                }
                yield_once().await;
                Ok(())
            }))
        })
        .get("/channel", |_| async {
            let (mut sender, body) = BodyStream::channel(1_000);
            std::thread::spawn(move || {
                for number in 0..5_000 {
                    sender.send_blocking(format!("{number}\n")).unwrap();
                }
                sender.finish();
            });
            text(body)
        })
        .get("/none", |_| async { text(numbers(5)).with_status(Status::NO_CONTENT) })
}

#[test]
fn streams_stand_in_a_pipeline_like_any_answer() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    let paths = [
        ("/", "ok".to_owned()),
        ("/numbers/100000", lines(100_000)),
        ("/numbers/0", String::new()),
        ("/direct", lines(3)),
        ("/length", lines(10)),
        ("/later", lines(10)),
        ("/written", lines(5_000)),
        ("/none", String::new()),
        ("/channel", lines(5_000)),
        ("/", "ok".to_owned()),
    ];
    for _ in 0..3 {
        for (path, _) in &paths {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        }
        for (path, body) in &paths {
            let answer = client.answer().unwrap();
            assert!(!answer.cut && answer.text() == body, "{path}: {}", answer.head);
            assert_eq!(answer.header("connection"), None);
        }
    }
    assert_eq!(get(server.local_addr(), "/length").header("content-length"), Some("20"));
}

#[test]
fn head_gets_the_head_only() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    for path in ["/numbers/9", "/length", "/direct"] {
        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.answer_to("HEAD").unwrap().status, 200);
    }
    assert_eq!(client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer().unwrap().text(), "ok");
}

#[test]
fn old_clients_get_the_body_until_the_end_of_the_connection() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    client.send("GET /numbers/20000 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.rest();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Connection: close") && !head.contains("Transfer-Encoding"), "{head}");
    assert!(body == lines(20_000));
    // Where the length is known the connection goes on.
    let mut client = Client::new(server.local_addr());
    for _ in 0..2 {
        client.send("GET /length HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(client.answer().unwrap().text(), lines(10));
    }
}

/// Makes 1 KiB a piece without an end, and counts what was made; alive as long as `alive` says.
fn endless(made: &Arc<AtomicUsize>) -> BodyStream {
    let made = Arc::clone(made);
    BodyStream::new(move |out: &mut Vec<u8>| {
        out.resize(out.len() + 1_024, b'x');
        made.fetch_add(1_024, Ordering::Relaxed);
        Ok(ControlFlow::Continue(()))
    })
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what} is still awaited");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_slow_reader_stops_the_producer_and_a_gone_one_drops_it() {
    let made = Arc::new(AtomicUsize::new(0));
    let shared = Arc::clone(&made);
    let server = serve(Router::new().get("/", move |_| {
        let body = endless(&shared);
        async move { text(body) }
    }));
    let mut client = Client::new(server.local_addr());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let begun = Instant::now();
    let first = loop {
        let before = made.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(300));
        // What the kernel keeps for both ends, and one buffer.
        assert!(before < 16 << 20, "{before} bytes were made for a client that reads nothing");
        if before > 0 && made.load(Ordering::Relaxed) == before {
            break before;
        }
        assert!(begun.elapsed() < PATIENCE, "it goes on");
    };
    let mut piece = vec![0; 8 << 20];
    client.stream.read_exact(&mut piece).unwrap();
    wait_for("more", || made.load(Ordering::Relaxed) > first);
    assert_eq!(Arc::strong_count(&made), 3);
    drop(client);
    wait_for("the end", || Arc::strong_count(&made) == 2);
}

/// Never has anything to say.
struct Silent(#[allow(dead_code, reason = "counted")] Arc<()>);

impl Producer for Silent {
    fn poll_piece(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        Poll::Pending
    }
}

#[test]
fn a_client_that_leaves_a_silent_stream_is_noticed() {
    let alive = Arc::new(());
    let shared = Arc::clone(&alive);
    let server = serve(Router::new().get("/", move |_| {
        let body = BodyStream::new(Silent(Arc::clone(&shared)));
        async move { text(body) }
    }));
    for reset in [false, true] {
        let mut client = Client::new(server.local_addr());
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        wait_for("the stream", || Arc::strong_count(&alive) == 3);
        if reset {
            rustix::net::sockopt::set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap();
        }
        drop(client);
        wait_for("its end", || Arc::strong_count(&alive) == 2);
    }
}

#[test]
fn a_client_that_has_said_all_gets_all() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    client.send("GET /numbers/500000 HTTP/1.1\r\nHost: a\r\n\r\n");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let answer = client.answer().unwrap();
    assert!(!answer.cut && answer.text() == lines(500_000));
    assert!(client.is_closed());
}

#[test]
fn a_body_that_cannot_be_ended_is_never_taken_for_whole() {
    let router = Router::new()
        .get("/error", |_| async { text(half(|| Err("on purpose".into()))) })
        .get("/panic", |_| async {
            text(half(|| {
                if std::hint::black_box(true) { panic!("on purpose") } else { Err("".into()) }
            }))
        })
        .get("/long", |_| async { text(numbers(10).with_length(19)) })
        .get("/short", |_| async { text(numbers(10).with_length(21)) })
        .get("/truncated", |_| async {
            text(BodyStream::new(|out: &mut Vec<u8>| {
                out.clear();
                Ok(ControlFlow::Continue(()))
            }))
        })
        .get("/written", |_| async {
            text(BodyStream::write(|mut out| async move {
                out.send("half").await?;
                yield_once().await;
                Err("on purpose".into())
            }))
        })
        .get("/dropped", |_| async {
            let (mut sender, body) = BodyStream::channel(100);
            std::thread::spawn(move || sender.send_blocking("half"));
            text(body)
        });
    let server = serve(router);
    for path in ["/error", "/panic", "/long", "/short", "/truncated", "/written", "/dropped"] {
        let mut client = Client::new(server.local_addr());
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        if path == "/truncated" {
            // The head was taken along: there is nothing that could be whole.
            assert!(!client.rest().contains("\r\n0\r\n\r\n"));
            continue;
        }
        let answer = client.answer().unwrap();
        if path == "/long" {
            assert_eq!(answer.body.len(), 19);
        } else {
            assert!(answer.cut, "{path}: {answer:?}");
        }
        assert!(client.is_closed(), "{path}");
    }
    let mut old = Client::new(server.local_addr());
    old.send("GET /error HTTP/1.0\r\n\r\n");
    let mut bytes = Vec::new();
    assert!(old.stream.read_to_end(&mut bytes).is_err(), "{}", bytes.escape_ascii());
}

#[test]
fn a_reader_that_stops_for_good_is_dropped() {
    let made = Arc::new(AtomicUsize::new(0));
    let shared = Arc::clone(&made);
    let router = Router::new().get("/", move |_| {
        let body = endless(&shared);
        async move { text(body) }
    });
    let server = serve_with(router, Limits { write_timeout_ms: 300, ..Limits::default() });
    let mut client = Client::new(server.local_addr());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_for("the stream", || Arc::strong_count(&made) == 3);
    // Sending does not count as reading.
    let begun = Instant::now();
    while Arc::strong_count(&made) == 3 {
        client.send("G");
        std::thread::sleep(Duration::from_millis(50));
        assert!(begun.elapsed() < PATIENCE);
    }
    // One that reads slowly, but reads, is not.
    let mut client = Client::new(server.local_addr());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut piece = vec![0; 1 << 20];
    for _ in 0..20 {
        client.stream.read_exact(&mut piece).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn shutdown_lets_streams_end_within_its_limit() {
    let router = || {
        Router::new()
            .get("/ends", |_| async {
                text(BodyStream::write(|mut out| async move {
                    for _ in 0..5 {
                        out.send("x").await?;
                        Signal::after(Duration::from_millis(60)).await;
                    }
                    Ok(())
                }))
            })
            .get("/silent", |_| async { text(BodyStream::new(Silent(Arc::new(())))) })
    };
    for (path, cut) in [("/ends", false), ("/silent", true)] {
        let limits = Limits { drain_timeout_ms: 1_000, ..Limits::default() };
        let server = serve_with(router(), limits);
        let mut client = Client::new(server.local_addr());
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        std::thread::sleep(Duration::from_millis(100));
        let begun = Instant::now();
        let ended = std::thread::spawn(move || server.shutdown());
        let answer = client.answer().unwrap();
        assert_eq!(answer.cut, cut, "{path}");
        drop(client);
        ended.join().unwrap().unwrap();
        assert!(begun.elapsed() < PATIENCE);
    }
}

#[test]
fn events_come_as_they_are_sent_and_go_on_where_the_client_was() {
    let server = serve(Router::new().get("/", |request: Request| async move {
        let last: u64 = request.last_event_id().and_then(|id| id.parse().ok()).unwrap_or(0);
        Response::events(move |mut events| async move {
            for tick in last + 1..=last + 2 {
                events.send(&Event::new("a\nb").name("tick").id(&tick.to_string())).await?;
                Signal::after(Duration::from_millis(5)).await;
            }
            Ok(())
        })
    }));
    let mut client = Client::new(server.local_addr());
    for last in [0, 41] {
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nLast-Event-ID: {last}\r\n\r\n"));
        let answer = client.answer().unwrap();
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let event = |tick| format!("event: tick\nid: {tick}\ndata: a\ndata: b\n\n");
        assert_eq!(answer.text(), event(last + 1) + &event(last + 2));
    }
}

#[test]
fn a_silent_stream_is_kept_alive_and_a_dead_client_found_out() {
    let alive = Arc::new(());
    let shared = Arc::clone(&alive);
    let router = Router::new().get("/", move |_| {
        let silent = Silent(Arc::clone(&shared));
        async move { text(BodyStream::new(silent).with_heartbeat(100, b":\n")) }
    });
    let server = serve_with(router, Limits { idle_timeout_ms: 200, ..Limits::default() });
    for version in ["1.1", "1.0"] {
        let mut client = Client::new(server.local_addr());
        client.send(format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n"));
        let beat: &[u8] = if version == "1.1" { b"2\r\n:\n\r\n" } else { b":\n" };
        let mut bytes = Vec::new();
        let mut piece = [0; 1_000];
        while !bytes.ends_with(&beat.repeat(4)) {
            let count = client.stream.read(&mut piece).unwrap();
            bytes.extend_from_slice(&piece[..count]);
        }
        assert_eq!(Arc::strong_count(&alive), 3);
        drop(client);
        wait_for("the end", || Arc::strong_count(&alive) == 2);
    }
}
