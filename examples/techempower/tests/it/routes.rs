//! The checks of the benchmark's public verification, and that an update is in the database when it
//! is answered.

use std::collections::HashSet;
use std::process::Command;

use marmota::model::{Field, Kind, Role, Schema, Value};
use marmota_mariadb::TemporaryMariadb;
use marmota_postgres::TemporaryPostgres;
use serde_json::Value as Json;

use crate::program::{Connection, Program};

fn number(object: &Json, name: &str) -> i64 {
    let number = object[name].as_i64().unwrap_or_else(|| panic!("{object} has no number {name}"));
    assert!((1..=10_000).contains(&number), "{object}");
    number
}

fn check_world(object: &Json) -> (i64, i64) {
    assert_eq!(object.as_object().unwrap().len(), 2, "{object}");
    (number(object, "id"), number(object, "randomNumber"))
}

fn check_worlds(array: &Json, count: usize) -> Vec<(i64, i64)> {
    let worlds: Vec<_> = array.as_array().unwrap().iter().map(check_world).collect();
    assert_eq!(worlds.len(), count);
    worlds
}

/// The counts that the verification requests, and the number of rows expected for each.
const COUNTS: [(&str, usize); 10] = [
    ("", 1),
    ("=", 1),
    ("=foo", 1),
    ("=0", 1),
    ("=-3", 1),
    ("=1.5", 1),
    ("=2", 2),
    ("=20", 20),
    ("=501", 500),
    ("=99999999999999999999", 500),
];

/// The paths of the three families.
const FAMILIES: [&str; 3] = ["", "raw", "async"];

/// Runs a test's body on each engine.
fn on_each_engine(body: fn(&Program)) {
    body(&Program::on_sqlite());
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    body(&Program::on_postgres(&server));
    let server = TemporaryMariadb::start().unwrap();
    body(&Program::on_mariadb(&server));
}

#[test]
fn every_route_conforms_to_its_rules() {
    on_each_engine(every_route);
}

fn every_route(program: &Program) {
    let plaintext = program.get("/plaintext");
    assert_eq!(plaintext.body, b"Hello, World!");
    assert!(plaintext.header("content-type").starts_with("text/plain"));
    plaintext.check_headers();
    let json = program.json("/json");
    assert_eq!(json, serde_json::json!({"message": "Hello, World!"}));
    program.get("/json").check_headers();
    for family in FAMILIES {
        program.get(&format!("/{family}fortunes")).check_headers();
        let path = format!("/{family}db");
        program.get(&path).check_headers();
        let ids: HashSet<i64> = (0..20).map(|_| check_world(&program.json(&path)).0).collect();
        assert!(ids.len() > 10, "{path} is not at random");
    }
    let cached = ["/cached-queries", "/rawcached", "/asynccached"];
    let counted = FAMILIES.iter().flat_map(|family| {
        [(format!("/{family}queries"), "queries"), (format!("/{family}updates"), "queries")]
    });
    for (path, name) in counted.chain(cached.map(|path| (path.to_owned(), "count"))) {
        check_worlds(&program.json(&path), 1);
        for (value, count) in COUNTS {
            let worlds = check_worlds(&program.json(&format!("{path}?{name}{value}")), count);
            let ids: HashSet<i64> = worlds.iter().map(|(id, _)| *id).collect();
            assert!(ids.len() * 10 >= count * 8, "{path} is not at random");
        }
    }
}

#[test]
fn an_update_is_in_the_database_when_it_is_answered() {
    on_each_engine(an_update);
}

fn an_update(program: &Program) {
    let schema = Schema::new(
        "world",
        vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("randomnumber", Kind::Int { min: i32::MIN.into(), max: i32::MAX.into() }),
        ],
    );
    let store = marmota::open(&program.url).unwrap().schema(schema).open().unwrap();
    let table = store.table("world").unwrap();
    for family in FAMILIES {
        let path = format!("/{family}updates?queries=20");
        let before = store.list_records(&table).run().unwrap();
        let answered = check_worlds(&program.json(&path), 20);
        let mut changed = 0;
        // A row may be drawn twice; its last number remains.
        let last: std::collections::HashMap<i64, i64> = answered.into_iter().collect();
        for (id, number) in last {
            let row = store.get_record(&table, id).run().unwrap();
            assert_eq!(row.value("randomnumber").unwrap(), &Value::Int(number), "{path} {id}");
            let old = &before[id as usize - 1];
            changed += u32::from(old.value("randomnumber").unwrap() != &Value::Int(number));
        }
        assert!(changed >= 15, "{path} changed only {changed} rows");
    }
}

#[test]
fn fortunes_are_escaped_and_sorted_with_an_additional_one() {
    on_each_engine(fortunes);
    fortunes(&Program::with_mustache());
}

fn fortunes(program: &Program) {
    for family in FAMILIES {
        let path = format!("/{family}fortunes");
        let answer = program.get(&path);
        assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
        let page = String::from_utf8(answer.body).unwrap();
        // The verification accepts any equivalent escape.
        let page = page
            .replace("&#34;", "&quot;")
            .replace('\'', "&apos;")
            .replace("&#39;", "&apos;")
            .replace("&#x27;", "&apos;")
            .replace("&#60;", "&lt;")
            .replace("&#62;", "&gt;");
        assert_eq!(page, include_str!("fortunes.html"), "{path}");
    }
}

#[test]
fn pipelined_answers_come_in_order() {
    on_each_engine(pipelined);
}

fn pipelined(program: &Program) {
    let mut connection = program.connect();
    let paths = ["/plaintext", "/db", "/json", "/fortunes", "/asyncdb", "/rawdb"];
    for path in paths {
        connection.send(path);
    }
    for path in paths {
        let body = connection.receive(path).body;
        let fits = match path {
            "/plaintext" => body == b"Hello, World!",
            "/json" => body.starts_with(b"{\"message\""),
            "/fortunes" => body.starts_with(b"<!DOCTYPE html>"),
            _ => body.starts_with(b"{\"id\""),
        };
        assert!(fits, "{path}: {}", String::from_utf8_lossy(&body));
    }
}

#[test]
fn five_hundred_and_twelve_connections_get_no_error() {
    on_each_engine(many_connections);
}

fn many_connections(program: &Program) {
    let mut connections: Vec<Connection> = (0..512).map(|_| program.connect()).collect();
    for path in ["/plaintext", "/db", "/queries?queries=5", "/updates?queries=5", "/fortunes"] {
        for connection in &mut connections {
            connection.send(path);
        }
        for connection in &mut connections {
            assert!(!connection.receive(path).body.is_empty());
        }
    }
}

#[test]
fn it_exits_cleanly_on_a_signal() {
    let mut program = Program::on_sqlite();
    program.get("/updates?queries=20");
    let pid = program.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let status = program.child.wait().unwrap();
    assert!(status.success(), "{status}");
    let file = program.url.trim_start_matches("sqlite:").split('?').next().unwrap();
    let log = std::path::PathBuf::from(format!("{file}-wal"));
    assert!(!log.exists() || log.metadata().unwrap().len() == 0, "the log was not emptied");
}
