//! A caller who may not write is refused before the body is read.

use std::net::SocketAddr;
use std::time::Duration;

use marmota_auth::Settings;
use marmota_memory::Memory;
use marmota_store::rights::{Grant, Right};

use crate::auth::Guarded;
use crate::client::Client;
use crate::slow::slow;

/// Everyone with an account reads notes and inserts them, and changes none.
fn readers() -> Settings {
    let rights = [Right::Read, Right::Insert];
    Settings::default().everyone([Grant::new("note", &rights)])
}

/// The status of a request whose body is announced and never sent.
fn over_http1(address: SocketAddr, request: &str, headers: &[&str]) -> u16 {
    let mut client = Client::new(address);
    let headers = headers.join("\r\n");
    client.write(
        format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\nContent-Length: 2000000\r\n\r\n"
        )
        .as_bytes(),
    );
    client.answer(request).status
}

fn over_http2(address: SocketAddr, request: &str, headers: &[&str]) -> u16 {
    let (method, path) = request.split_once(' ').unwrap();
    let mut head = http::Request::builder()
        .method(method)
        .uri(format!("http://localhost:{}{path}", address.port()))
        .header("content-length", "2000000");
    for (name, value) in headers.iter().map(|header| header.split_once(": ").unwrap()) {
        head = head.header(name, value);
    }
    let head = head.body(()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let (answer, _body) = client.send_request(head, false).unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(20), answer).await;
        answer.expect("an answer before the body").unwrap().status().as_u16()
    })
}

#[test]
fn callers_without_rights_are_refused_before_their_body_is_read() {
    for engine in ["memory", "slow memory"] {
        let service = match engine {
            "memory" => Guarded::new(Memory::new(), readers()),
            _ => Guarded::new(slow(Memory::new()), readers()),
        };
        let (_, token) = service.user("ann");
        let bearer = format!("Authorization: Bearer {token}");
        let address = service.address();
        for send in [over_http1, over_http2] {
            for (request, headers, status) in [
                ("POST /api/note", &[][..], 401),
                ("POST /api/batch", &[][..], 401),
                ("POST /api/note", &["Authorization: Bearer ms_unknown"][..], 401),
                ("POST /api/nothing", &[&*bearer][..], 404),
                ("PATCH /api/note/1", &[&*bearer][..], 403),
                ("PUT /api/note/1/text", &[&*bearer, "Origin: https://evil.example"][..], 403),
                ("POST /api/note/1/owner/increment", &[&*bearer][..], 403),
            ] {
                assert_eq!(send(address, request, headers), status, "{engine}: {request}");
            }
        }
        // Who may insert is read to the end.
        let mut client = service.client();
        let body = format!(r#"{{"owner":1,"text":"{}"}}"#, "x".repeat(100));
        crate::auth::by(&mut client, &token, "POST /api/note", &body).is(201);
    }
}
