//! What stands around handlers: layers, time limits, panics; and what watches them: metrics, logs,
//! health.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use marmota_http::{
    AccessLog, AddedHeaders, BodyStream, Cors, Endpoint, Flow, Layer, Limits, Method, Metrics,
    RateLimit, Request, RequestId, Response, Router, RunningServer, SecurityHeaders, Status,
};

use super::client::{Answer, Client, PATIENCE, bind, get, serve, serve_with};

fn with(server: &RunningServer, method: &str, path: &str, more: &str) -> Answer {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    Client::new(server.local_addr()).send(request).answer_to(method).unwrap()
}

/// Every way in which a handler may answer.
fn ways() -> Router {
    Router::new()
        .get("/ready", |_| async { "ready" })
        .get("/later", |_| async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Response::text("later").with_header("X-Own", "1")
        })
        .direct(Method::Get, "/direct", |_, out| {
            out.content_type("text/plain").body_mut().extend_from_slice(b"direct");
            Flow::Done
        })
        .direct(Method::Get, "/again", |_, out| {
            out.send("text/plain", b"first");
            out.status(Status::CONFLICT).send("text/plain", b"again");
            Flow::Done
        })
        .get("/stream", |_| async {
            Response::streamed(
                "text/plain",
                BodyStream::write(|mut out| async move {
                    out.send("stream").await?;
                    Ok(())
                }),
            )
        })
        .post("/post", |request: Request| async move { request.body().len().to_string() })
}

struct Note(&'static str);

impl Layer for Note {
    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
        headers.add("X-Note", self.0).unwrap();
        assert!(headers.add("Content-Length", "1").is_err() && headers.add("A", "\r\n").is_err());
        match request.query() {
            query if query == self.0 => ControlFlow::Break(Response::text("stopped")),
            _ => ControlFlow::Continue(()),
        }
    }
}

#[test]
fn layers_see_every_answer_from_the_outside_in() {
    let router =
        ways().layer(Note("inner")).layer(Note("outer")).get("/free", |_| async { "free" });
    let server = serve(router);
    for (path, status, text) in [
        ("/ready", 200, "ready"),
        ("/later", 200, "later"),
        ("/direct", 200, "direct"),
        ("/again", 409, "again"),
        ("/stream", 200, "stream"),
    ] {
        let answer = get(server.local_addr(), path);
        assert_eq!((answer.status, answer.text()), (status, text));
        assert_eq!(answer.head.matches("X-Note: inner\r\n").count(), 1, "{answer:?}");
        assert_eq!(answer.head.matches("X-Note: outer\r\n").count(), 1, "{answer:?}");
    }
    let answer = get(server.local_addr(), "/later?inner");
    assert_eq!((answer.text(), answer.header("x-own")), ("stopped", None));
    let answer = get(server.local_addr(), "/later?outer");
    assert_eq!(answer.text(), "stopped");
    assert!(!answer.head.contains("inner"));
    assert_eq!(get(server.local_addr(), "/free").header("x-note"), None);
}

#[test]
fn pages_of_named_origins_may_ask() {
    let cors = Cors::of(["https://app.example"]).credentials().exposed(["ETag"]).max_age_s(60);
    let server = serve(ways().layer(cors).nest("/open", ways().layer(Cors::any())));
    let asks =
        "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-a, x-b\r\n";
    let own = format!("Origin: https://app.example\r\n{asks}");
    let answer = with(&server, "OPTIONS", "/post", &own);
    assert_eq!(answer.status, 204);
    for (name, value) in [
        ("access-control-allow-origin", Some("https://app.example")),
        ("access-control-allow-credentials", Some("true")),
        ("access-control-allow-methods", Some("GET, HEAD, POST, PUT, PATCH, DELETE")),
        ("access-control-allow-headers", Some("x-a, x-b")),
        ("access-control-max-age", Some("60")),
        ("vary", Some("Origin")),
    ] {
        assert_eq!(answer.header(name), value, "{answer:?}");
    }
    let answer = with(&server, "GET", "/later", "Origin: https://app.example\r\n");
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(answer.header("access-control-expose-headers"), Some("ETag"));
    for other in ["Origin: https://evil.example\r\n", "Origin: https://app.example.evil\r\n", ""] {
        let answer = with(&server, "GET", "/ready", other);
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, None));
        let answer = with(&server, "OPTIONS", "/post", &format!("{other}{asks}"));
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, None));
    }
    // One that is no question of a browser's is answered as it was.
    let answer = with(&server, "OPTIONS", "/post", "");
    assert_eq!((answer.status, answer.header("allow")), (204, Some("POST, OPTIONS")));
    let answer = with(&server, "GET", "/open/ready", "Origin: https://any.example\r\n");
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
}

#[test]
fn who_asks_too_often_waits() {
    let per_user =
        RateLimit::per(0.01, 2, |request| request.header_text("x-user").map(str::to_owned));
    let router = ways().layer(per_user).nest("/all", ways().layer(RateLimit::per_address(0.5, 3)));
    let server = serve(router);
    let statuses = |path, more: &str, count| -> Vec<u16> {
        (0..count).map(|_| with(&server, "GET", path, more).status).collect()
    };
    assert_eq!(statuses("/ready", "X-User: a\r\n", 3), [200, 200, 429]);
    assert_eq!(statuses("/ready", "X-User: b\r\n", 3), [200, 200, 429]);
    assert_eq!(statuses("/ready", "", 4), [200; 4]);
    assert_eq!(statuses("/all/later", "", 4), [200, 200, 200, 429]);
    let answer = with(&server, "GET", "/all/ready", "");
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("2")));
    assert_eq!(answer.detail().as_deref(), Some("too many requests; try again in 2 s"));
}

#[test]
fn requests_have_names_and_answers_their_headers() {
    let router = Router::new()
        .get("/id", |request: Request| async move { request.id().to_owned() })
        .layer(RequestId)
        .layer(SecurityHeaders::new().content_security_policy("default-src 'self'"));
    let server = serve(router);
    let answer = get(server.local_addr(), "/id");
    assert_eq!(answer.header("x-request-id"), Some(answer.text()));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("content-security-policy"), Some("default-src 'self'"));
    assert!(get(server.local_addr(), "/id").text() != answer.text());
    assert_eq!(with(&server, "GET", "/id", "X-Request-Id: abc-7\r\n").text(), "abc-7");
    let long = format!("X-Request-Id: {}\r\n", "a".repeat(129));
    for bad in ["X-Request-Id: a\"b\r\n", "X-Request-Id: \r\n", &long] {
        assert_eq!(with(&server, "GET", "/id", bad).text().len(), answer.text().len(), "{bad}");
    }
    // On one connection each request has its own.
    let mut client = Client::new(server.local_addr());
    client.send("GET /id HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2));
    assert!(client.answer().unwrap().text() != client.answer().unwrap().text());
}

#[test]
fn a_handler_that_takes_too_long_is_answered_for() {
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&dropped);
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let slow = Endpoint::future(move |_| {
        let flag = Flag(Arc::clone(&flag));
        async move {
            std::future::pending::<()>().await;
            drop(flag);
        }
    });
    let router =
        Router::new().on(Method::Get, "/slow", slow.timeout_ms(200)).get("/ok", |_| async { "ok" });
    let limits = Limits { header_timeout_ms: 400, ..Limits::default() };
    let server = serve_with(router, limits);
    let mut client = Client::new(server.local_addr());
    let begun = Instant::now();
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /ok HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 503);
    assert!(begun.elapsed() >= Duration::from_millis(150) && dropped.load(Ordering::SeqCst));
    assert_eq!(client.answer().unwrap().text(), "ok", "the connection goes on");
}

/// What a log has written.
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

impl Lines {
    /// All of them, once there are so many.
    fn wait(&self, count: usize) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            if text.lines().count() >= count {
                return text.lines().map(str::to_owned).collect();
            }
            assert!(begun.elapsed() < PATIENCE, "{text}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn each_answer_has_its_line() {
    for json in [false, true] {
        let lines = Lines::default();
        let log = match json {
            false => AccessLog::combined(lines.clone()),
            true => AccessLog::json(lines.clone()),
        };
        let server = bind().listeners(1).access_log(&log.unwrap()).start(ways()).unwrap();
        let agent = "User-Agent: a\"b\r\nReferer: http://r/\r\nX-Request-Id: id-1\r\n";
        with(&server, "GET", "/ready?x=1", agent);
        with(&server, "GET", "/later", "");
        with(&server, "GET", "/none", "");
        with(&server, "POST", "/post", "Content-Length: 9999999\r\n");
        Client::new(server.local_addr()).send("bad\r\n\r\n").answer().unwrap();
        let written = lines.wait(5);
        if json {
            let first: serde_json::Value = serde_json::from_str(&written[0]).unwrap();
            assert_eq!(first["target"], "/ready?x=1");
            assert_eq!((&first["peer"], &first["method"]), (&"127.0.0.1".into(), &"GET".into()));
            assert_eq!((&first["status"], &first["bytes"]), (&200.into(), &5.into()));
            assert_eq!((&first["id"], &first["user_agent"]), (&"id-1".into(), &"a\"b".into()));
            let later: serde_json::Value = serde_json::from_str(&written[1]).unwrap();
            assert!(later["duration_us"].as_u64().unwrap() >= 5_000, "{later}");
        } else {
            assert!(written[0].starts_with("127.0.0.1 - - ["), "{written:?}");
            let end = "] \"GET /ready?x=1 HTTP/1.1\" 200 5 \"http://r/\" \"a\\\"b\"";
            assert!(written[0].ends_with(end), "{written:?}");
            for (line, part) in [
                (1, "\"GET /later HTTP/1.1\" 200 5"),
                (2, "\"GET /none HTTP/1.1\" 404 "),
                (3, "\"POST /post HTTP/1.1\" 413 "),
                (4, "\"-\" 400 "),
            ] {
                assert!(written[line].contains(part), "{written:?}");
            }
        }
    }
}

#[test]
fn what_is_done_is_counted() {
    let metrics = Metrics::new();
    metrics.add_collector(|text| text.push_str("own 7\n"));
    let router = ways().metrics("/metrics", &metrics);
    let server = bind().listeners(2).metrics(&metrics).start(router).unwrap();
    for _ in 0..10 {
        get(server.local_addr(), "/ready");
    }
    get(server.local_addr(), "/none");
    let mut open = Client::new(server.local_addr());
    open.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n").answer().unwrap();
    let begun = Instant::now();
    // Closed connections are noticed a moment later.
    let text = loop {
        let answer = get(server.local_addr(), "/metrics");
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        let text = answer.text().to_owned();
        if text.contains("\nmarmota_http_connections 2\n") {
            break text;
        }
        assert!(begun.elapsed() < PATIENCE, "{text}");
    };
    let number = |name: &str| -> f64 {
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(number("marmota_http_requests_total{status=\"200\"}") >= 11.0);
    assert_eq!(number("marmota_http_requests_total{status=\"404\"}"), 1.0);
    assert!(number("marmota_http_connections_total") >= 12.0);
    assert!(number("marmota_http_received_bytes_total") > 12.0 * 30.0);
    assert!(number("marmota_http_sent_bytes_total") > 12.0 * 100.0);
    assert!(number("marmota_http_request_seconds_count") >= 12.0);
    assert!(number("marmota_http_request_seconds_sum") >= 0.005);
    assert!(
        number("marmota_http_request_seconds_bucket{le=\"0.001\"}")
            < number("marmota_http_request_seconds_bucket{le=\"+Inf\"}")
    );
    assert_eq!(number("own"), 7.0);
}

#[test]
fn a_service_says_whether_it_is_ready() {
    let ready = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ready);
    let server = serve(Router::new().health(move || flag.load(Ordering::SeqCst)));
    assert_eq!(get(server.local_addr(), "/healthz").status, 200);
    assert_eq!(get(server.local_addr(), "/readyz").status, 503);
    ready.store(true, Ordering::SeqCst);
    assert_eq!(get(server.local_addr(), "/readyz").status, 200);
}
