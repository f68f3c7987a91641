//! A way from a plain socket, on which HTTP/1.1 is spoken, to a server of HTTP/2, so that the tests
//! of WebSockets run over HTTP/2 as they are: an upgrade becomes an extended CONNECT (RFC 8441),
//! and what one side ends or resets, the other side sees ended or reset.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// What the key of the tests is answered with.
const ACCEPTED: &str = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

/// The plain side of a bridge for one connection to this server.
pub(crate) fn open(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        near.set_nodelay(true).unwrap();
        // Little may wait in between: tests measure how much a slow client is sent.
        rustix::net::sockopt::set_socket_recv_buffer_size(&near, 64 * 1024).unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&near, 64 * 1024).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let near = TcpStream::from_std(near).unwrap();
            carry(near, server).await;
        });
    });
    address
}

/// A client of HTTP/2 that knows that the server opens WebSockets.
pub(crate) async fn connect(server: SocketAddr) -> SendRequest<Bytes> {
    connect_with(server, &h2::client::Builder::new()).await
}

pub(crate) async fn connect_with(
    server: SocketAddr,
    builder: &h2::client::Builder,
) -> SendRequest<Bytes> {
    let far = TcpStream::connect(server).await.unwrap();
    far.set_nodelay(true).unwrap();
    let (client, connection) = builder.handshake(far).await.unwrap();
    tokio::task::spawn_local(connection);
    let client = client.ready().await.unwrap();
    while !client.is_extended_connect_protocol_enabled() {
        // The server's settings are on their way.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    client
}

async fn carry(mut near: TcpStream, server: SocketAddr) {
    let mut come = Vec::new();
    let head_end = loop {
        if let Some(at) = come.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if !matches!(near.read_buf(&mut come).await, Ok(1..)) {
            return;
        }
    };
    let (request, opens) = translate(&come[..head_end]);
    let mut client = connect(server).await;
    let Ok((response, sender)) = client.send_request(request, !opens) else { return };
    let Ok(response) = response.await else { return reset(&near) };
    let (head, mut body) = response.into_parts();
    let opened = opens && head.status == 200;
    let mut answer = match opened {
        true => "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n".to_owned(),
        false => format!("HTTP/1.1 {} x\r\n", head.status.as_u16()),
    };
    if opened {
        answer.push_str(ACCEPTED);
    }
    for (name, value) in &head.headers {
        answer.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    answer.push_str("\r\n");
    if near.write_all(answer.as_bytes()).await.is_err() {
        return;
    }
    if !opened {
        while let Some(Ok(piece)) = body.data().await {
            let _ = body.flow_control().release_capacity(piece.len());
            let _ = near.write_all(&piece).await;
        }
        return;
    }
    let (reader, writer) = near.into_split();
    let up = tokio::task::spawn_local(send(reader, sender, Bytes::from(come).slice(head_end..)));
    if receive(body, writer).await {
        let _ = up.await;
    } else {
        up.abort();
    }
}

/// The request that is wanted, and whether it opens a WebSocket.
fn translate(head: &[u8]) -> (http::Request<()>, bool) {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(head).unwrap();
    let upgrades = request
        .headers
        .iter()
        .any(|header| header.name.eq_ignore_ascii_case("upgrade") && header.value == b"websocket");
    let opens = upgrades && request.method == Some("GET");
    let method = if opens { "CONNECT" } else { request.method.unwrap() };
    let uri = format!("http://localhost{}", request.path.unwrap());
    let mut builder = http::Request::builder().method(method).uri(uri);
    for header in request.headers.iter() {
        let own = ["host", "upgrade", "connection", "sec-websocket-key"];
        if !own.iter().any(|name| header.name.eq_ignore_ascii_case(name)) {
            builder = builder.header(header.name, header.value);
        }
    }
    if opens {
        builder = builder.extension(Protocol::from_static("websocket"));
    }
    (builder.body(()).unwrap(), opens)
}

/// From the plain side to the server.
async fn send(mut near: OwnedReadHalf, mut sender: SendStream<Bytes>, first: Bytes) {
    let mut piece = first;
    loop {
        while !piece.is_empty() {
            sender.reserve_capacity(piece.len());
            let room = std::future::poll_fn(|context| sender.poll_capacity(context)).await;
            let Some(Ok(room)) = room else { return };
            if sender.send_data(piece.split_to(room.min(piece.len())), false).is_err() {
                return;
            }
        }
        let mut come = Vec::with_capacity(16 * 1024);
        match near.read_buf(&mut come).await {
            Ok(0) => {
                let _ = sender.send_data(Bytes::new(), true);
                return;
            }
            Ok(_) => piece = Bytes::from(come),
            Err(_) => return sender.send_reset(Reason::CANCEL),
        }
    }
}

/// From the server to the plain side; false if it was not ended but reset.
async fn receive(mut body: RecvStream, mut near: OwnedWriteHalf) -> bool {
    while let Some(piece) = body.data().await {
        let Ok(piece) = piece else {
            reset(near.as_ref());
            return false;
        };
        if near.write_all(&piece).await.is_err() {
            return true;
        }
        let _ = body.flow_control().release_capacity(piece.len());
    }
    let _ = near.shutdown().await;
    true
}

/// Has the end of a connection be a reset.
fn reset(near: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(near, Some(Duration::ZERO));
}
