//! The memory that long lists take while they go in and out, as the system counts it: alone in
//! its process, so that no other test is counted with it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use marmota_http::Server;
use marmota_model::{Field, Kind, Role, Schema};
use marmota_sqlite::{Durability, Location, Sqlite, SqliteOptions};
use marmota_store::Store;

const ROWS: u64 = 1_000_000;
/// As many would be refused in one body, and are answered by more than a socket holds.
const OPERATIONS: u64 = 200_000;
/// What may be taken beside what an idle service takes; all rows are some 100 MB.
const GROWTH_BYTES_MAX: u64 = 12 << 20;

/// Without what is the file's own, mapped, and can be dropped at any time.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// The memory before and the most of it seen since.
struct Watched {
    before: u64,
    most: u64,
}

impl Watched {
    fn new() -> Self {
        let before = resident_bytes();
        Self { before, most: before }
    }

    fn look(&mut self) {
        self.most = self.most.max(resident_bytes());
        let growth = self.most - self.before;
        assert!(growth < GROWTH_BYTES_MAX, "{growth} bytes more than before");
    }
}

fn open() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions {
        durability: Durability::Relaxed,
        // SQLite's cache of pages is not what is measured.
        cache_bytes_max: 1 << 20,
        ..SqliteOptions::default()
    };
    let engine = Sqlite::open(Location::File(folder.path().join("lines.db")), options).unwrap();
    let line = Schema::new(
        "line",
        vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("words", Kind::TEXT)],
    );
    let store = Store::builder(engine).schema(line).open().unwrap();
    (folder, store)
}

/// Sends all rows in chunks, and gives the answer's body.
fn send(address: SocketAddr, watched: &mut Watched) -> String {
    let stream = TcpStream::connect(address).unwrap();
    let mut out = BufWriter::with_capacity(64 * 1024, &stream);
    write!(
        out,
        "POST /api/line HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    .unwrap();
    let mut chunk = String::new();
    for number in 1..=ROWS {
        chunk.push_str(&format!("{{\"words\":\"line {number} of many, {:>60}\"}}\n", "and more"));
        if chunk.len() > 30_000 || number == ROWS {
            write!(out, "{:x}\r\n{chunk}\r\n", chunk.len()).unwrap();
            chunk.clear();
        }
        if number % 50_000 == 0 {
            watched.look();
        }
    }
    write!(out, "0\r\n\r\n").unwrap();
    out.flush().unwrap();
    let mut answer = String::new();
    (&stream).read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Reads all rows, slowly at first, and gives how many there were.
fn receive(address: SocketAddr, watched: &mut Watched) -> u64 {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // Without chunks, so that lines can be read as they are.
    (&stream)
        .write_all(
            b"GET /api/line HTTP/1.0\r\nHost: localhost\r\nAccept: application/x-ndjson\r\n\r\n",
        )
        .unwrap();
    let mut lines = BufReader::with_capacity(64 * 1024, &stream).lines();
    while !lines.next().unwrap().unwrap().is_empty() {}
    let mut count = 0;
    for line in lines {
        count += 1;
        assert!(line.unwrap().starts_with(&format!("{{\"id\":{count},")));
        if count % 50_000 == 0 {
            watched.look();
        }
        if count < 10 {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    count
}

/// Sends operations in lines, and gives how many were answered that they are done.
fn operate(address: SocketAddr, watched: &mut Watched) -> u64 {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let line = |number: u64| format!("{{\"delete\":\"line\",\"key\":{number:>10}}}\n");
    let length = OPERATIONS * line(0).len() as u64;
    let sending = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut out = BufWriter::with_capacity(64 * 1024, &sending);
            write!(
                out,
                "POST /api/batch HTTP/1.0\r\nContent-Type: application/x-ndjson\r\n\
                 Content-Length: {length}\r\n\r\n"
            )
            .unwrap();
            for number in 1..=OPERATIONS {
                out.write_all(line(number).as_bytes()).unwrap();
            }
            out.flush().unwrap();
        });
        let mut lines = BufReader::with_capacity(64 * 1024, &stream).lines();
        while !lines.next().unwrap().unwrap().is_empty() {}
        let mut done = 0;
        for line in lines {
            assert_eq!(line.unwrap(), "{\"status\":204}");
            done += 1;
            if done % 10_000 == 0 {
                watched.look();
            }
        }
        done
    })
}

#[test]
fn a_million_rows_in_and_out_take_no_more_memory_than_a_few() {
    let (_folder, store) = open();
    let server = Server::bind("127.0.0.1:0").unwrap().start(marmota_rest::api(&store)).unwrap();
    let mut watched = Watched::new();
    let begun = Instant::now();
    assert_eq!(send(server.local_addr(), &mut watched), format!("{{\"inserted\":{ROWS}}}"));
    let sent = begun.elapsed();
    assert_eq!(receive(server.local_addr(), &mut watched), ROWS);
    assert_eq!(operate(server.local_addr(), &mut watched), OPERATIONS);
    let growth = watched.most - watched.before;
    eprintln!("in {sent:?}, in and out {:?}, {growth} bytes more", begun.elapsed());
    leave_in_the_middle(server.local_addr());
    server.shutdown().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(400));
}

/// Clients that go away in the middle hold nothing up: the server shuts down at once.
fn leave_in_the_middle(address: SocketAddr) {
    let out = TcpStream::connect(address).unwrap();
    (&out)
        .write_all(
            b"GET /api/line HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\n\r\n",
        )
        .unwrap();
    let mut piece = vec![0; 1 << 20];
    (&out).read_exact(&mut piece).unwrap();
    drop(out);
    let sent = TcpStream::connect(address).unwrap();
    (&sent)
        .write_all(
            b"POST /api/line HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n\
              Content-Length: 1000000\r\n\r\n{\"words\":\"a\"}\n{\"wor",
        )
        .unwrap();
    drop(sent);
}
