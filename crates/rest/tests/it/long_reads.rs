//! Long reads over HTTP: no other request waits for them, and they end with the
//! time of their endpoint.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use marmota_http::{Endpoint, Method, Request, RunningServer, Server};
use marmota_model::{Field, Kind, Role, Schema};
use marmota_rest::Api;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;

use crate::client::Client;

const ROWS: u64 = 100_000;
/// The terms of the filter that once stopped a thread for a second.
const TERMS: usize = 240;
/// How long a small request may wait.
const WAIT_MAX: Duration = Duration::from_millis(20);
/// The machine may be busy: so often is it measured, and the best counts.
const TRIES: usize = 8;
const LONG: Duration = Duration::from_secs(30);

/// A service of one thread over a table of many rows.
struct Service {
    store: Store,
    server: RunningServer,
    _folder: tempfile::TempDir,
}

fn schema(name: &'static str) -> Schema {
    let key = Field::new("id", Kind::I64).role(Role::Key);
    Schema::new(name, vec![key, Field::new("text", Kind::TEXT)])
}

/// A statement that takes for ever, nearly.
async fn endless(store: Store) -> String {
    let text = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c LIMIT 100000000000) \
                SELECT count(*) FROM c";
    let counted = store.sql(text).map(|row| row.read_at::<i64>(0)).await;
    format!("{counted:?}")
}

fn serve() -> Service {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { read_deadline_ms: 0, ..SqliteOptions::default() };
    let engine = Sqlite::open(Location::File(folder.path().join("a.db")), options).unwrap();
    let store =
        Store::builder(engine).schema(schema("note")).schema(schema("word")).open().unwrap();
    let fill = format!(
        "INSERT INTO note WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n < \
         {ROWS}) SELECT n, 'note ' || n FROM c"
    );
    assert_eq!(store.execute(fill).run().unwrap(), ROWS);
    store.execute("INSERT INTO word VALUES (1, 'one')").run().unwrap();
    let (of_client, of_endpoint) = (store.clone(), store.clone());
    let unlimited = move |_: Request| endless(of_client.clone());
    let limited = move |_: Request| endless(of_endpoint.clone());
    let router = Api::new(&store)
        .router()
        .on(Method::Get, "/endless", Endpoint::future(unlimited))
        .on(Method::Get, "/limited", Endpoint::future(limited).timeout_ms(50));
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).threads_per_listener(1);
    let server = server.start(router).unwrap();
    Service { store, server, _folder: folder }
}

impl Service {
    fn address(&self) -> SocketAddr {
        self.server.local_addr()
    }

    fn client(&self) -> Client {
        Client::new(self.address())
    }

    /// Waits until so many reads were given up.
    fn cancelled(&self, count: u64) {
        let until = Instant::now() + LONG;
        while self.store.statistics().engine.reads_cancelled < count {
            assert!(Instant::now() < until, "{:?}", self.store.statistics().engine);
            thread::yield_now();
        }
    }
}

/// The longest wait of small requests while a thread reads a target.
fn longest_wait(service: &Service, target: &str) -> Duration {
    let (address, target) = (service.address(), target.to_owned());
    let reader = thread::spawn(move || Client::new(address).get(&target).is(200).body.len());
    let (mut client, mut longest) = (service.client(), Duration::ZERO);
    loop {
        let is_last = reader.is_finished();
        let asked = Instant::now();
        client.get("/api/word/1").is(200);
        longest = longest.max(asked.elapsed());
        if is_last {
            break;
        }
    }
    assert!(reader.join().unwrap() > 0);
    longest
}

#[test]
fn a_filter_of_many_terms_keeps_no_other_request_waiting() {
    let service = serve();
    let terms: Vec<String> = (0..TERMS).map(|n| format!("text%20~%20%27no%20{n}%27")).collect();
    let target = format!("/api/note?filter={}", terms.join("%20or%20"));
    let waits: Vec<Duration> = (0..TRIES).map(|_| longest_wait(&service, &target)).collect();
    assert!(waits.iter().min() < Some(&WAIT_MAX), "the longest wait of each try: {waits:?}");
    assert!(service.store.statistics().engine.read_handovers >= TRIES as u64);
}

#[test]
fn the_time_of_an_endpoint_ends_its_reads() {
    let service = serve();
    assert_eq!(service.client().get("/limited").status, 503);
    service.cancelled(1);
    service.client().get("/api/word/1").is(200);
}
