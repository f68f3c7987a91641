//! A client's WebSocket with a server of another implementation.

use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use marmota_rpc::{Connection, packet};
use tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tungstenite::http::HeaderValue;
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::{Error, Message, WebSocket};

use crate::{WITHIN, echo_at};

/// Starts a server for one connection, and connects to it.
fn connected(
    serve: impl FnOnce(WebSocket<TcpStream>) + Send + 'static,
) -> (Connection, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/api", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        serve(tungstenite::accept_hdr(stream, accepted).unwrap());
    });
    (echo_at(&url).connect(&[], WITHIN).unwrap(), server)
}

#[expect(clippy::result_large_err, reason = "the signature is tungstenite's")]
fn accepted(request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    assert_eq!(request.uri().path(), "/api/-/echo");
    let headers = response.headers_mut();
    headers.insert("Sec-WebSocket-Protocol", HeaderValue::from_static("echo"));
    Ok(response)
}

fn received(connection: &mut Connection) -> Vec<u8> {
    connection.wait_for(WITHIN, |packet| Some(packet.body.to_vec())).unwrap()
}

#[test]
fn fragments_pings_and_the_close_are_understood_by_both() {
    let (mut connection, server) = connected(|mut socket| {
        let mut bytes = Vec::new();
        packet::put(&mut bytes, b"from the server");
        let (first, last) = bytes.split_at(11);
        let (binary, rest) = (OpCode::Data(Data::Binary), OpCode::Data(Data::Continue));
        let part = |part: &[u8], opcode, is_last| {
            Message::Frame(Frame::message(part.to_vec(), opcode, is_last))
        };
        socket.send(part(first, binary, false)).unwrap();
        socket.send(Message::Ping(b"alive?".as_slice().into())).unwrap();
        socket.send(part(last, rest, true)).unwrap();
        assert_eq!(socket.read().unwrap(), Message::Pong(b"alive?".as_slice().into()));
        let Message::Binary(bytes) = socket.read().unwrap() else { panic!("not binary") };
        assert_eq!(packet::first(&bytes, 100).unwrap().unwrap().body, b"from the client");
        socket.close(None).unwrap();
        let ended = loop {
            if let Err(error) = socket.read() {
                break error;
            }
        };
        assert!(matches!(ended, Error::ConnectionClosed), "{ended}");
    });
    assert_eq!(received(&mut connection), b"from the server");
    connection.queue(b"from the client").unwrap();
    assert!(connection.wait_for(WITHIN, |_| Some(())).is_err());
    server.join().unwrap();
}

#[test]
fn packets_larger_than_buffers_are_echoed() {
    let (mut connection, server) = connected(|mut socket| {
        while let Ok(message) = socket.read() {
            if message.is_binary() {
                socket.send(message).unwrap();
            }
        }
    });
    let body: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    for length in [0, 1, 125, 126, 65_535, 65_536, 300_000, body.len()] {
        connection.queue(&body[..length]).unwrap();
        assert!(received(&mut connection) == body[..length], "{length}");
    }
    drop(connection);
    server.join().unwrap();
}

#[test]
fn a_masked_frame_of_a_server_ends_the_connection() {
    use std::io::Write;

    let (mut connection, server) = connected(|mut socket| {
        let stream = socket.get_mut();
        stream.write_all(&[0x82, 0x81, 1, 2, 3, 4, 5]).unwrap();
        let Ok(Message::Close(Some(close))) = socket.read() else { panic!("not closed") };
        assert_eq!(u16::from(close.code), 1002);
    });
    let error = connection.wait_for(WITHIN, |_| Some(())).unwrap_err();
    assert!(error.to_string().contains("masked"), "{error:?}");
    server.join().unwrap();
}
