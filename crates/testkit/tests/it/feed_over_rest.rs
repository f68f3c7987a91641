//! Two servers over REST with caches on one database: what a client wrote through one of them, it
//! reads through the other.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use marmota_derive::Model;
use marmota_http::{RunningServer, Server};
use marmota_mariadb::Mariadb;
use marmota_postgres::Postgres;
use marmota_rest::Api;
use marmota_store::change::ChangeRetention;
use marmota_store::engine::Engine;
use marmota_store::{Idempotency, Store};

#[derive(Clone, Debug, Model)]
struct Visit {
    id: i64,
    place: String,
}

fn serve(engine: impl Engine + 'static) -> (Store, RunningServer) {
    let builder = Store::builder(engine).model::<Visit>().cache(1 << 20);
    let builder = builder.changes(ChangeRetention::default());
    let store = builder.idempotency(Idempotency::default()).open().unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.start(Api::new(&store).router()).unwrap();
    (store, server)
}

/// Sends a request, and returns the response.
fn send(to: SocketAddr, request: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{headers}\r\n{body}"
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn header<'r>(response: &'r str, name: &str) -> &'r str {
    let line = response.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(": ")).unwrap_or_else(|| panic!("{name}: {response}")).1
}

#[test]
fn what_was_written_through_one_server_is_read_through_the_other_on_postgres() {
    let url = crate::postgres_url();
    let open = || Postgres::from_url(&url).unwrap();
    what_was_written_is_read(serve(open()), serve(open()));
}

#[test]
fn what_was_written_through_one_server_is_read_through_the_other_on_mariadb() {
    let url = crate::mariadb_url();
    let open = || Mariadb::from_url(&url).unwrap();
    what_was_written_is_read(serve(open()), serve(open()));
}

fn what_was_written_is_read(
    (_one, here): (Store, RunningServer),
    (_other, there): (Store, RunningServer),
) {
    for number in 0..20 {
        let row = format!(r#"{{"place":"place {number}"}}"#);
        let written = send(here.local_addr(), "POST /api/visit", "", &row);
        let (path, position) = (header(&written, "Location"), header(&written, "Marmota-Position"));
        let after = format!("Marmota-After: {position}\r\n");
        let read = send(there.local_addr(), &format!("GET {path}"), &after, "");
        assert!(read.starts_with("HTTP/1.1 200"), "{read}");
        assert!(read.contains(&format!("place {number}")), "{read}");
        // The row is in the other server's cache when it changes.
        send(there.local_addr(), &format!("GET {path}"), "", "");
        let patch = format!("PATCH {path}");
        let patched = send(here.local_addr(), &patch, "", r#"{"place":"moved"}"#);
        let after = format!("Marmota-After: {}\r\n", header(&patched, "Marmota-Position"));
        let read = send(there.local_addr(), &format!("GET {path}"), &after, "");
        assert!(read.contains("moved"), "{read}");
    }
    // The other server repeats the answer, also before it has the commit.
    for number in 0..10 {
        let insert = |to: &RunningServer| {
            let (key, row) = (format!("Idempotency-Key: {number}\r\n"), r#"{"place":"once"}"#);
            send(to.local_addr(), "POST /api/visit", &key, row)
        };
        let (first, again) = (insert(&here), insert(&there));
        assert!(again.contains("Idempotent-Replayed: true"), "{again}");
        assert_eq!(header(&again, "Location"), header(&first, "Location"));
        let position = header(&again, "Marmota-Position");
        assert!(header(&first, "Marmota-Position") <= position, "{first} {again}");
        let get = format!("GET {}", header(&again, "Location"));
        for server in [&there, &here] {
            let after = format!("Marmota-After: {position}\r\n");
            let read = send(server.local_addr(), &get, &after, "");
            assert!(read.starts_with("HTTP/1.1 200"), "{read}");
        }
    }
}
