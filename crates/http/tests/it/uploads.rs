//! Bodies that their handler takes as they come.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use marmota_http::{
    BodyError, BodyStream, Endpoint, Limits, Method, Request, Response, Router, Status,
};

use super::client::{Client, PATIENCE, ask, serve, serve_with};
use super::handlers::{Signal, yield_once};

const MAX: u64 = 64 << 20;

/// The length of a body and the sum of its bytes.
async fn measure(request: Request) -> Result<String, BodyError> {
    let (mut reader, mut piece) = (request.reader(), Vec::new());
    let (mut bytes, mut sum) = (0_u64, 0_u64);
    loop {
        piece.clear();
        match reader.read(&mut piece).await? {
            0 => return Ok(format!("{bytes} {sum}")),
            count => bytes += count as u64,
        }
        sum += piece.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        if sum % 5 == 0 {
            yield_once().await;
        }
    }
}

fn post(router: Router, path: &str, endpoint: Endpoint) -> Router {
    router.on(Method::Post, path, endpoint.streamed(MAX))
}

fn router() -> Router {
    let router = Router::new()
        .get("/", |_| async { "ok" })
        .post("/whole", measure)
        .on(Method::Post, "/small", Endpoint::future(measure).streamed(1_000))
        .on(
            Method::Post,
            "/either",
            Endpoint::future(|request: Request| async move { request.body().len().to_string() })
                .streamed_when(MAX, |request| request.header("x-stream").is_some()),
        );
    let router = post(router, "/measure", Endpoint::future(measure));
    let router = post(
        router,
        "/echo",
        Endpoint::future(|request: Request| async move {
            Response::streamed("text/plain", BodyStream::new(request.reader()))
        }),
    );
    let router = post(router, "/refuse", Endpoint::future(|_| async { Status::FORBIDDEN }));
    let router = post(
        router,
        "/refuse-later",
        Endpoint::future(|request: Request| async move {
            let mut piece = Vec::new();
            request.reader().read(&mut piece).await?;
            Ok::<_, BodyError>(Status::FORBIDDEN)
        }),
    );
    post(
        router,
        "/slow",
        Endpoint::future(|request: Request| async move {
            Signal::after(Duration::from_millis(700)).await;
            measure(request).await
        }),
    )
}

/// A body of this length, and how `measure` answers it.
fn body(length: usize) -> (Vec<u8>, String) {
    let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
    let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
    (bytes, format!("{length} {sum}"))
}

fn head(path: &str, coding: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\n{coding}\r\n\r\n")
}

fn exact(path: &str, body: &[u8]) -> Vec<u8> {
    [head(path, &format!("Content-Length: {}", body.len())).as_bytes(), body].concat()
}

fn chunked(path: &str, body: &[u8], chunk: usize) -> Vec<u8> {
    let mut bytes = head(path, "Transfer-Encoding: chunked").into_bytes();
    for chunk in body.chunks(chunk) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\nTrailer: ignored\r\n\r\n");
    bytes
}

#[test]
fn bodies_of_every_size_are_followed_by_the_next_request() {
    let server = serve(router());
    for length in [0, 1, 100, 4_000, 16_384, 65_536, 70_000, 1_000_003, 3 << 20] {
        let (body, answer) = body(length);
        for path in ["/measure", "/echo"] {
            let mut client = Client::new(server.local_addr());
            let mut bytes = Vec::new();
            for _ in 0..2 {
                bytes.extend(exact(path, &body));
                bytes.extend_from_slice(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                bytes.extend(chunked(path, &body, 10_007));
            }
            bytes.extend_from_slice(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let mut writer = client.stream.try_clone().unwrap();
            let sending = std::thread::spawn(move || writer.write_all(&bytes));
            let check = |client: &mut Client| {
                let got = client.answer().unwrap();
                assert!(!got.cut, "{path} {length}");
                if path == "/echo" {
                    let differs = got.body.iter().zip(&body).position(|(got, sent)| got != sent);
                    assert_eq!((got.body.len(), differs), (length, None), "{path}");
                } else {
                    assert_eq!(got.text(), answer, "{path} {length}");
                }
            };
            // An echo begins before its body has come, which is told to be the last answer.
            let complete = path == "/measure" || length < 100;
            for _ in 0..if complete { 2 } else { 0 } {
                check(&mut client);
                assert_eq!(client.answer().unwrap().text(), "ok");
                check(&mut client);
            }
            if complete {
                assert_eq!(client.answer().unwrap().text(), "ok");
            } else {
                check(&mut client);
            }
            drop(client);
            let _ = sending.join().unwrap();
        }
    }
}

#[test]
fn bodies_come_byte_by_byte() {
    let server = serve(router());
    let (body, answer) = body(300);
    let mut client = Client::new(server.local_addr());
    for bytes in [exact("/measure", &body), chunked("/measure", &body, 7)] {
        for byte in bytes {
            client.send([byte]);
        }
        assert_eq!(client.answer().unwrap().text(), answer);
    }
}

#[test]
fn a_route_says_of_which_requests() {
    let server = serve(router());
    let (body, answer) = body(2_000);
    let mut client = Client::new(server.local_addr());
    assert_eq!(client.send(exact("/either", &body)).answer().unwrap().text(), "2000");
    client.send(head("/either", "X-Stream: 1\r\nContent-Length: 3")).send("abc");
    assert_eq!(client.answer().unwrap().text(), "0");
    let mut client = Client::new(server.local_addr());
    assert_eq!(client.send(exact("/whole", &body)).answer().unwrap().text(), answer);
}

#[test]
fn continue_is_said_when_the_handler_reads() {
    let server = serve(router());
    let (body, answer) = body(50_000);
    let mut client = Client::new(server.local_addr());
    let expect = |length| format!("Expect: 100-continue\r\nContent-Length: {length}");
    let begun = Instant::now();
    client.send(head("/slow", &expect(body.len())));
    assert_eq!(client.answer().unwrap().status, 100);
    assert!(begun.elapsed() > Duration::from_millis(600));
    assert_eq!(client.send(&body).answer().unwrap().text(), answer);
    client.send(head("/refuse", &expect(body.len())));
    assert_eq!(client.answer().unwrap().status, 403);
    assert!(client.is_closed(), "whether the body follows is not known");
}

#[test]
fn an_early_answer_is_read_and_ends_the_connection() {
    let server = serve(router());
    let (large, _) = body(8 << 20);
    for path in ["/refuse", "/refuse-later"] {
        for bytes in [exact(path, &large), chunked(path, &large, 50_000)] {
            let mut client = Client::new(server.local_addr());
            let answer = client.send(bytes).answer().unwrap();
            assert_eq!((answer.status, answer.header("connection")), (403, Some("close")));
        }
        // A body that came whole is no reason to close.
        let mut client = Client::new(server.local_addr());
        for _ in 0..2 {
            let answer = client.send(exact(path, b"small")).answer().unwrap();
            assert_eq!((answer.status, answer.header("connection")), (403, None));
        }
    }
}

#[test]
fn too_much_is_refused() {
    let server = serve(router());
    let (body, _) = body(1_001);
    for bytes in [exact("/small", &body), chunked("/small", &body, 600)] {
        let mut client = Client::new(server.local_addr());
        let answer = client.send(bytes).answer().unwrap();
        assert_eq!(
            (answer.status, answer.detail().as_deref()),
            (413, Some("the body is too large"))
        );
        assert!(client.is_closed());
    }
    assert_eq!(
        Client::new(server.local_addr()).send(exact("/small", &body[1..])).answer().unwrap().status,
        200
    );
}

#[test]
fn broken_and_cut_off_bodies_are_errors() {
    let server = serve(router());
    let address = server.local_addr();
    let start = head("/measure", "Transfer-Encoding: chunked");
    for rest in ["3\r\nabc\r\nx\r\n", "3\r\nabcd\r\n", "0\r\nbad\n\r\n"] {
        assert_eq!(ask(address, &format!("{start}{rest}")).status, 400, "{rest}");
    }
    let mut client = Client::new(address);
    client.send(head("/measure", "Content-Length: 100")).send("half");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let answer = client.answer().unwrap();
    let detail = answer.detail();
    assert_eq!(answer.status, 400);
    assert_eq!(detail.as_deref(), Some("the connection was closed before the end of the body"));
    assert!(client.is_closed());
}

#[test]
fn a_client_that_goes_takes_the_handler_along() {
    let alive = Arc::new(AtomicUsize::new(0));
    let shared = Arc::clone(&alive);
    let endpoint = Endpoint::future(move |request: Request| {
        let canary = Arc::clone(&shared);
        async move {
            let answer = measure(request).await;
            canary.fetch_add(usize::from(answer.is_err()), Ordering::Relaxed);
            answer
        }
    });
    let server = serve(post(Router::new(), "/", endpoint));
    for reset in [true, false] {
        let mut client = Client::new(server.local_addr());
        client.send(head("/", "Content-Length: 1000000")).send(vec![b'x'; 100_000]);
        let begun = Instant::now();
        while Arc::strong_count(&alive) < 3 {
            assert!(begun.elapsed() < PATIENCE);
        }
        if reset {
            std::thread::sleep(Duration::from_millis(50));
            rustix::net::sockopt::set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap();
        }
        drop(client);
        let begun = Instant::now();
        while Arc::strong_count(&alive) > 2 {
            assert!(begun.elapsed() < PATIENCE, "reset {reset}");
        }
    }
    assert_eq!(alive.load(Ordering::Relaxed), 1, "the one that was closed was told");
}

#[test]
fn a_handler_that_does_not_read_holds_the_client_back() {
    let held = Arc::new(AtomicBool::new(true));
    let shared = Arc::clone(&held);
    let endpoint = Endpoint::future(move |request: Request| {
        let held = Arc::clone(&shared);
        async move {
            while held.load(Ordering::Relaxed) {
                Signal::after(Duration::from_millis(20)).await;
            }
            measure(request).await
        }
    });
    let server = serve(post(Router::new(), "/held", endpoint));
    let (body, answer) = body(30 << 20);
    let mut client = Client::new(server.local_addr());
    let mut writer = client.stream.try_clone().unwrap();
    writer.write_all(head("/held", &format!("Content-Length: {}", body.len())).as_bytes()).unwrap();
    writer.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut sent = 0;
    while let Ok(count) = writer.write(&body[sent..]) {
        sent += count;
        assert!(sent < 20 << 20, "the server takes whatever comes");
    }
    held.store(false, Ordering::Relaxed);
    writer.set_write_timeout(None).unwrap();
    writer.write_all(&body[sent..]).unwrap();
    assert_eq!(client.answer().unwrap().text(), answer);
}

#[test]
fn only_a_slow_client_runs_out_of_time() {
    let limits = Limits { body_timeout_ms: 200, body_rate_min: 1_000_000, ..Limits::default() };
    let server = serve_with(router(), limits);
    let mut client = Client::new(server.local_addr());
    let begun = Instant::now();
    client.send(head("/measure", "Content-Length: 1000"));
    while begun.elapsed() < Duration::from_millis(700) {
        client.send("x");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.answer().unwrap().status, 408);
    assert!(client.is_closed());
    // A handler may take its time.
    let (body, answer) = body(100_000);
    let mut client = Client::new(server.local_addr());
    assert_eq!(client.send(exact("/slow", &body)).answer().unwrap().text(), answer);
}
