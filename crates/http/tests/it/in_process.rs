//! Requests that are answered in the process of a test, without a socket.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::task::Poll;

use marmota_http::{
    Admission, BodyError, BodyStream, CallError, Endpoint, Flow, Method, Peer, RateLimit, Request,
    Response, Router, Status, TestRequest, WebSocketOptions,
};

#[test]
fn direct_and_asynchronous_handlers_answer_with_status_headers_and_body() {
    let router = Router::new()
        .direct(Method::Get, "/direct/{n:int}", |request, out| {
            let body = out.content_type("text/plain").body_mut();
            body.extend_from_slice(request.param_at(0).unwrap_or_default().as_bytes());
            Flow::Done
        })
        .get("/now", |request: Request| async move {
            let seen = format!("{} {} {}", request.method(), request.host(), request.query());
            Response::text(seen).with_status(Status::ACCEPTED).with_header("X-Note", "a: b")
        })
        .get("/large", |_| async { "x".repeat(1 << 20) });
    let direct = router.call(TestRequest::get("/direct/42")).unwrap();
    assert_eq!((direct.status(), direct.text()), (Status::OK, "42"));
    assert_eq!(direct.header("Content-Type"), Some("text/plain"));
    assert_eq!(direct.header("content-length"), Some("2"));
    assert_eq!(direct.header("server"), None);
    let now = router.call(TestRequest::get("/now?a=b").header("host", "127.0.0.1:1")).unwrap();
    assert_eq!((now.status(), now.text()), (Status::ACCEPTED, "GET 127.0.0.1:1 a=b"));
    assert_eq!(now.header("x-note"), Some("a: b"));
    assert_eq!(
        router.call(TestRequest::get("/large")).unwrap().body(),
        "x".repeat(1 << 20).as_bytes()
    );
    let head = router.call(TestRequest::new(Method::Head, "/direct/42")).unwrap();
    assert_eq!((head.status(), head.text()), (Status::OK, ""));
    assert_eq!(head.header("content-length"), Some("2"));
}

#[test]
fn a_handler_that_answers_later_is_waited_for() {
    let router = Router::new()
        .get("/yields", |_| async {
            let held = Rc::new(7);
            let mut polls = 0;
            poll_fn(|context| {
                polls += 1;
                context.waker().wake_by_ref();
                if polls == 3 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            format!("{held} after {polls}")
        })
        .get("/thread", |_| async {
            let (mut sender, body) = BodyStream::channel(1);
            std::thread::spawn(move || {
                for piece in ["from ", "another ", "thread"] {
                    sender.send_blocking(piece).unwrap();
                }
                sender.finish();
            });
            Response::streamed("text/plain", body)
        })
        .direct(Method::Get, "/later", |_, _| {
            Flow::Later(Box::pin(async { Response::text("later") }))
        });
    for (target, text) in
        [("/yields", "7 after 3"), ("/thread", "from another thread"), ("/later", "later")]
    {
        assert_eq!(router.call(TestRequest::get(target)).unwrap().text(), text);
    }
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn handlers_have_a_runtime_though_the_test_blocks_its_own() {
    let router = Router::new().get("/", |_| async {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        tokio::spawn(async { "from a task" }).await.unwrap()
    });
    assert_eq!(router.call(TestRequest::get("/")).unwrap().text(), "from a task");
}

#[test]
fn a_handler_that_takes_too_long_is_answered_503() {
    let never = Endpoint::future(|_| std::future::pending::<()>()).timeout_ms(20);
    let router = Router::new().on(Method::Get, "/", never);
    let answer = router.call(TestRequest::get("/")).unwrap();
    assert_eq!(answer.status(), Status::SERVICE_UNAVAILABLE);
    assert!(answer.text().contains("the answer took too long"), "{}", answer.text());
}

#[test]
fn streamed_bodies_are_whole_and_failures_are_errors() {
    fn text(body: BodyStream) -> Response {
        Response::streamed("text/plain", body)
    }
    fn numbers() -> BodyStream {
        let mut number = 0;
        BodyStream::new(move |out: &mut Vec<u8>| {
            number += 1;
            out.extend_from_slice(format!("{number}\n").as_bytes());
            Ok(if number < 50_000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })
    }
    let router = Router::new()
        .get("/numbers", |_| async { text(numbers()) })
        .get("/short", |_| async { text(numbers().with_length(1 << 30)) })
        .get("/error", |_| async {
            text(BodyStream::write(|mut out| async move {
                out.send("half").await?;
                Err("as planned".into())
            }))
        });
    let whole = router.call(TestRequest::get("/numbers")).unwrap();
    let expected: String = (1..=50_000).map(|number| format!("{number}\n")).collect();
    assert!(whole.text() == expected);
    assert_eq!(whole.header("transfer-encoding"), None);
    let head = router.call(TestRequest::new(Method::Head, "/numbers")).unwrap();
    assert_eq!((head.status(), head.text()), (Status::OK, ""));
    for (target, reason) in [("/short", "of 1073741824 bytes"), ("/error", "as planned")] {
        let error = router.call(TestRequest::get(target)).unwrap_err();
        assert!(
            matches!(error, CallError::Body(_)) && error.to_string().contains(reason),
            "{error}"
        );
    }
}

#[test]
fn a_panic_in_a_handler_is_a_500() {
    fn panics() -> &'static str {
        panic!("as planned")
    }
    let router = Router::new()
        .get("/now", |_| async { panics() })
        .get("/later", |_| async {
            let mut is_first = true;
            poll_fn(|context| {
                context.waker().wake_by_ref();
                if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            panics()
        })
        .direct(Method::Get, "/direct", |_, out| {
            out.send("text/plain", panics().as_bytes());
            Flow::Done
        });
    for target in ["/now", "/later", "/direct"] {
        let answer = router.call(TestRequest::get(target)).unwrap();
        assert_eq!(answer.status(), Status::INTERNAL_SERVER_ERROR, "{target}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert!(!answer.text().contains("as planned"), "{}", answer.text());
    }
}

#[test]
fn requests_without_a_handler_are_answered_as_a_server_does() {
    let router = Router::new().get("/a", |_| async { "a" });
    let call = |method, target| router.call(TestRequest::new(method, target)).unwrap();
    assert_eq!(call(Method::Get, "/b").status(), Status::NOT_FOUND);
    let refused = call(Method::Post, "/a");
    assert_eq!(refused.status(), Status::METHOD_NOT_ALLOWED);
    assert_eq!(refused.header("allow"), Some("GET, HEAD, OPTIONS"));
    assert_eq!(call(Method::Options, "/a").status(), Status::NO_CONTENT);
}

#[test]
fn layers_checks_and_limits_apply() {
    async fn length(request: Request) -> String {
        request.body().len().to_string()
    }
    fn by_key(request: &Request) -> Admission {
        match request.header_text("x-key") {
            Some("k") => Admission::Granted,
            Some("later") => {
                Admission::Later(Box::pin(async { Err(Response::from_status(Status::FORBIDDEN)) }))
            }
            _ => Admission::Refused(Response::from_status(Status::UNAUTHORIZED)),
        }
    }
    async fn count(request: Request) -> Result<String, BodyError> {
        let (mut reader, mut bytes) = (request.reader(), Vec::new());
        while reader.read(&mut bytes).await? > 0 {}
        Ok(format!("{} in pieces, {} whole", bytes.len(), request.body().len()))
    }
    let router = Router::new()
        .on(Method::Post, "/checked", Endpoint::future(length).before_body(by_key))
        .on(Method::Post, "/streamed", Endpoint::future(count).streamed(100_000))
        .post("/length", length)
        .get("/limited", |_| async { "in" })
        .layer(RateLimit::per_address(0.001, 1))
        .layer(marmota_http::SecurityHeaders::default());
    let post = |target: &str, bytes: usize| TestRequest::post(target).body(vec![b'x'; bytes]);
    let client = |number: u8| Peer::Net(SocketAddr::from(([10, 0, 0, number], 1)));
    let calls = [
        (post("/checked", 3).header("x-key", "k"), Status::OK, "3"),
        (post("/checked", 3), Status::UNAUTHORIZED, ""),
        (post("/checked", 3).header("x-key", "later"), Status::FORBIDDEN, ""),
        (post("/streamed", 100_000), Status::OK, "100000 in pieces, 0 whole"),
        (post("/streamed", 100_001), Status::CONTENT_TOO_LARGE, ""),
        (post("/length", 2 << 20), Status::OK, "2097152"),
        (post("/length", (2 << 20) + 1), Status::CONTENT_TOO_LARGE, ""),
        (TestRequest::get("/limited"), Status::OK, "in"),
    ];
    for (number, (request, status, text)) in calls.into_iter().enumerate() {
        let answer = router.call(request.peer(client(number as u8))).unwrap();
        assert_eq!(answer.status(), status, "call {number}: {}", answer.text());
        assert!(text.is_empty() || answer.text() == text, "call {number}: {}", answer.text());
        // Bodies that are too long are refused without the layers' headers.
        let added = (status != Status::CONTENT_TOO_LARGE).then_some("nosniff");
        assert_eq!(answer.header("x-content-type-options"), added, "call {number}");
    }
    let again = router.call(TestRequest::get("/limited").peer(client(7))).unwrap();
    assert_eq!(again.status(), Status::TOO_MANY_REQUESTS);
}

#[test]
fn invalid_routes_and_requests_are_errors() {
    let call = |router: Router, request| router.call(request).unwrap_err();
    let error = call(Router::new().get("no-slash", |_| async {}), TestRequest::get("/"));
    assert!(matches!(error, CallError::Route(_)), "{error}");
    for request in [
        TestRequest::get("/a b"),
        TestRequest::get("/").header("X", "a\r\nY: b\r\n\r\n"),
        TestRequest::get("/").header("X Y", "a"),
        TestRequest::get("/").header("Content-Length", "x"),
    ] {
        let error = call(Router::new(), request);
        assert!(matches!(error, CallError::Request(_)), "{error}");
    }
}

#[test]
fn a_websocket_is_only_accepted() {
    let open = |request: Request| async move {
        Response::websocket(&request, &WebSocketOptions::default(), |_| async { Ok(()) })
    };
    let request = TestRequest::get("/")
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    let answer = Router::new().get("/", open).call(request).unwrap();
    assert_eq!((answer.status(), answer.text()), (Status::SWITCHING_PROTOCOLS, ""));
}

#[cfg(feature = "compression")]
#[test]
fn answers_are_compressed_if_the_request_accepts_it() {
    let layer = marmota_http::Compression::new();
    let router = Router::new().get("/", |_| async { "x".repeat(10_000) }).layer(layer);
    let plain = router.call(TestRequest::get("/")).unwrap();
    assert_eq!((plain.header("content-encoding"), plain.body().len()), (None, 10_000));
    let short = router.call(TestRequest::get("/").header("Accept-Encoding", "gzip")).unwrap();
    assert_eq!(short.header("content-encoding"), Some("gzip"));
    assert!(short.body().len() < 1_000);
}

#[cfg(feature = "extract")]
#[test]
fn handlers_of_extractors_are_called_with_their_state() {
    use marmota_http::extract::{Json, State};
    let sum = |State(start): State<i64>, Json(numbers): Json<Vec<i64>>| async move {
        Json(start + numbers.iter().sum::<i64>())
    };
    let router = Router::with_state(10).post("/sum", sum);
    let answer = router.call(TestRequest::post("/sum").json(&[1, 2])).unwrap();
    assert_eq!(answer.json::<i64>().unwrap(), 13);
    let refused = router.call(TestRequest::post("/sum").json("text")).unwrap();
    assert_eq!(refused.status(), Status::UNPROCESSABLE_CONTENT);
}
