//! Routes that are replaced while clients send requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use marmota_http::{Endpoint, Event, Limits, Method, Request, Response, RouteChanges, Router};

use super::client::{Client, Gate, PATIENCE, bind};

/// Routes that answer with their number.
fn numbered(number: usize) -> Router {
    let answer = move |request: Request| async move {
        tokio::task::yield_now().await;
        format!("{number} {}", request.body().len())
    };
    Router::new()
        .get("/", move |_| async move { number.to_string() })
        .post("/", answer)
        .get(&format!("/only/{number}"), |_| async { "here" })
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn no_request_fails_and_no_connection_ends_while_routes_are_replaced() {
    let changes = RouteChanges::new();
    let server = bind().listeners(2).route_changes(&changes).start(numbered(0)).unwrap();
    let address = server.local_addr();
    let ends = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let ends = Arc::clone(&ends);
            std::thread::spawn(move || {
                let (mut client, mut latest, mut count) = (Client::new(address), 0, 0);
                while !ends.load(Ordering::Relaxed) {
                    // Pipelined, so that a part of a batch may be held back.
                    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
                    client.send([GET, post, GET, GET].concat());
                    for _ in 0..4 {
                        let answer = client.answer().expect("the connection stays open");
                        let number = answer.text().trim_end_matches(" 5").parse().unwrap();
                        assert!(answer.status == 200 && number >= latest, "{answer:?}");
                        (latest, count) = (number, count + 1);
                    }
                }
                // A slow client may not have sent anything since the last routes.
                let last = client.send(GET).answer().expect("the connection stays open");
                assert!(latest <= 50 && last.text() == "50", "{last:?} after {latest}");
                count
            })
        })
        .collect();
    for number in 1..=50 {
        let pause = changes.pause(PATIENCE).unwrap();
        assert_eq!(pause.requests_in_progress(), 0);
        assert!(changes.pause(PATIENCE).is_none(), "one pause at a time");
        pause.resume_with(numbered(number)).unwrap();
        let mut client = Client::new(address);
        let request = format!("GET /only/{number} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.send(request).answer().unwrap().text(), "here");
        let before = format!("GET /only/{} HTTP/1.1\r\nHost: a\r\n\r\n", number - 1);
        assert_eq!(client.send(before).answer().unwrap().status, 404);
    }
    ends.store(true, Ordering::Relaxed);
    for client in clients {
        let count = client.join().unwrap();
        assert!(count > 50, "{count} requests");
    }
}

#[test]
fn requests_in_progress_are_awaited_and_later_ones_wait() {
    let (gate, changes) = (Gate::default(), RouteChanges::new());
    let held = gate.clone();
    let slow = move |_: Request| {
        let held = held.clone();
        async move {
            held.pass().await;
            "slow"
        }
    };
    let router = numbered(0).get("/slow", slow);
    let server = bind().listeners(2).route_changes(&changes).start(router).unwrap();
    let mut slow = Client::new(server.local_addr());
    slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").send(GET);
    gate.wait();
    let pause = changes.pause(Duration::from_millis(50)).unwrap();
    assert_eq!(pause.requests_in_progress(), 1);
    drop(pause);
    let (sender, receiver) = mpsc::channel();
    let replacing = std::thread::spawn(move || {
        let pause = changes.pause(PATIENCE).unwrap();
        sender.send(()).unwrap();
        assert_eq!(pause.requests_in_progress(), 0);
        pause.resume_with(numbered(1)).unwrap();
    });
    let mut later = Client::new(server.local_addr());
    std::thread::sleep(Duration::from_millis(100));
    later.send(GET);
    assert!(
        receiver.recv_timeout(Duration::from_millis(100)).is_err(),
        "a request is not answered"
    );
    gate.open();
    assert_eq!(slow.answer().unwrap().text(), "slow");
    assert_eq!(slow.answer().unwrap().text(), "1", "the next request on the same connection");
    assert_eq!(later.answer().unwrap().text(), "1");
    replacing.join().unwrap();
}

#[test]
fn the_handler_that_replaces_the_routes_answers() {
    let changes = RouteChanges::new();
    let replace = {
        let changes = changes.clone();
        move |_: Request| {
            let changes = changes.clone();
            async move {
                let replaced = tokio::task::spawn_blocking(move || {
                    let pause = changes.pause(PATIENCE).unwrap();
                    assert_eq!(pause.requests_in_progress(), 0);
                    pause.resume_with(numbered(1))
                });
                replaced.await.unwrap().unwrap();
                "replaced"
            }
        }
    };
    let endpoint = Endpoint::future(replace).outlives_routes();
    let router = numbered(0).on(Method::Put, "/routes", endpoint);
    let server = bind().listeners(1).route_changes(&changes).start(router).unwrap();
    let mut client = Client::new(server.local_addr());
    client.send("PUT /routes HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}").send(GET);
    assert_eq!(client.answer().unwrap().text(), "replaced");
    assert_eq!(client.answer().unwrap().text(), "1");
}

#[test]
fn replaced_routes_and_the_requests_that_replaced_them_are_freed() {
    let changes = RouteChanges::new();
    let held = Arc::new(());
    // Routes that hold a part of the program, and a handler that holds another during its request.
    fn routes(changes: &RouteChanges, held: &Arc<()>) -> Router {
        let (changes, held) = (changes.clone(), Arc::clone(held));
        let replace = move |_: Request| {
            let (changes, held) = (changes.clone(), Arc::clone(&held));
            async move {
                let replaced = tokio::task::spawn_blocking(move || {
                    let pause = changes.pause(PATIENCE).unwrap();
                    pause.resume_with(routes(&changes, &held))
                });
                replaced.await.unwrap().unwrap();
                "replaced"
            }
        };
        numbered(0).on(Method::Put, "/routes", Endpoint::future(replace).outlives_routes())
    }
    let server =
        bind().listeners(2).route_changes(&changes).start(routes(&changes, &held)).unwrap();
    let mut client = Client::new(server.local_addr());
    let put = "PUT /routes HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
    for _ in 0..20 {
        assert_eq!(client.send(put).answer().unwrap().text(), "replaced");
        assert_eq!(client.send(GET).answer().unwrap().text(), "0");
    }
    drop(client);
    let begun = Instant::now();
    while Arc::strong_count(&held) > 2 {
        assert!(begun.elapsed() < PATIENCE / 6, "{} routes are held", Arc::strong_count(&held) - 1);
        std::thread::sleep(Duration::from_millis(5));
    }
    server.shutdown().unwrap();
}

#[test]
fn a_request_that_outlives_its_routes_leaves_nothing_for_later_connections() {
    let changes = RouteChanges::new();
    let replace = {
        let changes = changes.clone();
        move |_: Request| {
            let changes = changes.clone();
            async move {
                let replaced = tokio::task::spawn_blocking(move || {
                    // The path that is found first by the previous routes is the second one here.
                    let routes = Router::new().get("/other", |_| async { "other" });
                    let routes = routes.get("/", |_| async { "new" });
                    changes.pause(PATIENCE).unwrap().resume_with(routes)
                });
                replaced.await.unwrap().unwrap();
                "replaced"
            }
        }
    };
    let router =
        numbered(0).on(Method::Put, "/routes", Endpoint::future(replace).outlives_routes());
    let server = bind().listeners(1).route_changes(&changes).start(router).unwrap();
    let mut client = Client::new(server.local_addr());
    let put = "PUT /routes HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(client.send(put).answer().unwrap().text(), "replaced");
    for _ in 0..3 {
        let mut later = Client::new(server.local_addr());
        assert_eq!(later.send(GET).answer().unwrap().text(), "new");
    }
}

#[test]
fn events_continue_and_faulty_routes_change_nothing() {
    let changes = RouteChanges::new();
    let events = |_: Request| async {
        Response::events(|mut events| async move {
            loop {
                events.send(&Event::new("tick")).await?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    };
    let router = numbered(0).get("/events", events);
    let limits = Limits { drain_timeout_ms: 200, ..Limits::default() };
    let server = bind().listeners(1).limits(limits).route_changes(&changes).start(router).unwrap();
    let mut listener = Client::new(server.local_addr());
    listener.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n").bytes(200);
    let pause = changes.pause(PATIENCE).unwrap();
    assert_eq!(pause.requests_in_progress(), 0);
    let error = pause.resume_with(Router::new().get("no slash", |_| async { "" })).unwrap_err();
    assert!(error.to_string().contains("start with a slash"), "{error}");
    let mut client = Client::new(server.local_addr());
    assert_eq!(client.send(GET).answer().unwrap().text(), "0");
    changes.pause(PATIENCE).unwrap().resume_with(numbered(1)).unwrap();
    assert_eq!(client.send(GET).answer().unwrap().text(), "1");
    listener.bytes(5_000);
}
