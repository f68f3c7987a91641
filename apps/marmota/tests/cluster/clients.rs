//! Clients of the cluster. Each inserts rows with idempotency keys, updates a row of its own, and
//! reads both back with the position of the write, until the test ends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Response;

const CLIENTS: usize = 6;
/// A request that has not succeeded for this long has failed.
const SUCCESS_MAX: Duration = Duration::from_secs(60);
/// The statuses of failures: of the program (502 an unknown outcome, 503 nothing was done, 504 too
/// late) and of nginx (502 and 504).
const FAILURES: [u16; 3] = [502, 503, 504];

pub(crate) struct Clients {
    ends: Arc<AtomicBool>,
    steps: Arc<[AtomicUsize; CLIENTS]>,
    threads: Vec<JoinHandle<ClientResult>>,
}

/// What one client has done.
struct ClientResult {
    /// The key of the row that it updates, and the number of its updates, which its value is.
    row: i64,
    steps: usize,
    /// The reads that a replica has executed.
    replica_reads: usize,
    failures: BTreeMap<String, usize>,
}

pub(crate) struct Results(Vec<ClientResult>);

struct Client {
    name: String,
    url: String,
    agent: Agent,
    replica_reads: usize,
    failures: BTreeMap<String, usize>,
}

fn agent() -> Agent {
    let config = Agent::config_builder().http_status_as_error(false);
    config.timeout_global(Some(Duration::from_secs(10))).build().into()
}

fn body_of(answer: Response<ureq::Body>) -> Value {
    let text = answer.into_body().read_to_string().unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

impl Client {
    /// Sends a request until it succeeds.
    fn until_success(
        &mut self,
        what: &str,
        request: impl Fn(&Agent, &str) -> Result<Response<ureq::Body>, ureq::Error>,
    ) -> Response<ureq::Body> {
        let begun = Instant::now();
        loop {
            let failure = match request(&self.agent, &self.url) {
                Ok(answer) if answer.status().is_success() => return answer,
                Ok(answer) => {
                    let status = answer.status().as_u16();
                    let text = answer.into_body().read_to_string().unwrap_or_default();
                    assert!(FAILURES.contains(&status), "{what}: {status} {text}");
                    format!("{what} {status}")
                }
                Err(error) => format!("{what} {error}"),
            };
            assert!(begun.elapsed() < SUCCESS_MAX, "{}: {failure}", self.name);
            *self.failures.entry(failure).or_default() += 1;
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Inserts a row, whose answer may get lost: its key is that of the first time.
    fn insert(&mut self, number: usize) -> (i64, String) {
        let (key, row) = (format!("{}-{number}", self.name), self.row(&number.to_string()));
        let answer = self.until_success("insert", |agent, url| {
            let insert = agent.post(format!("{url}/api/person")).header("Idempotency-Key", &key);
            insert.content_type("application/json").send(row.to_string())
        });
        let place = answer.headers()["location"].to_str().unwrap();
        let key = place.rsplit('/').next().unwrap().parse().unwrap();
        (key, position(&answer))
    }

    fn row(&self, number: &str) -> Value {
        json!({ "first_name": self.name, "last_name": number, "year_of_birth": 1900 })
    }

    fn run(mut self, ends: &AtomicBool, steps: &AtomicUsize) -> ClientResult {
        let (row, _) = self.insert(0);
        let mut number = 0;
        while !ends.load(Ordering::Relaxed) {
            number += 1;
            let change = json!({ "last_name": format!("update {number}") }).to_string();
            let answer = self.until_success("update", |agent, url| {
                let update = agent.patch(format!("{url}/api/person/{row}"));
                update.content_type("application/json").send(&change)
            });
            let updated = position(&answer);
            let prefer = preference(number);
            let read = self.until_success("get", |agent, url| {
                let get = agent.get(format!("{url}/api/person/{row}")).header("Prefer", prefer);
                get.header("Marmota-After", &updated).call()
            });
            self.replica_reads += usize::from(read.headers().contains_key("preference-applied"));
            let name = &body_of(read)["last_name"];
            assert_eq!(*name, format!("update {number}"), "{}: a stale read", self.name);
            let (_, position) = self.insert(number);
            let filter = format!("first_name='{}'", self.name);
            let seen = self.count(&filter, &position, number);
            assert_eq!(seen, number + 1, "{}: a stale read", self.name);
            steps.store(number, Ordering::Relaxed);
        }
        let Self { replica_reads, failures, .. } = self;
        ClientResult { row, steps: number, replica_reads, failures }
    }

    /// Counts the rows that were there at the position, or later.
    fn count(&mut self, filter: &str, position: &str, number: usize) -> usize {
        let answer = self.until_success("count", |agent, url| {
            let count = agent.get(format!("{url}/api/person")).query("filter", filter);
            let count = count.query("limit", "0").query("count", "true");
            count.header("Prefer", preference(number)).header("Marmota-After", position).call()
        });
        usize::try_from(body_of(answer)["count"].as_u64().unwrap()).unwrap()
    }
}

/// Returns the preference of a step: each second one prefers a replica.
const fn preference(number: usize) -> &'static str {
    if number.is_multiple_of(2) { "replica" } else { "return=minimal" }
}

fn position(answer: &Response<ureq::Body>) -> String {
    answer.headers()["marmota-position"].to_str().unwrap().to_owned()
}

impl Clients {
    pub(crate) fn start(url: &str) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let steps: Arc<[AtomicUsize; CLIENTS]> = Arc::default();
        let threads = (0..CLIENTS).map(|at| {
            let (ends, steps) = (Arc::clone(&ends), Arc::clone(&steps));
            let client = Client {
                name: format!("client{at}"),
                url: url.to_owned(),
                agent: agent(),
                replica_reads: 0,
                failures: BTreeMap::new(),
            };
            thread::spawn(move || client.run(&ends, &steps[at]))
        });
        let threads = threads.collect();
        Self { ends, steps, threads }
    }

    /// Waits until each client has taken a step, all of which began after this call.
    pub(crate) fn wait_for_success(&self) {
        let begun = Instant::now();
        let before: Vec<usize> =
            self.steps.iter().map(|step| step.load(Ordering::Relaxed)).collect();
        while self
            .steps
            .iter()
            .zip(&before)
            .any(|(now, before)| now.load(Ordering::Relaxed) < before + 2)
        {
            let failed = self.threads.iter().any(|thread| thread.is_finished());
            assert!(!failed, "a client has failed");
            assert!(begun.elapsed() < SUCCESS_MAX, "a client does not succeed");
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn end(self) -> Results {
        self.ends.store(true, Ordering::Relaxed);
        Results(self.threads.into_iter().map(|thread| thread.join().unwrap()).collect())
    }
}

impl Results {
    /// Checks that each program has each row, with its last value, once.
    pub(crate) fn check(&self, urls: &[String]) {
        assert!(self.0.iter().any(|client| client.replica_reads > 0), "no replica has read");
        let agent = agent();
        for url in urls {
            for (at, client) in self.0.iter().enumerate() {
                let row = agent.get(format!("{url}/api/person/{}", client.row)).call().unwrap();
                assert_eq!(body_of(row)["last_name"], format!("update {}", client.steps));
                for number in 1..=client.steps {
                    let filter = format!("first_name='client{at}' and last_name='{number}'");
                    let count = agent.get(format!("{url}/api/person"));
                    let count =
                        count.query("filter", filter).query("limit", "0").query("count", "true");
                    assert_eq!(body_of(count.call().unwrap())["count"], 1, "client{at}, {number}");
                }
            }
        }
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: usize = self.0.iter().map(|client| client.steps).sum();
        let replica_reads: usize = self.0.iter().map(|client| client.replica_reads).sum();
        writeln!(
            f,
            "{steps} steps; {replica_reads} reads by replicas; requests that failed and were sent again:"
        )?;
        let mut failures: BTreeMap<&str, usize> = BTreeMap::new();
        for (failure, count) in self.0.iter().flat_map(|client| &client.failures) {
            *failures.entry(failure).or_default() += count;
        }
        failures.iter().try_for_each(|(failure, count)| writeln!(f, "  {count} {failure}"))
    }
}
