//! What is HTTP/2's own about WebSockets over it: many on one connection, its windows, resets,
//! what is refused, and clients that flood.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use marmota_http::{
    AccessLog, Broadcast, Limits, Metrics, Request, Response, Router, Status, Version,
    WebSocketOptions,
};

use super::super::bridge;
use super::client::{Client, PATIENCE, bind, http2_address, over_tls, serve, serve_with};

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let in_time = async { tokio::time::timeout(PATIENCE, test).await.unwrap() };
    tokio::task::LocalSet::new().block_on(&runtime, in_time)
}

async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    let mut builder = h2::client::Builder::new();
    // Sockets that are not read yet hold up none that is.
    builder.initial_connection_window_size(16 << 20);
    bridge::connect_with(http2_address(address), &builder).await
}

/// A client's frame of a WebSocket, whose mask changes nothing.
fn message(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..=125 => bytes.push(0x80 | length as u8),
        length => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(payload);
    bytes
}

/// A WebSocket of a client.
struct Socket {
    sender: SendStream<Bytes>,
    body: RecvStream,
    come: Vec<u8>,
    /// For which the server has had no room.
    unsent: usize,
}

fn connecting(path: &str) -> http::Request<()> {
    http::Request::builder()
        .method("CONNECT")
        .uri(format!("http://localhost{path}"))
        .extension(Protocol::from_static("websocket"))
        .header("sec-websocket-version", "13")
        .body(())
        .unwrap()
}

async fn open(client: &SendRequest<Bytes>, path: &str) -> Socket {
    let mut client = client.clone().ready().await.unwrap();
    let (response, sender) = client.send_request(connecting(path), false).unwrap();
    let response = response.await.unwrap();
    assert_eq!(response.status(), 200);
    for name in ["sec-websocket-accept", "upgrade", "connection", "content-length"] {
        assert!(!response.headers().contains_key(name), "{response:?}");
    }
    Socket { sender, body: response.into_body(), come: Vec::new(), unsent: 0 }
}

impl Socket {
    /// Sends bytes as the server has room for them.
    async fn send(&mut self, bytes: Vec<u8>) {
        let mut bytes = Bytes::from(bytes);
        while !bytes.is_empty() {
            self.sender.reserve_capacity(bytes.len());
            let room = std::future::poll_fn(|context| self.sender.poll_capacity(context)).await;
            let piece = bytes.split_to(room.unwrap().unwrap().min(bytes.len()));
            self.sender.send_data(piece, false).unwrap();
        }
    }

    async fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.come.len() < count {
            let piece = self.body.data().await.expect("the end came before").unwrap();
            self.body.flow_control().release_capacity(piece.len()).unwrap();
            self.come.extend_from_slice(&piece);
        }
        self.come.drain(..count).collect()
    }

    async fn next(&mut self) -> (u8, Vec<u8>) {
        let head = self.bytes(2).await;
        let length = match head[1] {
            126 => u16::from_be_bytes(self.bytes(2).await.try_into().unwrap()).into(),
            127 => u64::from_be_bytes(self.bytes(8).await.try_into().unwrap()) as usize,
            short => short.into(),
        };
        (head[0], self.bytes(length).await)
    }

    /// How the stream ends: well, or by a reset.
    async fn end(&mut self) -> Option<Reason> {
        loop {
            match self.body.data().await {
                None => return None,
                Some(Err(error)) => return Some(error.reason().expect("a reset")),
                Some(Ok(piece)) => {
                    let _ = self.body.flow_control().release_capacity(piece.len());
                }
            }
        }
    }
}

async fn get(client: &SendRequest<Bytes>, path: &str) -> (u16, String) {
    let request = http::Request::get(format!("http://localhost{path}")).body(()).unwrap();
    ask(client, request).await
}

async fn ask(client: &SendRequest<Bytes>, request: http::Request<()>) -> (u16, String) {
    let mut client = client.clone().ready().await.unwrap();
    let is_tunnel = request.method() == "CONNECT";
    let (response, _sender) = client.send_request(request, !is_tunnel).unwrap();
    let (head, mut body) = response.await.unwrap().into_parts();
    let mut text = Vec::new();
    while let Some(piece) = body.data().await {
        text.extend_from_slice(&piece.unwrap());
    }
    (head.status.as_u16(), String::from_utf8(text).unwrap())
}

fn router() -> Router {
    Router::new()
        .get("/plain", |_| async { "plain" })
        .websocket("/echo", |socket| async move {
            while let Some(message) = socket.receive().await {
                socket.send(message).await?;
            }
            Ok(())
        })
        .websocket("/deaf", |socket| async move {
            std::future::pending::<()>().await;
            drop(socket);
            Ok(())
        })
}

/// Waits for something to be so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not so: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn many_share_a_connection_with_requests() {
    let server = serve(router());
    run(async {
        let client = connect(server.local_addr()).await;
        // These keep all that their streams' windows let in, and nobody else misses it.
        let mut deaf = Vec::new();
        for _ in 0..20 {
            let mut socket = open(&client, "/deaf").await;
            let mut left = message(0x82, &[7; 10_000]).repeat(20);
            while !left.is_empty() {
                socket.sender.reserve_capacity(left.len());
                let room = socket.sender.capacity().min(left.len());
                if room == 0 {
                    let more = std::future::poll_fn(|cx| socket.sender.poll_capacity(cx));
                    match tokio::time::timeout(Duration::from_millis(20), more).await {
                        Ok(more) => assert!(more.unwrap().is_ok()),
                        Err(_) => break,
                    }
                    continue;
                }
                let piece = left.drain(..room).collect::<Vec<u8>>();
                socket.sender.send_data(piece.into(), false).unwrap();
            }
            // What was asked for and not given is not to be kept from the others.
            socket.sender.reserve_capacity(0);
            socket.unsent = left.len();
            deaf.push(socket);
        }
        let mut sockets = Vec::new();
        for _ in 0..50 {
            sockets.push(open(&client, "/echo").await);
        }
        for round in 0..10_u8 {
            for (at, socket) in sockets.iter_mut().enumerate() {
                socket.send(message(0x82, &[round, at as u8])).await;
            }
            assert_eq!(get(&client, "/plain").await, (200, "plain".to_owned()));
            for (at, socket) in sockets.iter_mut().enumerate() {
                assert_eq!(socket.next().await, (0x82, vec![round, at as u8]));
            }
        }
        let all = sockets.into_iter().map(|mut socket| {
            tokio::task::spawn_local(async move {
                let payload = vec![9; 300_000];
                let sent = message(0x82, &payload);
                socket.send(sent).await;
                assert!(socket.next().await == (0x82, payload));
                socket.send(message(0x88, &[3, 0xe8])).await;
                assert_eq!(socket.next().await, (0x88, vec![3, 0xe8]));
                assert_eq!(socket.end().await, None, "it ends by END_STREAM");
            })
        });
        for one in all.collect::<Vec<_>>() {
            one.await.unwrap();
        }
        assert!(deaf.iter().all(|socket| socket.unsent > 0), "what they do not hear they took");
        for socket in &mut deaf {
            socket.sender.send_reset(Reason::CANCEL);
        }
        assert_eq!(get(&client, "/plain").await.0, 200);
    });
}

#[test]
fn handlers_see_the_request_of_http_1() {
    let router = Router::new().get("/{room}", |request: Request| async move {
        assert_eq!((request.method_name(), request.version()), ("GET", Version::Http2));
        assert_eq!(request.header_text("upgrade"), Some("websocket"));
        let said = format!(
            "{} {} {} {}",
            request.host(),
            request.target(),
            request.param("room").unwrap_or_default(),
            request.header_text("cookie").unwrap_or_default()
        );
        let mut options = WebSocketOptions::default();
        options.origins = Some(vec!["https://x.test".to_owned()]);
        // Waits first, as one that asks somebody who this is.
        tokio::task::yield_now().await;
        Response::websocket(&request, &options, |socket| async move {
            socket.send(said).await?;
            Ok(())
        })
    });
    let server = serve(router);
    run(async {
        let client = connect(server.local_addr()).await;
        let mut request = connecting("/a?b=1");
        request.headers_mut().append("cookie", "c=1".parse().unwrap());
        let (response, sender) = client.clone().send_request(request, false).unwrap();
        let body = response.await.unwrap().into_body();
        let mut socket = Socket { sender, body, come: Vec::new(), unsent: 0 };
        assert_eq!(socket.next().await, (0x81, b"localhost /a?b=1 a c=1".to_vec()));
        assert_eq!(socket.next().await, (0x88, vec![3, 0xe8]));
        let mut request = connecting("/a");
        request.headers_mut().append("origin", "https://evil.test".parse().unwrap());
        assert_eq!(ask(&client, request).await.0, 403);
    });
}

#[test]
fn what_is_no_websocket_is_refused() {
    let server = serve(router().get("/secret", |_| async { Status::UNAUTHORIZED }));
    run(async {
        let client = connect(server.local_addr()).await;
        let mut other = connecting("/echo");
        other.extensions_mut().insert(Protocol::from_static("connect-udp"));
        let (status, text) = ask(&client, other).await;
        assert!(status == 501 && text.contains(":protocol"), "{status} {text}");
        let proxied = http::Request::builder().method("CONNECT").uri("x.test:443").body(());
        let (status, text) = ask(&client, proxied.unwrap()).await;
        assert!(status == 501 && text.contains("not a proxy"), "{status} {text}");
        assert_eq!(ask(&client, connecting("/none")).await.0, 404);
        assert_eq!(ask(&client, connecting("/secret")).await.0, 401);
        // A 2xx would say that the tunnel is open.
        let (status, text) = ask(&client, connecting("/plain")).await;
        assert!(status == 400 && text.contains("WebSocket"), "{status} {text}");
        let (status, text) = get(&client, "/echo").await;
        assert!(status == 400 && text.contains("RFC 8441"), "{status} {text}");
        let mut old = connecting("/echo");
        old.headers_mut().insert("sec-websocket-version", "8".parse().unwrap());
        assert_eq!(ask(&client, old).await.0, 426);
        assert_eq!(get(&client, "/plain").await.0, 200);
    });
}

/// Counts those that live.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// `/talk` says more than anybody reads, and counts what it has said; handlers are counted.
fn counted(alive: &Arc<AtomicUsize>, said: &Arc<AtomicUsize>) -> Router {
    let (here, talking, said) = (Arc::clone(alive), Arc::clone(alive), Arc::clone(said));
    router()
        .websocket("/count", move |socket| {
            let alive = Alive::new(&here);
            async move {
                while socket.receive().await.is_some() {}
                drop(alive);
                Ok(())
            }
        })
        .websocket("/talk", move |socket| {
            let (alive, said) = (Alive::new(&talking), Arc::clone(&said));
            async move {
                loop {
                    socket.send(vec![7; 1_000]).await?;
                    said.fetch_add(1_000, Ordering::SeqCst);
                    let _ = &alive;
                }
            }
        })
}

#[test]
fn a_window_that_is_not_opened_holds_its_own_handler_alone() {
    let (alive, said) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
    let limits = Limits { write_timeout_ms: 500, ..Limits::default() };
    let server = serve_with(counted(&alive, &said), limits);
    run(async {
        let mut builder = h2::client::Builder::new();
        builder.initial_connection_window_size(1 << 20).initial_window_size(65_535);
        let address = http2_address(server.local_addr());
        let client = bridge::connect_with(address, &builder).await;
        let mut stuck = open(&client, "/talk").await;
        let mut echo = open(&client, "/echo").await;
        for round in 0..20_u8 {
            echo.send(message(0x82, &[round])).await;
            assert_eq!(echo.next().await, (0x82, vec![round]));
        }
        // Nobody takes anything, so it is reset in the end, and had not got far.
        until("the handler is dropped", || alive.load(Ordering::SeqCst) == 0).await;
        let said = said.load(Ordering::SeqCst);
        assert!((65_000..400_000).contains(&said), "{said} bytes were said to nobody");
        assert_eq!(stuck.end().await, Some(Reason::CANCEL));
        echo.send(message(0x82, b"on")).await;
        assert_eq!(echo.next().await, (0x82, b"on".to_vec()));
    });
}

#[test]
fn a_reset_drops_the_handler_and_nothing_else() {
    let (alive, said) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
    let server = serve(counted(&alive, &said));
    run(async {
        let client = connect(server.local_addr()).await;
        let mut echo = open(&client, "/echo").await;
        let mut socket = open(&client, "/count").await;
        until("a handler runs", || alive.load(Ordering::SeqCst) == 1).await;
        // In the middle of a message.
        let half = message(0x82, &[1; 50_000])[..20_000].to_vec();
        socket.send(half).await;
        socket.sender.send_reset(Reason::CANCEL);
        until("it is dropped", || alive.load(Ordering::SeqCst) == 0).await;
        let mut talk = open(&client, "/talk").await;
        assert_eq!(talk.next().await.0, 0x82);
        talk.sender.send_reset(Reason::CANCEL);
        until("it is dropped", || alive.load(Ordering::SeqCst) == 0).await;
        echo.send(message(0x82, b"on")).await;
        assert_eq!(echo.next().await, (0x82, b"on".to_vec()));
        assert_eq!(get(&client, "/plain").await.0, 200);
    });
}

#[test]
fn a_panic_ends_its_stream_alone() {
    let server = serve(router().websocket("/panic", |socket| async move {
        socket.receive().await;
        panic!("as asked")
    }));
    run(async {
        let client = connect(server.local_addr()).await;
        let mut socket = open(&client, "/panic").await;
        socket.send(message(0x81, b"go")).await;
        while let Some(Ok(piece)) = socket.body.data().await {
            assert!(piece.is_empty(), "it ends without a Close");
        }
        assert_eq!(get(&client, "/plain").await.0, 200);
    });
}

#[test]
fn a_connection_that_ends_ends_its_websockets() {
    let ends: Arc<Mutex<Vec<(String, u16)>>> = Arc::default();
    let seen = Arc::clone(&ends);
    let server = serve(Router::new().websocket("/", move |socket| {
        let seen = Arc::clone(&seen);
        async move {
            let mut last = String::new();
            while let Some(message) = socket.receive().await {
                last = String::from_utf8_lossy(message.as_bytes()).into_owned();
            }
            // What is still to be done when the client has gone.
            tokio::time::sleep(Duration::from_millis(50)).await;
            seen.lock().unwrap().push((last, socket.closed().unwrap().code));
            Ok(())
        }
    }));
    run(async {
        let far = tokio::net::TcpStream::connect(http2_address(server.local_addr())).await;
        let (client, connection) = h2::client::handshake(far.unwrap()).await.unwrap();
        let connection = tokio::task::spawn_local(connection);
        until("websockets are known", || client.is_extended_connect_protocol_enabled()).await;
        let mut sockets = Vec::new();
        for at in 0..3 {
            let mut socket = open(&client, "/").await;
            socket.send(message(0x81, format!("{at}").as_bytes())).await;
            sockets.push(socket);
        }
        assert_eq!(get(&client, "/none").await.0, 404);
        connection.abort();
        let _ = connection.await;
        until("all have ended", || ends.lock().unwrap().len() == 3).await;
    });
    let mut ends = ends.lock().unwrap().clone();
    ends.sort();
    assert_eq!(ends, ["0", "1", "2"].map(|last| (last.to_owned(), 1006)));
}

#[test]
fn thousands_are_opened_no_more_than_so_many_at_once() {
    let (alive, said) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
    let limits = Limits { streams_max: 20, ..Limits::default() };
    let server = serve_with(counted(&alive, &said), limits);
    run(async {
        let client = connect(server.local_addr()).await;
        let all = (0..2_000).map(|_| {
            let (client, alive) = (client.clone(), Arc::clone(&alive));
            tokio::task::spawn_local(async move {
                let mut socket = open(&client, "/count").await;
                assert!(alive.load(Ordering::SeqCst) <= 20);
                socket.send(message(0x88, &[3, 0xe8])).await;
                assert_eq!(socket.next().await.0, 0x88);
                assert_eq!(socket.end().await, None);
                let _ = socket.sender.send_data(Bytes::new(), true);
            })
        });
        for one in all.collect::<Vec<_>>() {
            one.await.unwrap();
        }
        until("all have ended", || alive.load(Ordering::SeqCst) == 0).await;
    });
}

#[test]
fn rooms_and_shutdown_reach_all() {
    let room = Broadcast::new();
    let joined = room.clone();
    let server = serve(router().websocket("/room", move |socket| {
        let room = joined.clone();
        async move {
            socket.join(&room);
            while socket.receive().await.is_some() {}
            Ok(())
        }
    }));
    run(async {
        let client = connect(server.local_addr()).await;
        let mut sockets = Vec::new();
        for _ in 0..30 {
            sockets.push(open(&client, "/room").await);
        }
        until("all have joined", || room.members() == 30).await;
        for round in 0..50_u8 {
            room.send(vec![round; 2_000]);
        }
        for socket in &mut sockets {
            for round in 0..50_u8 {
                assert_eq!(socket.next().await, (0x82, vec![round; 2_000]));
            }
        }
        let ended = std::thread::spawn(move || server.shutdown());
        for socket in &mut sockets {
            let (first, payload) = socket.next().await;
            assert_eq!((first, &payload[..2]), (0x88, &1001_u16.to_be_bytes()[..]));
            socket.send(message(0x88, &payload[..2])).await;
            let _ = socket.sender.send_data(Bytes::new(), true);
        }
        for socket in &mut sockets {
            assert_eq!(socket.end().await, None);
        }
        assert_eq!(room.members(), 0);
        until("the server has ended", || ended.is_finished()).await;
        ended.join().unwrap().unwrap();
    });
}

#[test]
fn an_idle_connection_stays_for_its_websockets() {
    let limits = Limits { idle_timeout_ms: 100, ..Limits::default() };
    let server = serve_with(router(), limits);
    run(async {
        let client = connect(server.local_addr()).await;
        let mut socket = open(&client, "/echo").await;
        let idle = connect(server.local_addr()).await;
        until("the other connection is closed", || {
            let mut idle = idle.clone();
            let mut context = Context::from_waker(Waker::noop());
            matches!(idle.poll_ready(&mut context), Poll::Ready(Err(_)))
        })
        .await;
        socket.send(message(0x81, b"still here")).await;
        assert_eq!(socket.next().await, (0x81, b"still here".to_vec()));
    });
}

#[test]
fn they_are_counted_and_logged_as_over_http_1() {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (lines, metrics) = (Lines::default(), Metrics::new());
    let log = AccessLog::combined(lines.clone()).unwrap();
    let server = bind().listeners(1).metrics(&metrics).access_log(&log).start(router()).unwrap();
    run(async {
        let client = connect(server.local_addr()).await;
        let mut socket = open(&client, "/echo").await;
        socket.send(message(0x88, &[3, 0xe8])).await;
        assert_eq!(socket.next().await.0, 0x88);
    });
    server.shutdown().unwrap();
    drop(log);
    let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(lines.contains("\"GET /echo HTTP/2.0\" 101 "), "{lines}");
    let numbers = metrics.text();
    assert!(numbers.contains("status=\"101\"} 1"), "{numbers}");
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// CONNECT of `/deaf` on x for a WebSocket, in the static table and literals.
const CONNECT: &[u8] = b"\x02\x07CONNECT\x86\x04\x05/deaf\x01\x01x\
    \x00\x09:protocol\x09websocket\x00\x15sec-websocket-version\x0213";

/// A connection on which frames are sent as they are.
fn raw(server: SocketAddr) -> Client {
    let mut client = Client::plain(server);
    client.stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").send(frame(4, 0, 0, &[]));
    client
}

/// Sends frames until the server ends the connection, which it must.
fn flood(server: SocketAddr, mut next: impl FnMut(u32) -> Vec<u8>) {
    let mut client = raw(server);
    let mut reader = client.stream.try_clone().unwrap();
    let read = std::thread::spawn(move || {
        let mut piece = [0; 16 * 1024];
        while let Ok(1..) = reader.read(&mut piece) {}
    });
    let has_ended = |at| client.stream.write_all(&next(at)).is_err() || read.is_finished();
    assert!((0..200_000).any(has_ended), "the flood goes on");
    read.join().unwrap();
}

#[test]
fn floods_and_frames_behind_the_end_end_the_connection() {
    if over_tls() {
        return; // The frames are the same.
    }
    let server = serve(router());
    let address = server.local_addr();
    let mut client = raw(address);
    client.send(frame(1, 4, 1, CONNECT));
    // Its answer is a head that does not end the stream.
    loop {
        let head = client.bytes(9);
        client.bytes(u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize);
        if head[3] == 1 {
            assert_eq!((head[4] & 1, head[8]), (0, 1));
            break;
        }
    }
    drop(client);
    // Opened and reset at once.
    flood(address, |at| {
        let stream = at * 2 + 1;
        [frame(1, 4, stream, CONNECT), frame(3, 0, stream, &8_u32.to_be_bytes())].concat()
    });
    // Frames of one byte that nobody reads.
    flood(address, |at| match at {
        0 => frame(1, 4, 1, CONNECT),
        _ => frame(0, 0, 1, b"x").repeat(100),
    });
    // Frames of none, and more than the window has room for.
    flood(address, |at| match at {
        0 => frame(1, 4, 1, CONNECT),
        1 => frame(0, 0, 1, b"").repeat(1_000),
        _ => frame(0, 0, 1, &[0; 16_000]),
    });
    // Behind END_STREAM.
    flood(address, |at| match at {
        0 => frame(1, 4, 1, CONNECT),
        1 => frame(0, 1, 1, b""),
        _ => frame(0, 0, 1, b"more").repeat(10),
    });
    // Opened and ended at once, on one stream after the other.
    let mut many = raw(address);
    for at in 0..50 {
        many.send(frame(1, 5, at * 2 + 1, CONNECT));
    }
    run(async {
        let client = connect(address).await;
        assert_eq!(get(&client, "/plain").await, (200, "plain".to_owned()));
    });
}
