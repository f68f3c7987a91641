//! Handlers: ready at once, later, from other threads, failing, panicking.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use marmota_http::{Endpoint, Flow, Method, Request, Response, Router, Status};

use super::client::{Client, PATIENCE, ask, get, serve};

/// Ready once another thread has said so.
#[derive(Default, Clone)]
pub(super) struct Signal(Arc<Mutex<(bool, Option<Waker>)>>);

impl Signal {
    pub(super) fn after(time: Duration) -> Self {
        let signal = Self::default();
        let other = signal.clone();
        std::thread::spawn(move || {
            std::thread::sleep(time);
            let mut state = other.0.lock().unwrap();
            state.0 = true;
            state.1.take().map(Waker::wake)
        });
        signal
    }
}

impl Future for Signal {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap();
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Pending once, woken on its own thread at once.
pub(super) async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn router() -> Router {
    Router::new()
        .get("/now", |_| async { "now" })
        .get("/yield", |_| async {
            yield_once().await;
            yield_once().await;
            "yielded"
        })
        .get("/thread", |_| async {
            Signal::after(Duration::from_millis(20)).await;
            "woken"
        })
        .direct(Method::Get, "/later", |request, out| {
            out.body_mut().extend_from_slice(b"given up");
            let request = request.clone();
            Flow::Later(Box::pin(async move {
                Signal::after(Duration::from_millis(10)).await;
                Response::text(request.path().to_owned())
            }))
        })
        .direct(Method::Get, "/later-ready", |_, _| {
            Flow::Later(Box::pin(async { Response::text("ready") }))
        })
        .get("/panic", |_| async {
            if std::hint::black_box(true) {
                panic!("on purpose");
            }
            "never"
        })
        .get("/panic-later", |_| async {
            yield_once().await;
            if std::hint::black_box(true) {
                panic!("on purpose");
            }
            "never"
        })
        .direct(Method::Get, "/truncate", |_, out| {
            out.body_mut().clear();
            Flow::Done
        })
        .get("/error", |request: Request| async move {
            request
                .query_param("a")
                .map(|a| Response::text(a.into_owned()))
                .ok_or(Status::UNPROCESSABLE_CONTENT)
        })
        .direct(Method::Get, "/reset", |_, out| {
            out.content_type("a/b").body_mut().extend_from_slice(b"half");
            out.status(Status::CONFLICT).send("text/plain", b"whole");
            Flow::Done
        })
}

#[test]
fn every_kind_of_handler_answers_in_a_pipeline() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    let paths = [
        "/now",
        "/yield",
        "/thread",
        "/later",
        "/later-ready",
        "/now",
        "/error?a=%41+b",
        "/error",
        "/reset",
    ];
    for _ in 0..3 {
        let all: String =
            paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
        client.send(all);
        let answers: Vec<String> = paths
            .iter()
            .map(|_| client.answer().unwrap())
            .map(|a| format!("{} {}", a.status, a.text()))
            .collect();
        assert_eq!(
            answers,
            [
                "200 now",
                "200 yielded",
                "200 woken",
                "200 /later",
                "200 ready",
                "200 now",
                "200 A b",
                "422 {\"type\":\"about:blank\",\"title\":\"Unprocessable Content\",\"status\":422}",
                "409 whole"
            ]
        );
    }
}

#[test]
fn many_wait_at_once() {
    let server = serve(router());
    let mut clients: Vec<Client> = (0..100).map(|_| Client::new(server.local_addr())).collect();
    let begun = std::time::Instant::now();
    for client in &mut clients {
        client.send("GET /thread HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.answer().unwrap().text(), "woken");
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "they waited one after another");
}

#[test]
fn a_panic_is_one_requests_end() {
    let server = serve(router());
    let mut other = Client::new(server.local_addr());
    for path in ["/panic", "/panic-later", "/truncate"] {
        let mut client = Client::new(server.local_addr());
        client.send(format!(
            "GET /now HTTP/1.1\r\nHost: a\r\n\r\nGET {path} HTTP/1.1\r\nHost: a\r\n\r\n"
        ));
        // The handler that clears the buffer takes the earlier answer with it: what is left
        // must be a whole answer all the same.
        if path != "/truncate" {
            assert_eq!(client.answer().unwrap().status, 200);
        }
        let answer = client.answer().unwrap();
        assert_eq!((answer.status, answer.header("connection")), (500, Some("close")), "{path}");
        assert!(client.is_closed());
        assert_eq!(
            other.send("GET /now HTTP/1.1\r\nHost: a\r\n\r\n").answer().unwrap().text(),
            "now"
        );
    }
}

#[test]
fn a_client_that_leaves_takes_its_future_along() {
    struct Canary(Arc<()>);
    let alive = Arc::new(());
    let kept = Arc::clone(&alive);
    let server = serve(Router::new().get("/", move |_| {
        let canary = Canary(Arc::clone(&kept));
        async move {
            std::future::pending::<()>().await;
            format!("{:?}", canary.0)
        }
    }));
    let mut client = Client::new(server.local_addr());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let reaches = |count| {
        let begun = std::time::Instant::now();
        while Arc::strong_count(&alive) != count && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(Arc::strong_count(&alive), count);
    };
    reaches(3);
    // A linger of zero makes the close a reset, which is what a vanished client looks like.
    rustix::net::sockopt::set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap();
    drop(client);
    reaches(2);
}

#[test]
fn a_request_may_be_kept() {
    let kept: &'static std::thread::LocalKey<std::cell::RefCell<Vec<Request>>> = {
        thread_local! { static KEPT: std::cell::RefCell<Vec<Request>> = const { std::cell::RefCell::new(Vec::new()) } }
        &KEPT
    };
    let server = serve(Router::new().direct(Method::Get, "/{n}", move |request, out| {
        kept.with_borrow_mut(|kept| kept.push(request.clone()));
        let all = kept.with_borrow(|kept| {
            kept.iter().map(|request| request.path().to_owned()).collect::<String>()
        });
        out.send("text/plain", all.as_bytes());
        Flow::Done
    }));
    let mut client = Client::new(server.local_addr());
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().unwrap().text(), "/a");
    assert_eq!(client.answer().unwrap().text(), "/a/b");
    assert_eq!(
        client.send("GET /c HTTP/1.1\r\nHost: a\r\n\r\n").answer().unwrap().text(),
        "/a/b/c"
    );
}

#[test]
fn routes_nest_and_fall_back() {
    let inner = Router::new().get("/x/{id:uuid}", |request: Request| async move {
        request.param("id").map(std::borrow::Cow::into_owned).ok_or(Status::NOT_FOUND)
    });
    let fallback = Endpoint::future(|request: Request| async move {
        Response::text(request.segments().collect::<Vec<_>>().join("|"))
            .with_status(Status::NOT_FOUND)
    });
    let server = serve(Router::new().nest("/in/", inner).fallback(fallback));
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    assert_eq!(get(server.local_addr(), &format!("/in/x/{id}")).text(), id);
    let lost = get(server.local_addr(), "/in/x/%61/");
    assert_eq!((lost.status, lost.text()), (404, "in|x|a|"));
    let brewed = ask(server.local_addr(), "BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(brewed.text(), "pot");
}

#[cfg(feature = "tokio")]
#[test]
fn tokio_works_inside() {
    let server = serve(Router::new().get("/", |_| async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let spawned = tokio::spawn(async { 7 }).await.unwrap_or(0);
        format!("{spawned}")
    }));
    assert_eq!(get(server.local_addr(), "/").text(), "7");
}

#[test]
fn what_comes_while_a_handler_waits_is_answered_after_it() {
    let server = serve(
        Router::new()
            .get("/", |_| async { "ok" })
            .post("/", |request: Request| async move { request.body().len().to_string() })
            .get("/slow", |request: Request| async move {
                tokio::time::sleep(Duration::from_millis(300)).await;
                request.target().to_owned()
            }),
    );
    let mut client = Client::new(server.local_addr());
    client.send("GET /slow?a HTTP/1.1\r\nHost: a\r\n\r\n");
    std::thread::sleep(Duration::from_millis(50));
    // More than waits in the server, and a body across its limit.
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(5_000));
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    client.send(vec![b'x'; 1_000_000]);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().unwrap().text(), "/slow?a");
    for _ in 0..5_000 {
        assert_eq!(client.answer().unwrap().text(), "ok");
    }
    assert_eq!(client.answer().unwrap().text(), "1000000");
    assert_eq!(client.answer().unwrap().text(), "ok");
}
