//! The TechEmpower benchmark's rules, one by one, on the program itself over
//! a SQLite file: what its public verification checks, and that an update is
//! in the database when it is answered.

#![allow(clippy::unwrap_used, reason = "a test ends where its set-up fails")]

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use marmota::model::{Field, Kind, Role, Schema, Value};
use serde_json::Value as Json;

/// The program, on a port and a database file of its own.
struct Program {
    child: Child,
    address: SocketAddr,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Program {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("techempower.db");
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_techempower"))
            .args(["--address", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--db", &format!("sqlite:{}?durability=relaxed", file.display())])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, address, file, _folder: folder }
    }

    fn connect(&self) -> Connection {
        Connection(BufReader::new(TcpStream::connect(self.address).unwrap()))
    }

    fn get(&self, path: &str) -> Answer {
        self.connect().get(path)
    }

    fn json(&self, path: &str) -> Json {
        let answer = self.get(path);
        assert_eq!(answer.header("content-type"), "application/json", "{path}");
        serde_json::from_slice(&answer.body).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that is kept alive.
struct Connection(BufReader<TcpStream>);

struct Answer {
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Connection {
    fn send(&mut self, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
    }

    fn get(&mut self, path: &str) -> Answer {
        self.send(path);
        self.receive(path)
    }

    fn receive(&mut self, path: &str) -> Answer {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "{path}: closed");
            if line == "\r\n" {
                break;
            }
            lines.push(line.trim_end().to_owned());
        }
        assert_eq!(lines[0], "HTTP/1.1 200 OK", "{path}");
        let headers = lines[1..].iter().map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        let mut answer = Answer { headers: headers.collect(), body: Vec::new() };
        answer.body = vec![0; answer.header("content-length").parse().unwrap()];
        self.0.read_exact(&mut answer.body).unwrap();
        answer
    }
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        let mut found = self.headers.iter().filter(|(header, _)| header == name);
        let value = &found.next().unwrap_or_else(|| panic!("no header {name}")).1;
        assert!(found.next().is_none(), "two headers {name}");
        value
    }

    fn check_headers(&self) {
        assert!(!self.header("server").is_empty());
        assert_eq!(self.header("date").len(), "Sun, 06 Nov 1994 08:49:37 GMT".len());
    }
}

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

/// The counts that the verification asks for, and how many rows each gives.
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

#[test]
fn every_route_follows_its_rules() {
    let program = Program::start();
    let plaintext = program.get("/plaintext");
    assert_eq!(plaintext.body, b"Hello, World!");
    assert!(plaintext.header("content-type").starts_with("text/plain"));
    plaintext.check_headers();
    let json = program.json("/json");
    assert_eq!(json, serde_json::json!({"message": "Hello, World!"}));
    for path in ["/json", "/db", "/rawdb", "/fortunes", "/rawfortunes"] {
        program.get(path).check_headers();
    }
    for path in ["/db", "/rawdb"] {
        let ids: HashSet<i64> = (0..20).map(|_| check_world(&program.json(path)).0).collect();
        assert!(ids.len() > 10, "{path} is not at random");
    }
    for (path, name) in [
        ("/queries", "queries"),
        ("/rawqueries", "queries"),
        ("/cached-queries", "count"),
        ("/rawcached", "count"),
        ("/updates", "queries"),
        ("/rawupdates", "queries"),
    ] {
        check_worlds(&program.json(path), 1);
        for (value, count) in COUNTS {
            let worlds = check_worlds(&program.json(&format!("{path}?{name}{value}")), count);
            let ids: HashSet<i64> = worlds.iter().map(|(id, _)| *id).collect();
            assert!(ids.len() * 10 >= count * 8, "{path} is not at random");
        }
    }
}

#[test]
fn an_update_is_in_the_database_when_it_is_answered() {
    let program = Program::start();
    let schema = Schema::new(
        "world",
        vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("randomNumber", Kind::Int { min: i32::MIN.into(), max: i32::MAX.into() }),
        ],
    );
    let url = format!("sqlite:{}", program.file.display());
    let store = marmota::open(&url).unwrap().schema(schema).open().unwrap();
    let table = store.table("world").unwrap();
    for path in ["/updates?queries=20", "/rawupdates?queries=20"] {
        let before = store.list_records(&table, marmota::model::Query::new()).run().unwrap();
        let answered = check_worlds(&program.json(path), 20);
        let mut changed = 0;
        // A row may be drawn twice; the last number is the one that stays.
        let last: std::collections::HashMap<i64, i64> = answered.into_iter().collect();
        for (id, number) in last {
            let row = store.get_record(&table, id).run().unwrap();
            assert_eq!(row.value("randomNumber").unwrap(), &Value::Int(number), "{path} {id}");
            let old = &before[id as usize - 1];
            changed += u32::from(old.value("randomNumber").unwrap() != &Value::Int(number));
        }
        assert!(changed >= 15, "{path} changed only {changed} rows");
    }
}

#[test]
fn fortunes_are_escaped_sorted_and_one_more() {
    let program = Program::start();
    for path in ["/fortunes", "/rawfortunes"] {
        let answer = program.get(path);
        assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
        let page = String::from_utf8(answer.body).unwrap();
        // The verification takes any escape that means the same.
        let page = page
            .replace("&#34;", "&quot;")
            .replace("&#39;", "&apos;")
            .replace("&#x27;", "&apos;")
            .replace("&#60;", "&lt;")
            .replace("&#62;", "&gt;");
        assert_eq!(page, include_str!("fortunes.html"), "{path}");
    }
}

#[test]
fn pipelined_answers_come_in_order() {
    let program = Program::start();
    let mut connection = program.connect();
    let paths = ["/plaintext", "/db", "/json", "/fortunes", "/plaintext", "/rawdb"];
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
fn five_hundred_and_twelve_connections_see_no_error() {
    let program = Program::start();
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
fn it_ends_cleanly_on_a_signal() {
    let mut program = Program::start();
    program.get("/updates?queries=20");
    let pid = program.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let status = program.child.wait().unwrap();
    assert!(status.success(), "{status}");
    let log = program.file.with_extension("db-wal");
    assert!(!log.exists() || log.metadata().unwrap().len() == 0, "the log was not emptied");
}
