//! Several servers on one port.

use std::net::SocketAddr;

use marmota_http::{Router, RunningServer, Server};

use super::client::{backend, get};

/// More connections than could all come to one of two servers.
const CONNECTIONS: usize = 200;

fn start(server: Server, name: &'static str) -> RunningServer {
    let router = Router::new().get("/", move |_| async move { name });
    server.listeners(1).backend(backend()).start(router).unwrap()
}

/// Who answers so many connections.
fn who_answers(address: SocketAddr) -> Vec<String> {
    let mut names: Vec<String> =
        (0..CONNECTIONS).map(|_| get(address, "/").text().to_owned()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn servers_that_share_a_port_all_get_connections() {
    let first = start(Server::bind_shared("127.0.0.1:0").unwrap(), "first");
    let address = first.local_addr();
    let second = start(Server::bind_shared(address).unwrap(), "second");
    assert_eq!(second.local_addr(), address);
    assert_eq!(who_answers(address), ["first", "second"]);
    let alone = Server::bind(address).unwrap_err().to_string();
    assert!(alone.contains("choose another address"), "{alone}");
    // What comes after the end of one comes to the others.
    first.shutdown().unwrap();
    assert_eq!(who_answers(address), ["second"]);
}

#[test]
fn a_port_that_is_not_shared_is_refused_to_those_that_would() {
    for everywhere in ["127.0.0.1:0", "0.0.0.0:0"] {
        let alone = start(Server::bind(everywhere).unwrap(), "alone");
        let address = SocketAddr::from(([127, 0, 0, 1], alone.local_addr().port()));
        let error = Server::bind_shared(address).unwrap_err().to_string();
        assert!(error.contains("does not share it"), "{error}");
        assert_eq!(who_answers(address), ["alone"]);
    }
}

#[test]
fn a_unix_socket_is_not_shared() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("unix:{}", folder.path().join("socket").display());
    let error = Server::bind_shared(&path).unwrap_err().to_string();
    assert!(error.contains("only TCP ports can be shared"), "{error}");
    // One beside a port that is shared is this server's alone.
    let first = Server::bind_shared("127.0.0.1:0").unwrap().also_bind(&path).unwrap();
    let second = Server::bind_shared(first.local_addr()).unwrap();
    assert!(second.also_bind(&path).is_err());
}
