//! HTTP/2: the same handlers, by prior knowledge and by TLS' negotiation; streams side by side;
//! limits, and clients that flood.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use marmota_http::{
    Admission, BodyError, BodyStream, Endpoint, Event, Flow, Limits, Method, Next, Request,
    Response, RouteChanges, Router, Version,
};

use super::client::{Client, Gate, PATIENCE, bind, over_tls, serve, serve_with};

fn router() -> Router {
    let sum = |request: Request| async move {
        let (mut reader, mut piece, mut sum) = (request.reader(), Vec::new(), 0_u64);
        while reader.read(&mut piece).await? > 0 {
            sum += piece.drain(..).map(u64::from).sum::<u64>();
        }
        Ok::<_, BodyError>(sum.to_string())
    };
    let echo = |request: Request| async move {
        Response::streamed("application/octet-stream", BodyStream::new(request.reader()))
    };
    let unread = |request: Request| async move {
        let _kept = request.reader();
        std::future::pending::<String>().await
    };
    Router::new()
        .get("/", |request: Request| async move {
            assert_eq!(request.version(), Version::Http2);
            let cookie = request.header_text("cookie").unwrap_or_default().to_owned();
            format!("{} {} {cookie}", request.host(), request.query())
        })
        .direct(Method::Get, "/direct/{n:int}", |request, out| {
            let n = request.param_int_at(0).unwrap_or(0);
            out.content_type("text/plain").body_mut().extend(n.to_string().bytes());
            Flow::Done
        })
        .get("/later", |_| async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            "later"
        })
        .get("/panic", |_| async { if true { panic!("as asked") } else { "" } })
        .get("/large", |_| async { Response::text("x".repeat(3 << 20)) })
        .get("/made", |_| async {
            let mut left = 1_000;
            let body = BodyStream::new(move |out: &mut Vec<u8>| {
                out.extend_from_slice(&[b'm'; 1_000]);
                left -= 1;
                Ok(if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            });
            Response::streamed("text/plain", body)
        })
        .get("/broken", |_| async {
            let body = BodyStream::new(|out: &mut Vec<u8>| {
                out.extend_from_slice(b"start");
                Err("as asked".into())
            });
            Response::streamed("text/plain", body)
        })
        .get("/events", |_| async {
            Response::events(|mut events| async move {
                for number in 0..3 {
                    events.send(&Event::new(number.to_string())).await?;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Ok(())
            })
        })
        .post("/length", |request: Request| async move { request.body().len().to_string() })
        .on(Method::Post, "/sum", Endpoint::future(sum).streamed(1 << 30))
        .on(Method::Post, "/unread", Endpoint::future(unread).streamed(1 << 30))
        .on(Method::Post, "/small", Endpoint::future(sum).streamed(1_000))
        .on(Method::Post, "/echo", Endpoint::future(echo).streamed(1 << 30))
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let in_time = async { tokio::time::timeout(Duration::from_secs(60), test).await.unwrap() };
    tokio::task::LocalSet::new().block_on(&runtime, in_time)
}

async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    let socket = match over_tls() {
        true => tokio::net::TcpStream::connect(super::super::tunnel::open_http2(address)).await,
        false => tokio::net::TcpStream::connect(address).await,
    };
    let (client, connection) = h2::client::handshake(socket.unwrap()).await.unwrap();
    tokio::task::spawn_local(connection);
    client.ready().await.unwrap()
}

fn get(path: &str) -> http::Request<()> {
    http::Request::get(format!("http://x.test{path}")).body(()).unwrap()
}

fn post(path: &str) -> http::Request<()> {
    http::Request::post(format!("http://x.test{path}")).body(()).unwrap()
}

async fn read(response: h2::client::ResponseFuture) -> Result<(u16, String), h2::Error> {
    let (head, mut body) = response.await?.into_parts();
    let mut text = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        text.extend_from_slice(&piece);
    }
    Ok((head.status.as_u16(), String::from_utf8(text).unwrap()))
}

async fn ask(client: &SendRequest<Bytes>, request: http::Request<()>) -> (u16, String) {
    let mut client = client.clone().ready().await.unwrap();
    read(client.send_request(request, true).unwrap().0).await.unwrap()
}

async fn upload(client: &SendRequest<Bytes>, path: &str, body: Bytes) -> (u16, String) {
    let mut client = client.clone().ready().await.unwrap();
    let (response, mut sender) = client.send_request(post(path), false).unwrap();
    let sending = tokio::task::spawn_local(async move {
        let mut body = body;
        while !body.is_empty() {
            sender.reserve_capacity(body.len());
            let Some(Ok(room)) = std::future::poll_fn(|cx| sender.poll_capacity(cx)).await else {
                return;
            };
            let piece = body.split_to(room.min(body.len()));
            if sender.send_data(piece, body.is_empty()).is_err() {
                return;
            }
        }
    });
    let answer = read(response).await.unwrap();
    sending.abort();
    answer
}

#[test]
fn wrapped_handlers_answer_as_others() {
    let mark = |request: Request, next: Next| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut answer = next.run(request).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        answer.set_header("X-Seen", answer.status().code().to_string()).unwrap();
        answer
    };
    let server = serve(router().wrap(mark));
    run(async {
        let client = connect(server.local_addr()).await;
        for (path, status, text) in [
            ("/direct/7", 200, "7".to_owned()),
            ("/later", 200, "later".to_owned()),
            ("/large", 200, "x".repeat(3 << 20)),
            ("/made", 200, "m".repeat(1_000_000)),
            ("/events", 200, "data: 0\n\ndata: 1\n\ndata: 2\n\n".to_owned()),
        ] {
            assert!(ask(&client, get(path)).await == (status, text), "{path}");
        }
        assert_eq!(ask(&client, get("/panic")).await.0, 500);
        assert_eq!(upload(&client, "/length", vec![1; 70_000].into()).await.1, "70000");
        assert_eq!(upload(&client, "/sum", vec![1; 700_000].into()).await.1, "700000");
        let mut client = client.ready().await.unwrap();
        let head = client.send_request(get("/later"), true).unwrap().0.await.unwrap();
        assert_eq!(head.headers()["x-seen"], "200");
    });
}

#[test]
fn handlers_see_no_difference() {
    let server = serve(router());
    run(async {
        let client = connect(server.local_addr()).await;
        let mut request = get("/?a=1");
        for crumb in ["a=1", "b=2"] {
            request.headers_mut().append("cookie", crumb.parse().unwrap());
        }
        assert_eq!(ask(&client, request).await, (200, "x.test a=1 a=1; b=2".to_owned()));
        assert_eq!(ask(&client, get("/direct/7")).await, (200, "7".to_owned()));
        assert_eq!(ask(&client, get("/later")).await, (200, "later".to_owned()));
        assert_eq!(ask(&client, get("/panic")).await.0, 500);
        assert_eq!(ask(&client, get("/none")).await.0, 404);
        assert_eq!(ask(&client, post("/later")).await.0, 405);
        let large = ask(&client, get("/large")).await;
        assert!(large.0 == 200 && large.1.len() == 3 << 20);
        assert_eq!(ask(&client, get("/made")).await, (200, "m".repeat(1_000_000)));
        let events = "data: 0\n\ndata: 1\n\ndata: 2\n\n".to_owned();
        assert_eq!(ask(&client, get("/events")).await, (200, events));

        let mut sender = client.clone().ready().await.unwrap();
        let head = http::Request::head("http://x.test/large").body(()).unwrap();
        let answer = sender.send_request(head, true).unwrap().0.await.unwrap();
        assert_eq!(answer.headers()["content-length"], (3 << 20).to_string().as_str());
        assert!(answer.headers().contains_key("date") && answer.body().is_end_stream());
        assert!(!answer.headers().contains_key("connection"));

        let mut sender = client.clone().ready().await.unwrap();
        let broken = read(sender.send_request(get("/broken"), true).unwrap().0).await;
        assert!(broken.unwrap_err().is_reset(), "a body that fails is not ended well");
        assert_eq!(ask(&client, get("/direct/8")).await, (200, "8".to_owned()));
    });
}

#[test]
fn bodies_are_taken_whole_or_as_they_come() {
    let server = serve(router());
    run(async {
        let client = connect(server.local_addr()).await;
        for length in [1, 1_000, 65_535, 65_536, 1 << 20] {
            let body = Bytes::from(vec![1; length]);
            for path in ["/length", "/sum"] {
                let answer = upload(&client, path, body.clone()).await;
                assert_eq!(answer, (200, length.to_string()), "{path}");
            }
            let echoed = upload(&client, "/echo", body.clone()).await;
            assert!(echoed.0 == 200 && echoed.1.as_bytes() == body, "{length}");
        }
        let large = Bytes::from(vec![1; 3 << 20]);
        assert_eq!(upload(&client, "/length", large.clone()).await.0, 413);
        assert_eq!(upload(&client, "/small", large.slice(..2_000)).await.0, 413);
        assert_eq!(ask(&client, get("/direct/8")).await.1, "8", "the connection goes on");
    });
}

#[test]
fn bodies_that_are_not_read_hold_up_no_others() {
    let server = serve(router());
    run(async {
        let client = connect(server.local_addr()).await;
        // Of each some 64 KiB lie ready for its handler, and most of its own window is used behind them:
        // together more than twice the connection's first one.
        let (bytes, mut kept) = (64 * 1024 + 60_000, Vec::new());
        for _ in 0..9 {
            let mut client = client.clone().ready().await.unwrap();
            let (response, mut sender) = client.send_request(post("/unread"), false).unwrap();
            let mut left = bytes;
            while left > 0 {
                sender.reserve_capacity(left);
                let room = std::future::poll_fn(|cx| sender.poll_capacity(cx)).await;
                let room = room.unwrap().unwrap().min(left);
                sender.send_data(Bytes::from(vec![1; room]), false).unwrap();
                left -= room;
            }
            kept.push((response, sender));
        }
        let length = 1 << 20;
        let answer = upload(&client, "/sum", Bytes::from(vec![1; length])).await;
        assert_eq!(answer, (200, length.to_string()));
        drop(kept);
        assert_eq!(ask(&client, get("/direct/8")).await.1, "8", "the connection goes on");
    });
}

#[test]
fn streams_do_not_wait_for_each_other() {
    let server = serve(router());
    run(async {
        let client = connect(server.local_addr()).await;
        let begun = Instant::now();
        let all = (0..90).map(|at| {
            let path = match at % 3 {
                0 => "/later".to_owned(),
                1 => format!("/direct/{at}"),
                _ => "/made".to_owned(),
            };
            let client = client.clone();
            tokio::task::spawn_local(async move { ask(&client, get(&path)).await.0 })
        });
        for answer in all.collect::<Vec<_>>() {
            assert_eq!(answer.await.unwrap(), 200);
        }
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    });
    server.shutdown().unwrap();
}

#[test]
fn a_slow_reader_stops_the_producer_and_a_reset_drops_it() {
    struct Count(Arc<AtomicUsize>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.store(usize::MAX, Ordering::SeqCst);
        }
    }
    let made = Arc::new(AtomicUsize::new(0));
    let shared = Arc::clone(&made);
    let server = serve(Router::new().get("/", move |_| {
        let count = Count(Arc::clone(&shared));
        async move {
            let body = BodyStream::new(move |out: &mut Vec<u8>| {
                out.extend_from_slice(&[0; 10_000]);
                count.0.fetch_add(10_000, Ordering::SeqCst);
                Ok(ControlFlow::Continue(()))
            });
            Response::streamed("text/plain", body)
        }
    }));
    run(async {
        let mut client = connect(server.local_addr()).await;
        let answer = client.send_request(get("/"), true).unwrap().0.await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let so_far = made.load(Ordering::SeqCst);
        assert!(so_far < 400_000, "{so_far} bytes were made for a client that reads nothing");
        drop(answer);
        let begun = Instant::now();
        while made.load(Ordering::SeqCst) != usize::MAX {
            assert!(begun.elapsed() < PATIENCE, "the producer lives on");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn a_handler_that_takes_too_long_is_answered_for() {
    let slow = |_| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        "slow"
    };
    let slow = Endpoint::future(slow).timeout_ms(200);
    let server = serve(router().on(Method::Get, "/slow", slow));
    run(async {
        let client = connect(server.local_addr()).await;
        let begun = Instant::now();
        assert_eq!(ask(&client, get("/slow")).await.0, 503);
        assert!(begun.elapsed() < PATIENCE);
        assert_eq!(ask(&client, get("/direct/7")).await, (200, "7".to_owned()));
    });
}

#[test]
fn clients_that_rest_too_long_are_ended() {
    let limits = Limits {
        idle_timeout_ms: 300,
        body_timeout_ms: 200,
        write_timeout_ms: 300,
        header_timeout_ms: 200,
        ..Limits::default()
    };
    let server = serve_with(router(), limits);
    run(async {
        let client = connect(server.local_addr()).await;
        let mut sender = client.clone().ready().await.unwrap();
        let (response, _kept) = sender.send_request(post("/length"), false).unwrap();
        assert_eq!(read(response).await.unwrap().0, 408);
        // A window that is never opened again.
        let mut sender = client.clone().ready().await.unwrap();
        let answer = sender.send_request(get("/large"), true).unwrap().0.await.unwrap();
        let mut body = answer.into_body();
        let error = loop {
            match body.data().await {
                Some(Ok(_)) => {}
                other => break other,
            }
        };
        assert!(error.is_some_and(|end| end.is_err()), "it is reset");
        let begun = Instant::now();
        drop(body);
        while client.clone().ready().await.is_ok() {
            assert!(begun.elapsed() < PATIENCE, "the idle connection lives on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    if !over_tls() {
        let mut half = TcpStream::connect(server.local_addr()).unwrap();
        half.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        half.write_all(b"PRI * HTTP/2.0\r\n").unwrap();
        let _ = half.read_to_end(&mut Vec::new());
    }
}

#[test]
fn shutdown_answers_what_is_under_way() {
    let gate = Gate::default();
    let held = gate.clone();
    let router = router().get("/held", move |_| {
        let held = held.clone();
        async move {
            held.pass().await;
            "held"
        }
    });
    let server = serve(router);
    run(async {
        let idle = connect(server.local_addr()).await;
        assert_eq!(ask(&idle, get("/direct/1")).await.1, "1");
        let busy = connect(server.local_addr()).await;
        let asked = tokio::task::spawn_local(async move { ask(&busy, get("/held")).await });
        let reached = gate.clone();
        tokio::task::spawn_blocking(move || reached.wait()).await.unwrap();
        let begun = Instant::now();
        let ended = std::thread::spawn(move || server.shutdown());
        // The server begins to end, and the handler is not done.
        tokio::time::sleep(Duration::from_millis(50)).await;
        gate.open();
        assert_eq!(asked.await.unwrap(), (200, "held".to_owned()));
        drop(idle);
        while !ended.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        ended.join().unwrap().unwrap();
    });
}

/// A frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// GET /later of x, in the static table and literals.
const LATER: &[u8] = b"\x82\x86\x44\x06/later\x41\x01x";

/// Sends frames until the server ends the connection, which it must, and soon.
fn flood(server: SocketAddr, mut next: impl FnMut(u32) -> Vec<u8>) -> usize {
    let mut client = Client::new(server);
    client.stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").send(frame(4, 0, 0, &[]));
    let mut reader = client.stream.try_clone().unwrap();
    let read = std::thread::spawn(move || {
        let mut read = 0;
        let mut piece = [0; 16 * 1024];
        while let Ok(count @ 1..) = reader.read(&mut piece) {
            read += count;
        }
        read
    });
    let has_ended = |at| client.stream.write_all(&next(at)).is_err() || read.is_finished();
    assert!((0..200_000).any(has_ended), "the flood goes on");
    read.join().unwrap()
}

#[test]
fn floods_end_the_connection() {
    if over_tls() {
        return; // The frames are the same; the tunnel would want its protocol said.
    }
    let server = serve(router());
    let address = server.local_addr();
    // Requests that are reset at once, whose handlers have begun or not.
    for apart in [false, true] {
        flood(address, |at| {
            let stream = at * 2 + 1;
            if apart {
                std::thread::sleep(Duration::from_micros(200));
            }
            let mut frames = frame(1, 5, stream, LATER);
            frames.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
            frames
        });
    }
    // A head that never ends.
    flood(address, |at| match at {
        0 => frame(1, 1, 1, LATER),
        _ => frame(9, 0, 1, &[0x40, 1, b'a', 1, b'b'].repeat(100)),
    });
    // Frames without a byte.
    flood(address, |at| match at {
        0 => frame(1, 4, 1, b"\x83\x86\x44\x07/length\x41\x01x"),
        _ => frame(0, 0, 1, &[]).repeat(100),
    });
    let mut client = bind_and_ask(address);
    assert_eq!(client.answer().unwrap().status, 200, "others are served");
}

fn bind_and_ask(address: SocketAddr) -> Client {
    let mut client = Client::new(address);
    client.send("GET /direct/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    client
}

#[test]
fn pings_and_settings_are_answered_no_faster_than_they_are_read() {
    if over_tls() {
        return;
    }
    let server = bind().listeners(1).start(router()).unwrap();
    for flood in [frame(6, 0, 0, &[7; 8]), frame(4, 0, 0, &[0, 4, 0, 0, 255, 255])] {
        let mut client = Client::new(server.local_addr());
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").send(frame(4, 0, 0, &[]));
        client.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        // Nothing of the answers is read: the server stops reading too.
        let (piece, mut sent) = (flood.repeat(4_000), 0);
        while let Ok(count) = client.stream.write(&piece) {
            sent += count;
            assert!(sent < 64 << 20, "it takes whatever comes");
        }
    }
    assert_eq!(bind_and_ask(server.local_addr()).answer().unwrap().status, 200);
}

/// A server whose bodies decide what may be held, and how many bytes its handlers hold.
fn holding(limits: Limits, gate: &Gate) -> marmota_http::RunningServer {
    let gate = gate.clone();
    let hold = move |request: Request| {
        let gate = gate.clone();
        async move {
            gate.pass().await;
            request.body().len().to_string()
        }
    };
    let refuse = |request: &Request| match request.header("x-key") {
        Some(_) => Admission::Granted,
        None => Admission::Refused(Response::problem(marmota_http::Status::UNAUTHORIZED, "no key")),
    };
    let length = |request: Request| async move { request.body().len().to_string() };
    let later = |request: &Request| {
        let known = request.header("x-key").is_some();
        Admission::Later(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let refused = Response::problem(marmota_http::Status::UNAUTHORIZED, "no key");
            if known { Ok(()) } else { Err(refused) }
        }))
    };
    let router = Router::new()
        .post("/hold", hold)
        .post("/length", length)
        .on(Method::Post, "/checked", Endpoint::future(length).before_body(refuse))
        .on(Method::Post, "/checked-later", Endpoint::future(length).before_body(later));
    bind().listeners(1).limits(limits).start(router).unwrap()
}

#[test]
fn a_stream_is_decided_on_before_its_body_is_read() {
    let server = holding(Limits::default(), &Gate::default());
    run(async {
        let client = connect(server.local_addr()).await;
        for path in ["/checked", "/checked-later"] {
            let mut ready = client.clone().ready().await.unwrap();
            // Nothing of the body is ever sent.
            let (answer, _body) = ready.send_request(post(path), false).unwrap();
            let (status, text) = read(answer).await.unwrap();
            assert_eq!(status, 401, "{text}");
            let mut request = post(path);
            request.headers_mut().insert("x-key", "1".parse().unwrap());
            let mut ready = client.clone().ready().await.unwrap();
            let (answer, mut body) = ready.send_request(request, false).unwrap();
            body.send_data(vec![b'x'; 60_000].into(), true).unwrap();
            assert_eq!(read(answer).await.unwrap(), (200, "60000".to_owned()));
        }
    });
}

#[test]
fn bodies_of_a_connection_wait_for_each_other() {
    let limits = Limits { connection_body_bytes_max: 100_000, ..Limits::default() };
    let gate = Gate::default();
    let server = holding(limits, &gate);
    run(async {
        let client = connect(server.local_addr()).await;
        let send = async |path: &'static str, bytes: usize, said: bool| {
            let mut request = post(path);
            if said {
                request.headers_mut().insert("content-length", bytes.into());
            }
            let mut ready = client.clone().ready().await.unwrap();
            let (answer, mut body) = ready.send_request(request, false).unwrap();
            body.send_data(vec![b'x'; bytes].into(), true).unwrap();
            (tokio::task::spawn_local(read(answer)),)
        };
        // The first is held by its handler; those behind it have no room, but for a small one.
        let (first,) = send("/hold", 60_000, true).await;
        while !gate.is_reached() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (small,) = send("/length", 10_000, true).await;
        assert_eq!(small.await.unwrap().unwrap(), (200, "10000".to_owned()));
        let (second,) = send("/length", 60_000, true).await;
        let (third,) = send("/length", 50_000, false).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!second.is_finished() && !third.is_finished(), "they are held beside the first");
        gate.open();
        for (answer, length) in [(first, "60000"), (second, "60000"), (third, "50000")] {
            assert_eq!(answer.await.unwrap().unwrap(), (200, length.to_owned()));
        }
    });
}

#[test]
fn bodies_of_all_connections_of_http2_have_one_budget() {
    let limits = Limits { held_body_bytes_max: 150_000, ..Limits::default() };
    let gate = Gate::default();
    let server = holding(limits, &gate);
    run(async {
        let (mut clients, mut held) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let client = connect(server.local_addr()).await;
            let mut ready = client.clone().ready().await.unwrap();
            let (answer, mut body) = ready.send_request(post("/hold"), false).unwrap();
            body.send_data(vec![b'x'; 60_000].into(), true).unwrap();
            clients.push(client);
            held.push(tokio::task::spawn_local(read(answer)));
        }
        // One of the three has found no room.
        while !held.iter().any(|answer| answer.is_finished()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        gate.open();
        let mut statuses = Vec::new();
        for answer in held {
            statuses.push(answer.await.unwrap().unwrap().0);
        }
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 200, 503]);
        // What they held is given back.
        let client = &clients[0];
        let mut ready = client.clone().ready().await.unwrap();
        let (answer, mut body) = ready.send_request(post("/length"), false).unwrap();
        body.send_data(vec![b'x'; 65_000].into(), true).unwrap();
        assert_eq!(read(answer).await.unwrap(), (200, "65000".to_owned()));
    });
}

#[test]
fn routes_are_replaced_between_the_streams_of_a_connection() {
    let numbered = |number: usize| {
        let later = move |_: Request| async move {
            tokio::time::sleep(Duration::from_millis(3)).await;
            number.to_string()
        };
        Router::new().get("/", move |_| async move { number.to_string() }).get("/later", later)
    };
    let changes = RouteChanges::new();
    let server = bind().listeners(1).route_changes(&changes).start(numbered(0)).unwrap();
    let replacing = std::thread::spawn(move || {
        for number in 1..=30 {
            let pause = changes.pause(PATIENCE).unwrap();
            assert_eq!(pause.requests_in_progress(), 0);
            pause.resume_with(numbered(number)).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    run(async {
        let client = connect(server.local_addr()).await;
        let (mut latest, mut count) = (0, 0);
        while latest < 30 {
            let streams = ["/", "/later", "/", "/later"].map(|path| ask(&client, get(path)));
            let [first, second, third, last] = streams;
            let answers = tokio::join!(first, second, third, last);
            for (status, text) in [answers.0, answers.1, answers.2, answers.3] {
                assert_eq!(status, 200, "{text}");
                latest = latest.max(text.parse::<usize>().unwrap());
                count += 1;
            }
        }
        assert!(count > 30, "{count}");
    });
    replacing.join().unwrap();
}
