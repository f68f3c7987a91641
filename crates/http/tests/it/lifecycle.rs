//! Starting, stopping, and what is answered meanwhile.

use std::time::Duration;

use marmota_http::{Backend, BatchScheduling, Limits, Router, Server, ServerError};

use super::client::{Client, Gate, backend, bind, get, serve, serve_with};

fn router() -> Router {
    Router::new().get("/", |_| async { "ok" })
}

#[test]
fn a_server_without_threads_is_refused() {
    for (server, name) in [
        (bind().threads_per_listener(0), "threads_per_listener"),
        (bind().listeners(0), "listeners"),
    ] {
        let error = server.start(Router::new()).unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}` is 0")), "{error}");
    }
}

#[test]
fn requests_in_flight_are_answered_at_shutdown() {
    let gate = Gate::default();
    let held = gate.clone();
    let router = router().get("/slow", move |_| {
        let held = held.clone();
        async move {
            held.pass().await;
            "slow"
        }
    });
    // One thread: when it has closed the one connection it has heard of the end for the other too.
    let server = bind().listeners(1).start(router).unwrap();
    let address = server.local_addr();
    let mut idle = Client::new(address);
    idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer().unwrap();
    let mut busy = Client::new(address);
    busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    gate.wait();
    let ended = std::thread::spawn(move || server.shutdown());
    assert!(idle.is_closed(), "idle connections close at once");
    assert!(!ended.is_finished());
    gate.open();
    let answer = busy.answer().unwrap();
    assert_eq!((answer.text(), answer.header("connection")), ("slow", Some("close")));
    // The server waits a moment for the client to close first, so that nothing is reset.
    drop(busy);
    ended.join().unwrap().unwrap();
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn a_request_that_never_ends_does_not_hold_the_shutdown() {
    let forever =
        Router::new().get("/", |_| async { std::future::pending::<&'static str>().await });
    let server = serve_with(forever, Limits { drain_timeout_ms: 200, ..Limits::default() });
    Client::new(server.local_addr()).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut client = Client::new(server.local_addr());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    std::thread::sleep(Duration::from_millis(50));
    server.shutdown().unwrap();
    assert!(client.is_closed());
}

#[test]
fn a_handle_ends_the_service_from_anywhere() {
    let server = bind().listeners(1).threads_per_listener(2).pin(true).start(router()).unwrap();
    assert_eq!(get(server.local_addr(), "/").text(), "ok");
    let handle = server.shutdown_handle();
    std::thread::spawn(move || handle.shutdown());
    server.join().unwrap();
}

/// How the calling thread is scheduled: the 41st word that the system has of it.
fn policy() -> String {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // Names may have blanks, and stand in brackets.
    let behind_name = stat.rsplit(')').next().unwrap();
    behind_name.split_whitespace().nth(38).unwrap().to_owned()
}

#[test]
fn threads_are_batch_scheduled_with_a_database_on_this_machine() {
    use BatchScheduling::{Auto, Off, On};
    let own = policy();
    // SCHED_BATCH, unless the tests run with a policy that was chosen for them.
    let batch = if own == "0" { "3" } else { &own };
    let here = Some("PostgreSQL on this machine (127.0.0.1:5432)");
    let cases = [
        (Auto, here, batch),
        (Auto, None, &own),
        (On, None, batch),
        (On, here, batch),
        (Off, here, &own),
        (Off, None, &own),
    ];
    for (batch_scheduling, database, expected) in cases {
        let router = Router::new().get("/", |_| async { policy() }).local_database(database);
        // Of nested routes as well.
        let router = Router::new().nest("/api", router);
        let server = bind().batch_scheduling(batch_scheduling).start(router).unwrap();
        let policy = get(server.local_addr(), "/api/").text().to_owned();
        assert_eq!(policy, expected, "{batch_scheduling:?} with {database:?}");
    }
}

#[test]
fn a_taken_address_is_refused() {
    let server = serve(router());
    let error = Server::bind(server.local_addr()).unwrap_err();
    assert!(matches!(error, ServerError::Bind { .. }));
    assert!(error.to_string().contains("choose another address"), "{error}");
}

#[test]
fn bad_routes_and_names_are_refused() {
    let error = bind().start(Router::new().get("no-slash", |_| async { "" })).unwrap_err();
    assert!(error.to_string().contains("no-slash"), "{error}");
    assert!(matches!(bind().name("a\r\nb").start(Router::new()), Err(ServerError::Name(_))));
    let nameless = bind().name("").start(Router::new()).unwrap();
    assert_eq!(get(nameless.local_addr(), "/").header("server"), None);
}

#[test]
fn thousands_of_connections_are_served_and_forgotten() {
    let server = serve(router());
    let mut clients: Vec<Client> = (0..2_000).map(|_| Client::new(server.local_addr())).collect();
    for round in 0..2 {
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        for client in &mut clients {
            assert_eq!(client.answer().unwrap().text(), "ok", "round {round}");
        }
    }
    drop(clients);
    server.shutdown().unwrap();
}

#[test]
fn a_server_says_how_it_waits() {
    let server = serve(router());
    match backend() {
        Backend::Auto => assert_eq!(server.backend(), Backend::Epoll),
        asked => assert_eq!(server.backend(), asked),
    }
}
