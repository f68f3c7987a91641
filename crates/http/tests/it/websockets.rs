//! WebSockets, by frames made by hand; the same over HTTP/1.1 and, by a bridge, over HTTP/2.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use marmota_http::websocket::Close;
use marmota_http::{
    Broadcast, Endpoint, Flow, Limits, Method, Next, Protocol, ProtocolStep, Request, Response,
    RouteChanges, Router, RunningServer, Status, Turn, WebSocketOptions,
};

use super::client::{Client, PATIENCE, bind, over_http2, serve, serve_with};

const HELLO: &str = "GET /echo HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A client's frame.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..=125 => bytes.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    let mask = [0x51, 0, 0xff, 0x0a];
    bytes.extend_from_slice(&mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// The next frame's first byte and payload.
fn next(client: &mut Client) -> (u8, Vec<u8>) {
    let head = client.bytes(2);
    let length = match head[1] {
        126 => u16::from_be_bytes(client.bytes(2).try_into().unwrap()).into(),
        127 => u64::from_be_bytes(client.bytes(8).try_into().unwrap()) as usize,
        short => short.into(),
    };
    (head[0], client.bytes(length))
}

fn open_with(server: &RunningServer, path: &str, more: &str) -> Client {
    let mut client = Client::new(server.local_addr());
    let request = HELLO.replace("/echo", path).replace("\r\n\r\n", &format!("\r\n{more}\r\n"));
    let answer = client.send(request).answer().unwrap();
    assert_eq!(answer.status, 101, "{answer:?}");
    assert_eq!(answer.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(answer.header("upgrade"), Some("websocket"));
    assert_eq!(answer.header("connection"), Some("Upgrade"));
    client
}

fn open(server: &RunningServer, path: &str) -> Client {
    open_with(server, path, "")
}

/// Expects a Close with this code and the end of the connection.
fn expect_close(client: &mut Client, code: u16) {
    let (first, payload) = next(client);
    assert_eq!((first, &payload[..2]), (0x88, &code.to_be_bytes()[..]), "{payload:?}");
    client.send(frame(0x88, &code.to_be_bytes()));
    assert!(client.is_closed());
}

fn router() -> Router {
    Router::new().websocket("/echo", |socket| async move {
        while let Some(message) = socket.receive().await {
            socket.send(message).await?;
        }
        Ok(())
    })
}

#[test]
fn messages_go_there_and_back() {
    let server = serve(router());
    let mut client = open(&server, "/echo");
    for length in [0, 1, 125, 126, 5_000, 70_000, 1 << 20] {
        let payload: Vec<u8> = (0..length).map(|at| at as u8).collect();
        client.send(frame(0x82, &payload));
        assert!(next(&mut client) == (0x82, payload), "{length}");
    }
    client.send(frame(0x01, b"Gr\xc3")).send(frame(0x89, b"still there?"));
    assert_eq!(next(&mut client), (0x8a, b"still there?".to_vec()));
    client.send(frame(0x80, b"\xbc\xc3\x9fe"));
    assert_eq!(next(&mut client), (0x81, "Grüße".as_bytes().to_vec()));
    // Many in one piece, and each in many.
    let many: Vec<u8> = (0..500).flat_map(|at: u32| frame(0x82, &at.to_be_bytes())).collect();
    client.send(&many);
    for at in 0..500_u32 {
        assert_eq!(next(&mut client), (0x82, at.to_be_bytes().to_vec()));
    }
    for byte in frame(0x81, b"slowly") {
        client.send([byte]);
    }
    assert_eq!(next(&mut client), (0x81, b"slowly".to_vec()));
    client.send(frame(0x88, b"\x03\xe8bye"));
    assert_eq!(next(&mut client), (0x88, b"\x03\xe8bye".to_vec()));
    assert!(client.is_closed());
}

#[test]
fn a_websocket_opens_inside_of_a_function() {
    let wrapped = router().wrap(|request: Request, next: Next| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut answer = next.run(request).await;
        answer.set_header("X-Seen", answer.status().code().to_string()).unwrap();
        answer
    });
    let server = serve(wrapped);
    let mut client = open(&server, "/echo");
    client.send(frame(0x81, b"there"));
    assert_eq!(next(&mut client), (0x81, b"there".to_vec()));
    client.send(frame(0x88, b"\x03\xe8bye"));
    assert_eq!(next(&mut client), (0x88, b"\x03\xe8bye".to_vec()));
}

#[test]
fn what_is_said_with_the_request_is_heard() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    client.send([HELLO.as_bytes(), &frame(0x81, b"at once")].concat());
    assert_eq!(client.answer().unwrap().status, 101);
    assert_eq!(next(&mut client), (0x81, b"at once".to_vec()));
}

#[test]
fn what_opens_no_websocket_is_told_why() {
    let server = serve(router());
    // Over HTTP/2 the upgrade has become a CONNECT, and there is no key.
    for (from, to, status, over_http2_status, header) in [
        ("websocket\r\nC", "h2c\r\nC", 426, 400, Some("upgrade")),
        ("Upgrade: websocket\r\n", "", 426, 400, Some("upgrade")),
        ("keep-alive, Upgrade", "keep-alive", 426, 101, Some("upgrade")),
        ("Version: 13", "Version: 8", 426, 426, Some("sec-websocket-version")),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZQ==", 400, 101, None),
        ("dGhlIHNhbXBsZSBub25jZQ==", "", 400, 101, None),
        ("HTTP/1.1", "HTTP/1.0", 400, 101, None),
        ("GET", "POST", 405, 405, None),
        ("/echo", "/other", 404, 404, None),
    ] {
        let request = HELLO.replace(from, to);
        let answer = Client::new(server.local_addr()).send(&request).answer().unwrap();
        assert_eq!(
            answer.status,
            if over_http2() { over_http2_status } else { status },
            "{request}"
        );
        let is_said = header.is_none_or(|name| answer.header(name).is_some());
        assert!(is_said || answer.status == 400, "{answer:?}");
    }
}

#[test]
fn what_cannot_be_understood_ends_it() {
    let server = serve(router());
    for (bytes, code) in [
        (frame(0x83, b"a"), 1002),
        (frame(0xc1, b"a"), 1002),
        (vec![0x81, 0x01, b'a'], 1002),
        (frame(0x81, b"\xc3\x28"), 1007),
        (frame(0x82, &vec![0; (1 << 20) + 1]), 1009),
        (frame(0x88, b"\x00\x01"), 1002),
    ] {
        let mut client = open(&server, "/echo");
        client.send(frame(0x81, b"before")).send(&bytes);
        assert_eq!(next(&mut client), (0x81, b"before".to_vec()));
        expect_close(&mut client, code);
    }
}

#[test]
fn the_handler_ends_it_and_learns_how_it_ended() {
    let ends: Arc<Mutex<Vec<Close>>> = Arc::default();
    let seen = Arc::clone(&ends);
    let router = Router::new()
        .websocket("/return", |_| async { Ok(()) })
        .websocket("/fail", |_| async { Err("as planned".into()) })
        .websocket("/panic", |_| async { panic!("as planned") })
        .websocket("/close", |socket| async move {
            socket.send("last words").await?;
            socket.close(4_321, "enough");
            assert!(socket.send("too late").await.is_err());
            Ok(())
        })
        .websocket("/wait", move |socket| {
            let seen = Arc::clone(&seen);
            async move {
                assert!(socket.receive().await.is_none());
                // What is still to be done when the client has gone.
                tokio::time::sleep(Duration::from_millis(50)).await;
                seen.lock().unwrap().push(socket.closed().unwrap());
                Ok(())
            }
        });
    let server = serve(router);
    expect_close(&mut open(&server, "/return"), 1000);
    expect_close(&mut open(&server, "/fail"), 1011);
    assert!(open(&server, "/panic").is_closed());
    let mut client = open(&server, "/close");
    assert_eq!(next(&mut client), (0x81, b"last words".to_vec()));
    expect_close(&mut client, 4_321);
    let mut client = open(&server, "/wait");
    client.send(frame(0x88, b""));
    assert_eq!(next(&mut client), (0x88, Vec::new()));
    assert!(client.is_closed());
    let client = open(&server, "/wait");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let begun = Instant::now();
    while ends.lock().unwrap().len() < 2 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    let codes: Vec<u16> = ends.lock().unwrap().iter().map(|close| close.code).collect();
    assert_eq!(codes, [1005, 1006]);
}

#[test]
fn a_server_that_ends_says_so() {
    let server = serve(router());
    let mut client = open(&server, "/echo");
    let ended = std::thread::spawn(move || server.shutdown());
    expect_close(&mut client, 1001);
    drop(client);
    ended.join().unwrap().unwrap();
}

#[test]
fn silent_clients_are_asked_and_then_dropped() {
    let router = Router::new().get("/echo", |request: Request| async move {
        let mut options = WebSocketOptions::default();
        (options.ping_after_ms, options.pong_timeout_ms) = (200, 400);
        Response::websocket(&request, &options, |socket| async move {
            while socket.receive().await.is_some() {}
            Ok(())
        })
    });
    // The sweep goes by the shortest of the limits.
    let server = serve_with(router, Limits { header_timeout_ms: 400, ..Limits::default() });
    let mut client = open(&server, "/echo");
    for _ in 0..4 {
        assert_eq!(next(&mut client), (0x89, Vec::new()));
        client.send(frame(0x8a, b""));
    }
    let begun = Instant::now();
    assert_eq!(next(&mut client), (0x89, Vec::new()));
    assert!(client.is_closed());
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

#[test]
fn options_are_kept_to() {
    let router = Router::new().get("/chat", |request: Request| async move {
        if request.query_param("user").is_none() {
            return Response::from_status(Status::UNAUTHORIZED);
        }
        let mut options = WebSocketOptions::default();
        options.message_bytes_max = 10;
        options.subprotocols = vec!["v2".to_owned(), "v1".to_owned()];
        options.origins = Some(vec!["https://example.org".to_owned()]);
        Response::websocket(&request, &options, |socket| async move {
            let subprotocol = socket.subprotocol().unwrap_or_default();
            socket.send(subprotocol).await?;
            while socket.receive().await.is_some() {}
            Ok(())
        })
    });
    let server = serve(router);
    let ask = |path: &str, more: &str| {
        let request = HELLO.replace("/echo", path).replace("\r\n\r\n", &format!("\r\n{more}\r\n"));
        let mut client = Client::new(server.local_addr());
        let answer = client.send(request).answer().unwrap();
        (client, answer)
    };
    assert_eq!(ask("/chat", "").1.status, 401);
    assert_eq!(ask("/chat?user=a", "Origin: https://evil.example\r\n").1.status, 403);
    let (mut client, answer) = ask(
        "/chat?user=a",
        "Origin: https://example.org\r\nSec-WebSocket-Protocol: v0, v1\r\nSec-WebSocket-Protocol: v2\r\n",
    );
    assert_eq!(answer.header("sec-websocket-protocol"), Some("v2"));
    assert_eq!(next(&mut client), (0x81, b"v2".to_vec()));
    client.send(frame(0x82, &[0; 11]));
    expect_close(&mut client, 1009);
}

fn room() -> (Broadcast, RunningServer) {
    let broadcast = Broadcast::new();
    let room = broadcast.clone();
    let router = Router::new().get("/room", move |request: Request| {
        let room = room.clone();
        async move {
            let mut options = WebSocketOptions::default();
            options.compression = true;
            Response::websocket(&request, &options, |socket| async move {
                socket.join(&room);
                while let Some(message) = socket.receive().await {
                    room.send(message);
                }
                Ok(())
            })
        }
    });
    (broadcast, serve(router))
}

fn wait_for_members(broadcast: &Broadcast, count: usize) {
    let begun = Instant::now();
    while broadcast.members() != count {
        assert!(begun.elapsed() < PATIENCE, "{broadcast:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_is_said_in_a_room_goes_to_all_in_it() {
    let (broadcast, server) = room();
    let mut clients: Vec<Client> = (0..50).map(|_| open(&server, "/room")).collect();
    wait_for_members(&broadcast, 50);
    clients[7].send(frame(0x81, b"hello all"));
    for client in &mut clients {
        assert_eq!(next(client), (0x81, b"hello all".to_vec()));
    }
    let large = vec![9; 100_000];
    for round in 0..20 {
        broadcast.send(format!("round {round}"));
        broadcast.send(large.clone());
    }
    for client in &mut clients {
        for round in 0..20 {
            assert_eq!(next(client), (0x81, format!("round {round}").into_bytes()));
            assert!(next(client) == (0x82, large.clone()));
        }
    }
    clients.truncate(10);
    wait_for_members(&broadcast, 10);
    broadcast.send("fewer");
    for client in &mut clients {
        assert_eq!(next(client), (0x81, b"fewer".to_vec()));
    }
}

#[test]
fn who_is_too_slow_for_a_room_leaves_it() {
    let (broadcast, server) = room();
    let mut slow = open(&server, "/room");
    let mut quick = open(&server, "/room");
    wait_for_members(&broadcast, 2);
    let large = vec![9; 1 << 20];
    let sent = 60;
    for _ in 0..sent {
        broadcast.send(large.clone());
        assert!(next(&mut quick) == (0x82, large.clone()));
    }
    let mut read = 0;
    loop {
        match next(&mut slow) {
            (0x82, _) => read += 1,
            (first, payload) => {
                assert_eq!((first, &payload[..2]), (0x88, &1008_u16.to_be_bytes()[..]));
                break;
            }
        }
    }
    assert!(read < sent);
    drop(slow);
    wait_for_members(&broadcast, 1);
    broadcast.send("on");
    assert_eq!(next(&mut quick), (0x81, b"on".to_vec()));
}

#[test]
fn neither_side_gets_far_ahead() {
    let router = Router::new()
        .websocket("/talk", |socket| async move {
            let mut said = 0_u32;
            loop {
                said += 1;
                socket.send(vec![said as u8; 10_000]).await?;
                assert!(said < 20_000, "nobody reads this");
            }
        })
        .websocket("/deaf", |socket| async move {
            std::future::pending::<()>().await;
            drop(socket);
            Ok(())
        });
    let server = serve(router);
    let mut client = open(&server, "/talk");
    std::thread::sleep(Duration::from_millis(300));
    for said in 1..2_000_u32 {
        assert!(next(&mut client) == (0x82, vec![said as u8; 10_000]));
    }
    let client = open(&server, "/deaf");
    client.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let (message, mut sent) = (frame(0x82, &[0; 10_000]), 0);
    let mut stream = &client.stream;
    while let Ok(count) = std::io::Write::write(&mut stream, &message[sent % message.len()..]) {
        sent += count;
        assert!(sent < 64 << 20, "the server takes whatever comes");
    }
}

#[cfg(feature = "compression")]
#[test]
fn messages_are_compressed_if_both_want_it() {
    use flate2::{Decompress, FlushDecompress};
    let inflate = |payload: &[u8]| {
        let mut text = Vec::with_capacity(10_000);
        Decompress::new(false)
            .decompress_vec(
                &[payload, &[0, 0, 0xff, 0xff]].concat(),
                &mut text,
                FlushDecompress::Sync,
            )
            .unwrap();
        String::from_utf8(text).unwrap()
    };
    let (broadcast, server) = room();
    let offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
    let mut coded = open_with(&server, "/room", offer);
    let mut plain = open(&server, "/room");
    wait_for_members(&broadcast, 2);
    let text = "again and ".repeat(100);
    broadcast.send(&*text);
    let (first, payload) = next(&mut coded);
    assert_eq!((first, inflate(&payload)), (0xc1, text.clone()));
    assert!(payload.len() < 100);
    assert_eq!(next(&mut plain), (0x81, text.clone().into_bytes()));
    // What came compressed is understood.
    coded.send(frame(0xc1, &payload));
    assert_eq!(next(&mut plain), (0x81, text.into_bytes()));
    let _ = next(&mut coded);
    coded.send(frame(0xc1, b"\xff\xff\xff"));
    expect_close(&mut coded, 1007);
}

/// Answers each line in capitals; `?` says how much has come before it, `!` is the end.
#[derive(Default)]
struct Lines {
    lines: usize,
}

impl Protocol for Lines {
    fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep {
        while let Some(length) = turn.input[turn.used..].iter().position(|&byte| byte == b'\n') {
            let line = turn.input[turn.used..turn.used + length].to_ascii_uppercase();
            turn.used += length + 1;
            self.lines += 1;
            match &line[..] {
                b"!" => return ProtocolStep::Close { linger: false },
                b"?" => turn.output.extend_from_slice(format!("{}", self.lines).as_bytes()),
                line => turn.output.extend_from_slice(line),
            }
        }
        if turn.ended || turn.is_draining() {
            return ProtocolStep::Close { linger: false };
        }
        ProtocolStep::Wait { hungry: true, deadline_ms: u64::MAX }
    }
}

/// So many bytes of a tunnel, in however many messages they come.
fn tunnelled(client: &mut Client, count: usize) -> Vec<u8> {
    let mut come = Vec::new();
    while come.len() < count {
        let (first, piece) = next(client);
        assert_eq!(first, 0x82);
        come.extend(piece);
    }
    come
}

fn tunnel() -> Router {
    let endpoint = Endpoint::direct(|request, out| {
        let mut options = WebSocketOptions::default();
        options.subprotocols = vec!["lines".to_owned()];
        options.message_bytes_max = 200_000;
        out.respond(Response::websocket_tunnel(request, &options, Lines::default()));
        Flow::Done
    });
    Router::new().on(Method::Get, "/lines", endpoint)
}

#[test]
fn another_protocol_travels_in_messages_that_end_anywhere() {
    let server = serve(tunnel());
    let mut client = open_with(&server, "/lines", "Sec-WebSocket-Protocol: x, lines\r\n");
    client.send(frame(0x82, b"one\ntw"));
    assert_eq!(next(&mut client), (0x82, b"ONE".to_vec()));
    client.send([frame(0x02, b"o\n"), frame(0x89, b"here"), frame(0x80, b"?\n")].concat());
    assert_eq!(next(&mut client), (0x8a, b"here".to_vec()));
    assert_eq!(tunnelled(&mut client, 4), b"TWO3");
    // A line of many messages, which come at once, and lines behind it.
    let pieces: Vec<Vec<u8>> = (0..20).map(|_| frame(0x82, &[b'x'; 10_000])).collect();
    client.send([pieces.concat(), frame(0x82, b"\n?\n")].concat());
    assert!(tunnelled(&mut client, 200_001) == [&[b'X'; 200_000][..], b"5"].concat());
    client.send(frame(0x82, b"!\n"));
    expect_close(&mut client, Close::NORMAL);
}

#[test]
fn a_tunnel_ends_with_its_client_and_its_server() {
    let server = serve(tunnel());
    let mut client = open(&server, "/lines");
    client.send([frame(0x82, b"last\n"), frame(0x88, &[3, 0xe8])].concat());
    assert_eq!(next(&mut client), (0x82, b"LAST".to_vec()));
    expect_close(&mut client, Close::NORMAL);
    for (wrong, code) in [(frame(0x81, b"text\n"), 1003), (frame(0x82, &[0; 200_001]), 1009)] {
        let mut client = open(&server, "/lines");
        client.send(wrong);
        expect_close(&mut client, code);
    }
    let mut client = open(&server, "/lines");
    let ended = std::thread::spawn(move || server.shutdown());
    expect_close(&mut client, Close::GOING_AWAY);
    ended.join().unwrap().unwrap();
}

#[test]
fn a_websocket_of_replaced_routes_ends_and_a_new_one_opens() {
    let changes = RouteChanges::new();
    let server = bind().listeners(1).route_changes(&changes).start(router()).unwrap();
    let mut client = open(&server, "/echo");
    client.send(frame(0x81, b"before"));
    assert_eq!(next(&mut client).1, b"before");
    let pause = changes.pause(PATIENCE).unwrap();
    assert_eq!(pause.requests_in_progress(), 0);
    expect_close(&mut client, Close::GOING_AWAY);
    pause.resume_with(router()).unwrap();
    let mut client = open(&server, "/echo");
    client.send(frame(0x81, b"after"));
    assert_eq!(next(&mut client).1, b"after");
}
