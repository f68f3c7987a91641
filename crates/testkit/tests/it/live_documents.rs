//! Live lists while four writers write at random and clients lose their connections: each document
//! is the page that the rows had at the position of its event.
//!
//! Where several processes can have the database open, two writers and a server are in another
//! process. The expected pages are computed from the feed: rows by key, to which each commit is
//! applied in order. `LIVE_DOCUMENTS_WRITES` sets the writes of each writer, `LIVE_DOCUMENTS_SEED`
//! the seed.

#[allow(dead_code, reason = "the tests of REST use more of it")]
#[path = "../../../rest/tests/it/live_events.rs"]
mod live_events;
mod page;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use marmota_derive::Model;
use marmota_http::{RunningServer, Server};
use marmota_mariadb::Mariadb;
use marmota_memory::Memory;
use marmota_model::ErrorKind;
use marmota_postgres::Postgres;
use marmota_rest::Api;
use marmota_sqlite::Sqlite;
use marmota_store::Store;
use marmota_store::action::block_on;
use marmota_store::change::{ChangeRetention, FeedEvent, Position};
use marmota_store::live::ResumePoint;

use live_events::Events;
use page::{PAGES, Rows, digest, of_document};

#[derive(Clone, Debug, PartialEq, Model)]
struct Ticket {
    #[model(key)]
    name: String,
    state: i64,
    rank: i64,
    text: String,
}

fn open(url: &str) -> Store {
    let builder = match url.split_once(':').unwrap().0 {
        "memory" => Store::builder(Memory::from_url(url).unwrap()),
        "sqlite" => Store::builder(Sqlite::from_url(url).unwrap()),
        "postgres" => Store::builder(Postgres::from_url(url).unwrap()),
        _ => Store::builder(Mariadb::from_url(url).unwrap()),
    };
    builder.model::<Ticket>().changes(ChangeRetention::unlimited()).open().unwrap()
}

fn serve(store: &Store) -> RunningServer {
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    server.start(Api::new(store).router()).unwrap()
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Has two threads write. Returns when all is acknowledged.
fn write_all(store: &Store, seed: u64, writes: u64) {
    thread::scope(|scope| {
        for thread in 0..2 {
            let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(31).wrapping_add(thread));
            scope.spawn(move || (0..writes).for_each(|_| write(store, &mut random)));
        }
    });
}

/// Makes a random write: of one row, or of several by a filter, a list or a transaction.
fn write(store: &Store, random: &mut fastrand::Rng) {
    let name = |random: &mut fastrand::Rng| format!("t{:03}", random.u8(..150));
    let ticket = |random: &mut fastrand::Rng| Ticket {
        name: name(random),
        state: random.i64(0..6),
        rank: random.i64(0..1000),
        text: ["alpha", "beta", "\u{e9}t\u{e9} \"\\"][random.usize(..3)].to_owned(),
    };
    let done = match random.u8(..12) {
        0..4 => store.upsert(&ticket(random)).run().map(drop),
        4..7 => {
            let rank = random.i64(0..1000);
            store.patch::<Ticket>(name(random)).set(Ticket::RANK, rank).run().map(drop)
        }
        7 => {
            let state = random.i64(0..6);
            store.patch::<Ticket>(name(random)).set(Ticket::STATE, state).run().map(drop)
        }
        8 => store.delete::<Ticket>(name(random)).run(),
        9 => {
            let rank = random.i64(0..990);
            let filter = Ticket::RANK.ge(rank).and(Ticket::RANK.lt(rank + 10));
            store.delete_where(filter).run().map(drop)
        }
        10 => {
            let tickets: Vec<Ticket> = (0..5).map(|_| ticket(random)).collect();
            store.upsert_many(&tickets).run().map(drop)
        }
        _ => {
            let (one, other, rank) = (ticket(random), name(random), random.i64(0..1000));
            store.transaction(|tx| {
                tx.upsert(&one).run()?;
                tx.patch::<Ticket>(&*other).set(Ticket::RANK, rank).run()?;
                Ok(())
            })
        }
    };
    // Other writers delete and lock the same rows.
    if let Err(error) = done {
        let kinds = [ErrorKind::NotFound, ErrorKind::Conflict, ErrorKind::Busy];
        assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
    }
}

/// Another process that serves the database and writes to it.
struct Other {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    address: SocketAddr,
}

impl Other {
    fn start(url: &str, seed: u64, writes: u64) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "live_documents::writes_and_serves", "--nocapture"])
            .env("MARMOTA_DATABASE", url)
            .env("LIVE_DOCUMENTS_SEED", seed.to_string())
            .env("LIVE_DOCUMENTS_WRITES", writes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = next_with(&mut lines, "address ").parse().unwrap();
        Self { process, lines, address }
    }

    /// Waits until its writes are acknowledged.
    fn wait(&mut self) {
        next_with(&mut self.lines, "written");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It ends at the end of its input.
        drop(self.process.stdin.take());
        self.process.wait().unwrap();
    }
}

fn next_with(lines: &mut impl Iterator<Item = std::io::Result<String>>, start: &str) -> String {
    loop {
        let line = lines.next().expect("the other process has ended").unwrap();
        if let Some(rest) = line.strip_prefix(start) {
            return rest.to_owned();
        }
    }
}

/// The process of [`Other`].
#[test]
#[ignore = "a process that another test starts"]
fn writes_and_serves() {
    let url = std::env::var("MARMOTA_DATABASE").expect("started by another test");
    let store = open(&url);
    let server = serve(&store);
    let mut out = std::fs::File::from(
        std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned().unwrap(),
    );
    writeln!(out, "\naddress {}", server.local_addr()).unwrap();
    let (seed, writes) = (setting("LIVE_DOCUMENTS_SEED"), setting("LIVE_DOCUMENTS_WRITES"));
    write_all(&store, seed.unwrap(), writes.unwrap());
    writeln!(out, "written").unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// What a client has seen: digests of its documents, by position.
type Seen = Vec<(Position, u64)>;

/// Follows a page, also over new connections, until it is the last one.
fn follow(
    address: SocketAddr,
    page: usize,
    mut random: fastrand::Rng,
    last: &OnceLock<Vec<u64>>,
    first: &mpsc::Sender<()>,
) -> Seen {
    let target = PAGES[page].target;
    let mut events = Events::open(address, target, "");
    let mut seen = Seen::new();
    let mut until = None;
    loop {
        if events.next_within(Duration::from_millis(20)) {
            let point: ResumePoint = events.id.parse().unwrap();
            seen.push((point.position, digest(&of_document(&events.document))));
            events.data.clear();
            events.names.clear();
            if seen.len() == 1 {
                // The test may have ended.
                let _ = first.send(());
            }
        } else if events.is_ended {
            panic!("{target}: the server has ended the response");
        } else if let Some(last) = last.get() {
            let is_last = seen.last().is_some_and(|(_, digest)| last.get(page) == Some(digest));
            if is_last || last.is_empty() {
                return seen;
            }
            let until = *until.get_or_insert_with(|| Instant::now() + Duration::from_secs(30));
            let document = &events.document;
            assert!(
                Instant::now() < until,
                "{target} at {}: not the last page: {document}",
                events.id
            );
        }
        // The connection is lost, often in the middle of an event, and the client continues; or it
        // has forgotten where it was.
        match random.u8(..) {
            0..6 => {
                let (id, document) = (events.id.clone(), std::mem::take(&mut events.document));
                let header = format!("Last-Event-ID: {id}\r\n");
                events = Events::open(address, target, &header);
                (events.id, events.document) = (id, document);
            }
            6 => events = Events::open(address, target, ""),
            _ => {}
        }
    }
}

/// Ends the clients of a test that has failed.
struct Ending<'l>(&'l OnceLock<Vec<u64>>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.get_or_init(Vec::new);
    }
}

fn each_document_is_the_page_at_its_position(url: &str, has_processes: bool, writes: u64) {
    let seed = setting("LIVE_DOCUMENTS_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    let writes = setting("LIVE_DOCUMENTS_WRITES").unwrap_or(writes);
    println!("{url}: LIVE_DOCUMENTS_SEED={seed}");
    let store = open(url);
    let start = store.position().unwrap();
    let server = serve(&store);
    let last = OnceLock::new();
    let mut other = has_processes.then(|| Other::start(url, seed ^ 1, writes));
    let addresses =
        [server.local_addr(), other.as_ref().map_or(server.local_addr(), |it| it.address)];
    let (seen, digests) = thread::scope(|scope| {
        let last = &last;
        let _ending = Ending(last);
        let mut clients = Vec::new();
        let (first, firsts) = mpsc::channel();
        for (number, address) in addresses.into_iter().enumerate() {
            for page in 0..PAGES.len() {
                let random = fastrand::Rng::with_seed(seed + (number * PAGES.len() + page) as u64);
                let first = first.clone();
                clients.push(scope.spawn(move || follow(address, page, random, last, &first)));
            }
        }
        // On a busy machine, all could be written before a client has its first page.
        for _ in &clients {
            firsts.recv_timeout(Duration::from_secs(60)).expect("each client gets a page");
        }
        let here = scope.spawn(|| write_all(&store, seed, writes));
        match &mut other {
            Some(other) => other.wait(),
            None => write_all(&store, seed ^ 1, writes),
        }
        here.join().unwrap();
        let end =
            Ticket { name: "end".to_owned(), state: 3, rank: 2_000, text: "alpha".to_owned() };
        store.upsert(&end).run().unwrap();
        let (digests, end) = digests(&store, start);
        last.set(digests[&end].clone()).unwrap();
        let seen: Vec<Seen> = clients.into_iter().map(|it| it.join().unwrap()).collect();
        (seen, digests)
    });
    let mut events = 0;
    for (client, seen) in seen.iter().enumerate() {
        let page = client % PAGES.len();
        events += seen.len();
        for (position, digest) in seen {
            let expected = digests.get(position).map(|all| all[page]);
            let target = PAGES[page].target;
            assert_eq!(expected, Some(*digest), "client {client}, {target} at {position}");
        }
    }
    println!("{url}: {} commits, {events} events, 0 differences", digests.len() - 1);
    assert!(events > PAGES.len() * 2, "only {events} events");
}

/// Returns the digests of all pages at each position from the start to the commit of the row `end`,
/// and its position.
fn digests(store: &Store, start: Position) -> (HashMap<Position, Vec<u64>>, Position) {
    let mut stream = store.changes().unwrap().from(start).unwrap();
    let mut rows = Rows::new();
    let digests = |rows: &Rows| PAGES.iter().map(|page| digest(&page.of(rows))).collect();
    let mut all = HashMap::from([(start, digests(&rows))]);
    while !rows.contains_key("end") {
        let Some(FeedEvent::Commit(commit)) = block_on(stream.next()).unwrap() else {
            panic!("the feed has a gap");
        };
        assert!(!all.contains_key(&commit.position), "{} again", commit.position);
        for change in &commit.changes {
            page::apply(&mut rows, change);
        }
        all.insert(commit.position, digests(&rows));
    }
    // The feed leads to the rows.
    let listed = store.list::<Ticket>().run().unwrap();
    assert_eq!(listed, rows.into_values().collect::<Vec<_>>());
    (all, stream.position())
}

#[test]
fn each_document_is_the_page_on_memory() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("memory:{}?durability=relaxed", folder.path().join("a.mem").display());
    each_document_is_the_page_at_its_position(&url, false, 150);
}

#[test]
fn each_document_is_the_page_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}?durability=relaxed", folder.path().join("a.db").display());
    each_document_is_the_page_at_its_position(&url, true, 150);
}

#[test]
fn each_document_is_the_page_on_postgres() {
    each_document_is_the_page_at_its_position(&crate::postgres_url(), true, 150);
}

#[test]
fn each_document_is_the_page_on_mariadb() {
    each_document_is_the_page_at_its_position(&crate::mariadb_url(), true, 150);
}
