//! Unix sockets: what is answered over them, their files, and what stands there already.

use std::fs;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;

use marmota_http::{Address, Peer, Request, Router, Server, ServerError};

use super::client::{Gate, backend, get};

fn router() -> Router {
    Router::new().get("/", |request: Request| async move {
        assert_eq!(request.peer().ip().is_none(), request.peer() == Peer::Unix);
        match request.peer() {
            Peer::Unix => "unix",
            _ => "net",
        }
    })
}

fn ask(mut stream: UnixStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn named(path: &Path) -> String {
    format!("unix:{}", path.display())
}

#[test]
fn a_socket_and_a_port_are_served_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let server = Server::bind("127.0.0.1:0").unwrap().also_bind(named(&path)).unwrap();
    let gate = Gate::default();
    let held = gate.clone();
    let router = router().get("/slow", move |_| {
        let held = held.clone();
        async move {
            held.pass().await;
            "slow"
        }
    });
    let server =
        server.backend(backend()).listeners(2).threads_per_listener(2).start(router).unwrap();
    assert_eq!(get(server.local_addr(), "/").text(), "net");
    let clients: Vec<_> = (0..100).map(|_| UnixStream::connect(&path).unwrap()).collect();
    for client in clients {
        assert_eq!(ask(client, "/"), "unix");
    }
    assert_eq!(server.addresses()[1], Address::Path(path.clone()));
    let late = UnixStream::connect(&path).unwrap();
    let asking = std::thread::spawn(move || ask(late, "/slow"));
    gate.wait();
    let ended = std::thread::spawn(move || server.shutdown());
    // The server begins to end, and the handler is not done.
    std::thread::sleep(std::time::Duration::from_millis(50));
    gate.open();
    ended.join().unwrap().unwrap();
    assert_eq!(asking.join().unwrap(), "slow", "what is in flight is answered");
    assert!(!path.exists(), "the file is removed");
}

#[test]
fn an_abstract_name_has_no_file() {
    let name = format!("marmota-test-{}-{:?}", std::process::id(), backend());
    let server = Server::bind(format!("unix:@{name}")).unwrap().backend(backend());
    let server = server.start(router()).unwrap();
    assert_eq!(server.local_addr().port(), 0);
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    assert_eq!(ask(UnixStream::connect_addr(&address).unwrap(), "/"), "unix");
    let taken = Server::bind(format!("unix:@{name}")).unwrap_err();
    assert!(matches!(taken, ServerError::Bind { .. }));
}

#[test]
fn permissions_are_those_that_were_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let mode = || fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777;
    let server = Server::bind(named(&path)).unwrap().backend(backend());
    assert_eq!(mode(), 0o600, "nobody else connects before the server has started");
    let server = server.socket_mode(0o666).start(router()).unwrap();
    assert_eq!(mode(), 0o666);
    server.shutdown().unwrap();
}

#[test]
fn what_a_dead_server_left_is_replaced_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the standard library leaves the file");
    let server = Server::bind(named(&path)).unwrap().backend(backend()).start(router()).unwrap();
    assert_eq!(ask(UnixStream::connect(&path).unwrap(), "/"), "unix");

    let taken = Server::bind(named(&path)).unwrap_err().to_string();
    assert!(taken.contains("a.sock") && taken.contains("choose another address"), "{taken}");
    assert_eq!(ask(UnixStream::connect(&path).unwrap(), "/"), "unix", "it is left alone");

    // Somebody else's file in the socket's place is not removed.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "mine").unwrap();
    server.shutdown().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    assert!(Server::bind(named(&path)).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"mine");
}

#[test]
fn addresses_that_cannot_be_are_refused() {
    for address in ["unix:", "unix:@", "unix:/no/such/folder/a.sock", &"unix:/a".repeat(30)] {
        let error = Server::bind(address).unwrap_err();
        assert!(matches!(error, ServerError::Bind { .. }), "{address}: {error}");
    }
}
