//! Bodies that are gathered: what decides on a request before its body is read, and the budgets
//! for what the server holds of them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use marmota_http::{
    AddedHeaders, Admission, Endpoint, Layer, Limits, Method, Request, Response, Router, Status,
};

use super::client::{Client, PATIENCE, serve, serve_with};

struct Caller(String);

/// Refuses requests without a key: at once, or later where they say so.
fn authenticate(request: &Request) -> Admission {
    assert!(request.body().is_empty(), "the body has come already");
    let key = request.header_text("x-key").map(str::to_owned);
    let refused = || Response::problem(Status::UNAUTHORIZED, "a key is needed");
    if request.header("x-later").is_none() {
        return match key {
            Some(key) => {
                assert!(request.set_extension(Caller(key)).is_ok());
                Admission::Granted
            }
            None => Admission::Refused(refused()),
        };
    }
    let request = request.clone();
    Admission::Later(Box::pin(async move {
        tokio::time::sleep(Duration::from_millis(30)).await;
        let key = key.ok_or_else(refused)?;
        assert!(request.set_extension(Caller(key)).is_ok());
        Ok(())
    }))
}

/// Counts what it sees.
struct Count(Arc<AtomicUsize>);

impl Layer for Count {
    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
        self.0.fetch_add(1, Ordering::SeqCst);
        headers.add("X-Counted", "1").unwrap();
        match request.header("x-stop") {
            Some(_) => ControlFlow::Break(Response::problem(Status::FORBIDDEN, "stopped")),
            None => ControlFlow::Continue(()),
        }
    }
}

fn router(count: &Arc<AtomicUsize>) -> Router {
    let store = |request: Request| async move {
        let caller = request.extension::<Caller>().map_or("", |caller| &caller.0);
        format!("{} bytes of {caller}", request.body().len())
    };
    let later = |request: Request| async move {
        tokio::time::sleep(Duration::from_millis(10)).await;
        request.body().len().to_string()
    };
    let endpoint = Endpoint::future(store).before_body(authenticate).body_bytes_max(1 << 20);
    Router::new()
        .on(Method::Post, "/store", endpoint)
        .post("/later", later)
        .layer(Count(Arc::clone(count)))
}

#[test]
fn a_request_is_decided_on_before_its_body_is_read() {
    let count = Arc::new(AtomicUsize::new(0));
    let server = serve(router(&count));
    for later in ["", "X-Later: 1\r\n"] {
        // The body does not come until the answer has: a server that waited for it would time out.
        let head = format!("POST /store HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n{later}");
        let mut client = Client::new(server.local_addr());
        let answer = client.send(format!("{head}\r\n")).answer().unwrap();
        assert_eq!((answer.status, answer.header("connection")), (401, Some("close")));
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.header("x-counted"), Some("1"), "{answer:?}");
        assert!(client.is_closed());

        let mut client = Client::new(server.local_addr());
        let expecting = format!("{head}Expect: 100-continue\r\n\r\n");
        assert_eq!(client.send(expecting).answer().unwrap().status, 401);

        // A body that has come already does not end the connection, and is no request.
        let mut client = Client::new(server.local_addr());
        let small =
            format!("POST /store HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n{later}\r\nGET /");
        assert_eq!(client.send(small).answer().unwrap().status, 401);
        let mut body = vec![b'x'; 1_000_000];
        body.splice(0..0, format!("{head}X-Key: ann\r\n\r\n").into_bytes());
        let answer = client.send(&body).answer().unwrap();
        assert_eq!(answer.text(), "1000000 bytes of ann");
        assert_eq!(answer.header("x-counted"), Some("1"));
        let chunked = format!(
            "POST /store HTTP/1.1\r\nHost: a\r\n{later}X-Key: bo\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        client.send(chunked);
        std::thread::sleep(Duration::from_millis(50));
        let answer = client.send("3\r\nabc\r\n0\r\n\r\n").answer().unwrap();
        assert_eq!(answer.text(), "3 bytes of bo");
    }
}

#[test]
fn a_layer_sees_each_request_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let server = serve(router(&count));
    let mut client = Client::new(server.local_addr());
    for (path, body, seen) in [("/later", "abc", 1), ("/later", "", 2), ("/later", "abcd", 3)] {
        let length = body.len();
        let text =
            format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}");
        let answer = client.send(text).answer().unwrap();
        assert_eq!(answer.text(), length.to_string());
        assert_eq!(answer.head.matches("X-Counted: 1\r\n").count(), 1, "{answer:?}");
        assert_eq!(count.load(Ordering::SeqCst), seen);
    }
    let head = "POST /later HTTP/1.1\r\nHost: a\r\nX-Stop: 1\r\nContent-Length: 9\r\n\r\n";
    assert_eq!(client.send(head).answer().unwrap().status, 403);
    assert!(client.is_closed());
}

#[test]
fn bodies_of_all_connections_have_one_budget() {
    // Those that rest are not to be given up meanwhile.
    let limits =
        Limits { held_body_bytes_max: 3_000_000, body_timeout_ms: 600_000, ..Limits::default() };
    let server = serve_with(router(&Arc::default()), limits);
    let head = "POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    let send = |bytes: usize| {
        let mut client = Client::new(server.local_addr());
        client.send(head).send(vec![b'x'; bytes]);
        client
    };
    let mut held: Vec<Client> = (0..3).map(|_| send(990_000)).collect();
    // What was sent above may not have come yet.
    let begun = Instant::now();
    let refused = loop {
        let answer = send(1_000_000).answer().unwrap();
        if answer.status != 200 {
            break answer;
        }
        assert!(begun.elapsed() < PATIENCE, "the budget is never used up");
        // One that was held may have been refused in this one's place.
        held.push(send(990_000));
    };
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(refused.text().contains("request bodies"), "{}", refused.text());
    // Small ones need nothing of it.
    let small = "POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab";
    assert_eq!(Client::new(server.local_addr()).send(small).answer().unwrap().text(), "2");
    for client in &mut held {
        let answer = client.send(vec![b'x'; 10_000]).answer().unwrap();
        assert!(answer.status == 503 || answer.text() == "1000000", "{answer:?}");
    }
    drop(held);
    let begun = Instant::now();
    while send(1_000_000).answer().unwrap().status != 200 {
        assert!(begun.elapsed() < PATIENCE, "the budget is never given back");
    }
}

#[test]
fn a_body_that_rests_is_given_up_however_much_of_it_has_come() {
    let limits = Limits { body_timeout_ms: 300, ..Limits::default() };
    let server = serve_with(router(&Arc::default()), limits);
    let mut client = Client::new(server.local_addr());
    client.send("POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    // By the rate alone that would be good for 976 seconds.
    let answer = client.send(vec![b'x'; 999_999]).answer().unwrap();
    assert_eq!(answer.status, 408);
}
