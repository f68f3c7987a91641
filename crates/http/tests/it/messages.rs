//! Messages as RFC 9110 and 9112 have them: bodies, pipelines, HEAD, continuation.

use std::time::Duration;

use marmota_http::{Body, Flow, Method, Request, Response, Router, Status};

use super::client::{Client, get, serve};

async fn echo(request: Request) -> Response {
    Response::with_body("application/octet-stream", request.body().to_vec())
}

fn router() -> Router {
    Router::new()
        .get("/", |_| async { "ok" })
        .post("/echo", echo)
        .get("/number/{n:int}", |request: Request| async move {
            request.param_int("n").unwrap_or(-1).to_string()
        })
        .get("/large/{n:int}", |request: Request| async move {
            let length = request.param_int_at(0).unwrap_or(0) as usize;
            Response::text("x".repeat(length))
        })
        .direct(Method::Get, "/direct/{n:int}", |request, out| {
            let length = request.param_int_at(0).unwrap_or(0) as usize;
            out.content_type("text/plain").body_mut().resize_with_x(length);
            Flow::Done
        })
        .get("/none", |_| async { Status::NO_CONTENT })
        .get("/same", |_| async { Response::text("body").with_status(Status::NOT_MODIFIED) })
        .direct(Method::Get, "/direct-none", |_, out| {
            out.status(Status::NO_CONTENT).body_mut().extend_from_slice(b"dropped");
            Flow::Done
        })
}

/// Appends without touching what lies before, as the contract of the buffer says.
trait Resize {
    fn resize_with_x(&mut self, length: usize);
}

impl Resize for Vec<u8> {
    fn resize_with_x(&mut self, length: usize) {
        let end = self.len() + length;
        self.resize(end, b'x');
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    let requests: String =
        (0..1000).map(|n| format!("GET /number/{n} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    client.send(requests);
    for n in 0..1000 {
        assert_eq!(client.answer().unwrap().text(), n.to_string());
    }
}

#[test]
fn bodies_of_every_size_go_both_ways() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    for length in [0, 1, 9, 10, 99, 100, 4_095, 4_097, 16_383, 16_384, 70_000, 1_999_999] {
        let body: Vec<u8> = (0..length).map(|n| n as u8).collect();
        client
            .send(format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"))
            .send(&body);
        let answer = client.answer().unwrap();
        assert!(answer.status == 200 && answer.body == body, "{length}: {}", answer.head);
        client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for chunk in body.chunks(40_000) {
            client.send(format!("{:x}\r\n", chunk.len())).send(chunk).send("\r\n");
        }
        let answer = client.send("0\r\n\r\n").answer().unwrap();
        assert!(answer.status == 200 && answer.body == body, "{length} chunked: {}", answer.head);
        for path in ["large", "direct"] {
            client.send(format!("GET /{path}/{length} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let answer = client.answer().unwrap();
            assert!(answer.body.len() == length && answer.body.iter().all(|&byte| byte == b'x'));
        }
    }
}

#[test]
fn head_has_the_length_and_no_body() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    for path in ["/", "/large/100", "/direct/100", "/large/100000", "/direct/100000", "/no"] {
        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let head = client.answer_to("HEAD").unwrap();
        let whole = get(server.local_addr(), path);
        assert_eq!(head.status, whole.status);
        assert_eq!(head.header("content-length").unwrap(), whole.body.len().to_string(), "{path}");
    }
    assert_eq!(client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer().unwrap().text(), "ok");
}

#[test]
fn statuses_without_body_have_none() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    for (path, status) in [("/none", 204), ("/same", 304), ("/direct-none", 204), ("/", 200)] {
        let answer =
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).answer().unwrap();
        assert_eq!(answer.status, status);
    }
}

#[test]
fn every_answer_says_who_and_when() {
    let server = serve(router());
    for path in ["/", "/no", "/direct/3"] {
        let answer = get(server.local_addr(), path);
        assert_eq!(answer.header("server"), Some("Marmota"));
        let date = answer.header("date").unwrap();
        assert!(date.ends_with(" GMT") && date.len() == 29, "{date}");
    }
}

#[test]
fn continue_is_said_when_the_body_is_wanted() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    client.send(
        "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    );
    assert_eq!(client.answer().unwrap().status, 100);
    assert_eq!(client.send("abc").answer().unwrap().text(), "abc");
    // A body that is there already needs no word.
    client.send(
        "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    );
    assert_eq!(client.answer().unwrap().status, 200);
}

#[test]
fn a_client_that_has_said_all_is_still_answered() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /number/7 HTTP/1.1\r\nHost: a\r\n\r\n");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.answer().unwrap().text(), "ok");
    assert_eq!(client.answer().unwrap().text(), "7");
    assert!(client.is_closed());
}

/// A client that sends and does not read fills its own pipe, not the server's memory.
#[test]
fn unread_answers_hold_the_requests_back() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    client.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut writer = client.stream.try_clone().unwrap();
    let request =
        format!("GET /large/60000 HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(10_000));
    let mut sent = 0;
    while sent < 1 << 26 {
        match std::io::Write::write(&mut writer, &request.as_bytes()[sent % request.len()..]) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    assert!(sent < 1 << 26, "the server took everything");
    for _ in 0..sent / request.len() {
        assert_eq!(client.answer().unwrap().body.len(), 60_000);
    }
}

#[test]
fn bodies_are_made_of_what_there_is() {
    assert_eq!(Body::from("a").as_bytes(), b"a");
    assert_eq!(Body::from(vec![1, 2]).len(), 2);
    assert!(Body::empty().is_empty());
}
