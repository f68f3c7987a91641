//! Functions that wrap handlers: what they see and change, and what passes them unchanged.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use marmota_http::{
    AddedHeaders, BodyError, BodyStream, Compression, Cors, Endpoint, Event, Flow, Layer, Method,
    Next, Request, Response, Router, RunningServer, Status,
};

use super::client::{Answer, Client, PATIENCE, get, serve};
use super::handlers::{Signal, yield_once};

fn with(server: &RunningServer, method: &str, path: &str, more: &str) -> Answer {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    Client::new(server.local_addr()).send(request).answer_to(method).unwrap()
}

/// Every way in which a handler may answer.
fn ways() -> Router {
    let sum = |request: Request| async move {
        let (mut reader, mut piece, mut sum) = (request.reader(), Vec::new(), 0_u64);
        while reader.read(&mut piece).await? > 0 {
            sum += piece.drain(..).map(u64::from).sum::<u64>();
        }
        Ok::<_, BodyError>(sum.to_string())
    };
    Router::new()
        .get("/ready", |_| async { Response::text("ready").with_header("X-Own", "1") })
        .get("/later", |_| async {
            Signal::after(Duration::from_millis(5)).await;
            Response::text("later").with_header("X-Own", "1")
        })
        .direct(Method::Get, "/direct", |_, out| {
            let _ = out.header("X-Own", "1");
            out.content_type("text/plain").body_mut().extend_from_slice(b"direct");
            Flow::Done
        })
        .direct(Method::Get, "/direct-later", |_, _| {
            Flow::Later(Box::pin(async {
                yield_once().await;
                let answer = Response::text("direct-later").with_header("X-Own", "1");
                answer.unwrap_or_else(|_| Response::from_status(Status::CONFLICT))
            }))
        })
        .direct(Method::Get, "/value-reset", |_, out| {
            out.respond(Response::text("first"));
            out.reset();
            let _ = out.header("X-Own", "1");
            out.send("text/plain", b"value-reset");
            Flow::Done
        })
        .get("/large", |_| async {
            Response::text("large".repeat(10_000)).with_header("X-Own", "1")
        })
        .direct(Method::Get, "/stream", |_, out| {
            let _ = out.header("X-Own", "1");
            out.content_type("text/plain").stream(BodyStream::new(|out: &mut Vec<u8>| {
                out.extend_from_slice(b"stream");
                Ok(ControlFlow::Break(()))
            }));
            Flow::Done
        })
        .get("/events", |_| async {
            Response::events(|mut events| async move {
                for number in 0..3 {
                    events.send(&Event::new(number.to_string())).await?;
                    yield_once().await;
                }
                Ok(())
            })
        })
        .direct(Method::Get, "/none", |_, out| {
            out.status(Status::NO_CONTENT);
            Flow::Done
        })
        .post("/post", |request: Request| async move { request.body().len().to_string() })
        .on(Method::Post, "/sum", Endpoint::future(sum).streamed(1 << 20))
}

/// Waits before and after the handler, and marks the answer.
async fn mark(request: Request, next: Next) -> Response {
    yield_once().await;
    let mut answer = next.run(request).await;
    Signal::after(Duration::from_millis(1)).await;
    let seen = format!("{} {}", answer.status().code(), answer.body().len());
    answer.set_header("X-Seen", seen).unwrap();
    answer
}

/// Waits for nothing.
async fn quick(request: Request, next: Next) -> Response {
    let mut answer = next.run(request).await;
    let order = answer
        .header("x-order")
        .map_or(String::new(), |order| String::from_utf8_lossy(order).into_owned() + ",");
    answer.set_header("X-Order", order + "quick").unwrap();
    answer
}

#[test]
fn every_answer_is_seen_and_is_sent_as_it_was() {
    let plain = serve(ways());
    let wrapped = serve(ways().wrap(quick).wrap(mark).wrap(quick));
    for (path, seen) in [
        ("/ready", "200 5"),
        ("/later", "200 5"),
        ("/direct", "200 6"),
        ("/direct-later", "200 12"),
        ("/value-reset", "200 11"),
        ("/large", "200 50000"),
        ("/stream", "200 0"),
        ("/events", "200 0"),
        ("/none", "204 0"),
    ] {
        for method in ["GET", "HEAD"] {
            let expected = with(&plain, method, path, "");
            let answer = with(&wrapped, method, path, "");
            assert_eq!((answer.status, &answer.body), (expected.status, &expected.body), "{path}");
            assert_eq!(answer.header("x-seen"), Some(seen), "{method} {path}");
            assert_eq!(answer.header("x-order"), Some("quick,quick"), "the inner one is first");
            let own = |answer: &Answer| {
                let lines = answer.head.lines().map(str::to_ascii_lowercase);
                let is_own = |line: &String| {
                    !["date:", "x-seen:", "x-order:"].iter().any(|name| line.starts_with(name))
                };
                let mut lines: Vec<String> = lines.filter(is_own).collect();
                lines.sort();
                lines
            };
            assert_eq!(own(&answer), own(&expected), "{method} {path}");
            assert_eq!(answer.head.matches("Date: ").count(), 1);
        }
    }
    for path in ["/post", "/sum"] {
        let expected = with(&plain, "POST", path, "Content-Length: 3\r\n\r\nabc");
        let answer = with(&wrapped, "POST", path, "Content-Length: 3\r\n\r\nabc");
        assert_eq!((answer.status, answer.text()), (200, expected.text()));
    }
    assert_eq!(get(wrapped.local_addr(), "/missing").header("x-seen"), None);
}

#[test]
fn answers_on_one_connection_keep_their_order() {
    let server = serve(ways().wrap(mark).get("/free", |_| async { "free" }));
    let paths = ["/free", "/later", "/free", "/ready", "/direct", "/free"];
    let requests: String =
        paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    let mut client = Client::new(server.local_addr());
    client.send(requests);
    for path in paths {
        assert_eq!(client.answer().unwrap().text(), &path[1..]);
    }
}

#[test]
fn status_headers_and_body_can_be_changed() {
    async fn change(request: Request, next: Next) -> Response {
        let mut answer = next.run(request).await;
        answer.remove_header("X-Own");
        let text = String::from_utf8_lossy(answer.body().as_bytes()).to_uppercase();
        answer.with_status(Status::ACCEPTED).with_whole_body(text)
    }
    let server = serve(ways().wrap(change).layer(Compression::new().bytes_min(100)));
    for path in ["/ready", "/later", "/direct"] {
        let answer = get(server.local_addr(), path);
        assert_eq!((answer.status, answer.text()), (202, &*path[1..].to_uppercase()));
        assert_eq!(answer.header("x-own"), None);
    }
    let answer = with(&server, "GET", "/large", "Accept-Encoding: gzip\r\n");
    let coding = cfg!(feature = "compression").then_some("gzip");
    assert_eq!(answer.header("content-encoding"), coding, "{answer:?}");
}

#[test]
fn a_function_answers_by_itself() {
    let called = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&called);
    let closed = |request: Request, next: Next| async move {
        match request.query() {
            "open" => next.run(request).await,
            _ => Response::problem(Status::SERVICE_UNAVAILABLE, "closed until Monday"),
        }
    };
    let router = Router::new()
        .get("/", move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            async { "in" }
        })
        .fallback(Endpoint::future(|_| async { "other" }))
        .wrap(closed);
    let server = serve(router);
    assert_eq!(get(server.local_addr(), "/").status, 503);
    assert_eq!(get(server.local_addr(), "/else").status, 503, "the fallback is wrapped too");
    assert_eq!(called.load(Ordering::SeqCst), 0);
    assert_eq!(get(server.local_addr(), "/?open").text(), "in");
}

#[test]
fn values_of_several_types_reach_the_handler() {
    struct User(String);
    struct Level(u8);
    async fn identify(request: Request, next: Next) -> Response {
        yield_once().await;
        let name = request.header_text("x-user").unwrap_or("guest").to_owned();
        assert!(request.set_extension(User(name)).is_ok());
        assert!(request.set_extension(Level(3)).is_ok());
        assert!(request.set_extension(Level(4)).is_err(), "one of each type");
        next.run(request).await
    }
    let show = |request: Request| async move {
        let user = request.extension::<User>().map_or("none", |user| &user.0);
        format!("{user} {}", request.extension::<Level>().map_or(0, |level| level.0))
    };
    let server = serve(Router::new().get("/", show).post("/", show).wrap(identify));
    assert_eq!(with(&server, "GET", "/", "X-User: ann\r\n").text(), "ann 3");
    let posted = with(&server, "POST", "/", "X-User: bob\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(posted.text(), "bob 3");
    assert_eq!(get(server.local_addr(), "/").text(), "guest 3", "of an earlier request nothing");
}

/// Notes its name and path.
struct Note(&'static str, Arc<Mutex<Vec<String>>>);

impl Layer for Note {
    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
        let _ = headers.add("X-Note", self.0);
        self.1.lock().unwrap().push(self.0.to_owned());
        match request.query() {
            query if query == self.0 => ControlFlow::Break(Response::text("stopped")),
            _ => ControlFlow::Continue(()),
        }
    }
}

#[test]
fn layers_decide_first_with_and_without_a_body() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let noting = |name: &'static str| {
        let log = Arc::clone(&log);
        move |request: Request, next: Next| {
            log.lock().unwrap().push(name.to_owned());
            next.run(request)
        }
    };
    let router = ways()
        .layer(Note("inner layer", Arc::clone(&log)))
        .wrap(noting("inner"))
        .layer(Note("outer layer", Arc::clone(&log)))
        .wrap(noting("outer"))
        .layer(Cors::any());
    let server = serve(router);
    for (method, path, more) in [
        ("GET", "/ready", ""),
        ("GET", "/later", ""),
        ("GET", "/direct", ""),
        ("POST", "/post", "Content-Length: 1\r\n\r\na"),
        ("POST", "/sum", "Content-Length: 1\r\n\r\na"),
    ] {
        let answer = with(&server, method, path, more);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.head.matches("X-Note: ").count(), 2, "{answer:?}");
        let order = std::mem::take(&mut *log.lock().unwrap());
        assert_eq!(order, ["outer layer", "inner layer", "outer", "inner"], "{path}");
    }
    assert_eq!(get(server.local_addr(), "/ready?inner%20layer").text(), "ready");
    let preflight = "Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n";
    let answer = with(&server, "OPTIONS", "/ready", preflight);
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, Some("*")));
}

#[test]
fn panics_and_late_answers_are_answered() {
    async fn fail(request: Request, next: Next) -> Response {
        if request.query() == "before" {
            panic!("as asked");
        }
        let answer = next.run(request.clone()).await;
        if request.query() == "after" {
            panic!("as asked");
        }
        answer
    }
    let never = |_: Request| async {
        std::future::pending::<()>().await;
        "never"
    };
    let router = ways()
        .get("/panic", |_| async { if true { panic!("as asked") } else { "" } })
        .get("/panic-later", |_| async {
            yield_once().await;
            if true { panic!("as asked") } else { "" }
        })
        .direct(Method::Get, "/cut", |_, out| {
            out.body_mut().clear();
            Flow::Done
        })
        .on(Method::Get, "/never", Endpoint::future(never).timeout_ms(50))
        .wrap(fail)
        .wrap(mark);
    let server = serve(router);
    for path in ["/panic", "/panic-later", "/ready?before", "/later?before", "/later?after", "/cut"]
    {
        assert_eq!(get(server.local_addr(), path).status, 500, "{path}");
    }
    assert_eq!(get(server.local_addr(), "/never").status, 503);
    assert_eq!(get(server.local_addr(), "/later").text(), "later", "the server continues");
}

#[test]
fn a_client_that_leaves_ends_both_functions() {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (begun, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (reached, of_handler, of_function) =
        (Arc::clone(&begun), Arc::clone(&ended), Arc::clone(&ended));
    let router = Router::new()
        .get("/", move |_| {
            let guard = Guard(Arc::clone(&of_handler));
            reached.store(true, Ordering::SeqCst);
            async move {
                std::future::pending::<()>().await;
                drop(guard);
                "never"
            }
        })
        .wrap(move |request, next: Next| {
            let guard = Guard(Arc::clone(&of_function));
            async move {
                let answer = next.run(request).await;
                drop(guard);
                answer
            }
        });
    let server = serve(router);
    let wait = |what: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !what() {
            assert!(start.elapsed() < PATIENCE, "the future was kept");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let mut client = Client::new(server.local_addr());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait(&|| begun.load(Ordering::SeqCst));
    // A linger of zero makes the close a reset, as of a client that has vanished.
    rustix::net::sockopt::set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap();
    drop(client);
    wait(&|| ended.load(Ordering::SeqCst) == 2);
}
