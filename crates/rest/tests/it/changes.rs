//! Positions of the change feed: responses to writes have them, and requests wait for them.

use marmota_http::{RunningServer, Server};
use marmota_memory::Memory;
use marmota_model::{Field, Kind, Role, Schema};
use marmota_rest::Api;
use marmota_sqlite::Sqlite;
use marmota_store::change::ChangeRetention;
use marmota_store::engine::Engine;
use marmota_store::{Idempotency, Store};

use crate::client::Client;

fn city() -> Schema {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("name", Kind::TEXT).unique(true),
        Field::new("people", Kind::I64).nullable(true),
        Field::new("map", Kind::Blob).nullable(true),
    ];
    Schema::new("city", fields)
}

fn serve(engine: impl Into<Box<dyn Engine>>) -> (Store, RunningServer) {
    let store = Store::builder(engine).schema(city()).changes(ChangeRetention::default());
    let store = store.idempotency(Idempotency::default()).open().unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.start(Api::new(&store).router()).unwrap();
    (store, server)
}

fn client(server: &RunningServer) -> Client {
    Client::new(server.local_addr())
}

#[test]
fn each_write_has_its_position() {
    let (store, server) = serve(Memory::new());
    let client = &mut client(&server);
    let mut last = store.position().unwrap();
    for (request, body, status) in [
        ("POST /api/city", r#"{"name":"a"}"#, 201),
        ("POST /api/city", r#"[{"name":"b"},{"name":"c"}]"#, 201),
        ("PATCH /api/city/1", r#"{"people":5}"#, 200),
        ("PUT /api/city/2", r#"{"name":"bb"}"#, 200),
        ("POST /api/city/1/people/increment", r#"{"by":3}"#, 200),
        ("POST /api/batch", r#"{"operations":[{"delete":"city","key":2}]}"#, 200),
        ("DELETE /api/city/1", "", 204),
        ("DELETE /api/city?filter=id>0", "", 200),
    ] {
        let answer = client.json(request, body).is(status);
        let position = answer.header("marmota-position").unwrap_or_else(|| panic!("{request}"));
        let position = position.parse().unwrap();
        assert!(last < position, "{request}");
        assert_eq!(position, store.position().unwrap(), "{request}");
        last = position;
    }
    for (request, body, status) in [
        ("GET /api/city", "", 200),
        ("POST /api/city", r#"{"people":1}"#, 422),
        ("DELETE /api/city?filter=id>0", "", 200),
        ("PATCH /api/city/99", r#"{"people":5}"#, 404),
    ] {
        let answer = client.json(request, body).is(status);
        assert_eq!(answer.header("marmota-position"), None, "{request}");
    }
}

#[test]
fn what_one_process_wrote_is_read_through_another() {
    let folder = tempfile::tempdir().unwrap();
    let engine =
        || Sqlite::from_url(&format!("sqlite:{}", folder.path().join("a.db").display())).unwrap();
    let ((_a, here), (_b, there)) = (serve(engine()), serve(engine()));
    let (here, there) = (&mut client(&here), &mut client(&there));
    for number in 0..20 {
        let row = format!(r#"{{"name":"city {number}"}}"#);
        let written = here.json("POST /api/city", &row).is(201);
        let after = format!("Marmota-After: {}", written.header("marmota-position").unwrap());
        let path = written.header("location").unwrap();
        there.send(&format!("GET {path}"), &[&after], b"").is(200);
    }
}

#[test]
fn a_repeated_answer_has_a_position_with_its_write() {
    let folder = tempfile::tempdir().unwrap();
    let engine =
        || Sqlite::from_url(&format!("sqlite:{}", folder.path().join("a.db").display())).unwrap();
    let ((_a, here), (_b, there)) = (serve(engine()), serve(engine()));
    let (here, there) = (&mut client(&here), &mut client(&there));
    for (number, (path, body)) in [
        ("city", r#"{"name":"a"}"#),
        ("city", r#"[{"name":"b"},{"name":"c"}]"#),
        ("batch", r#"{"operations":[{"insert":"city","row":{"name":"d"}}]}"#),
    ]
    .into_iter()
    .enumerate()
    {
        let headers = [&*format!("Idempotency-Key: {number}"), "Content-Type: application/json"];
        let request = format!("POST /api/{path}");
        let first = here.send(&request, &headers, body.as_bytes());
        let repeat = there.send(&request, &headers, body.as_bytes());
        assert_eq!(repeat.header("idempotent-replayed"), Some("true"), "{path}");
        let (first, position) =
            (first.header("marmota-position"), repeat.header("marmota-position"));
        assert!(first.is_some() && first <= position, "{path}: {first:?} {position:?}");
        let after = format!("Marmota-After: {}", position.unwrap());
        for client in [&mut *here, &mut *there] {
            let count = client.send("GET /api/city?count=true", &[&after], b"").is(200);
            count.says(&format!(r#""count":{}"#, [1, 3, 4][number]));
        }
    }
}

#[test]
fn a_position_that_cannot_be_reached_is_refused() {
    let (store, server) = serve(Memory::new());
    let client = &mut client(&server);
    client.json("POST /api/city", r#"{"name":"a"}"#).is(201);
    let position = store.position().unwrap().to_string();
    let get = |client: &mut Client, position: &str| {
        client.send("GET /api/city", &[&format!("Marmota-After: {position}")], b"")
    };
    get(client, &position).is(200);
    get(client, "7").refuses(400).says("is not a position");
    let other = format!("{:016x}{}", 1, &position[16..]);
    get(client, &other).refuses(400).says("another database");
    let future = format!("{}{:016x}", &position[..16], 99);
    get(client, &future).refuses(504).says("was not reached");

    let without = Store::builder(Memory::new()).schema(city()).open().unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.start(Api::new(&without).router()).unwrap();
    get(&mut Client::new(server.local_addr()), &position).refuses(501).says("records no changes");
}
