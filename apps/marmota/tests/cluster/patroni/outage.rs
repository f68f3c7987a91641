//! Writers that measure for how long no write succeeds: at the database itself, and through nginx.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use marmota_postgres::Postgres;
use serde_json::json;
use ureq::Agent;

const PAUSE: Duration = Duration::from_millis(100);
/// The longest time of an attempt.
const ATTEMPT_MAX: Duration = Duration::from_secs(2);
/// Attempts overlap, so that one that hangs does not hide that others succeed.
const WRITERS: usize = 4;

/// Writers of one kind.
pub(super) struct Outage {
    seen: Arc<Mutex<Seen>>,
    ends: Arc<AtomicBool>,
    writers: Vec<JoinHandle<()>>,
}

/// What the writers have seen since the last round began.
#[derive(Default)]
struct Seen {
    /// The begin of the last attempt that failed.
    failed: Option<Instant>,
    /// The end of the first success that began after that.
    succeeded: Option<Instant>,
}

impl Outage {
    fn start(write: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let (seen, ends) = (Arc::<Mutex<Seen>>::default(), Arc::new(AtomicBool::new(false)));
        let write = Arc::new(write);
        let writers = (0..WRITERS).map(|_| {
            let (seen, ends, write) = (Arc::clone(&seen), Arc::clone(&ends), Arc::clone(&write));
            thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    // A commit may have waited for a standby instead of failing.
                    let has_succeeded = write() && begun.elapsed() < ATTEMPT_MAX;
                    let mut seen = seen.lock().unwrap();
                    if !has_succeeded && seen.failed.is_none_or(|failed| failed < begun) {
                        *seen = Seen { failed: Some(begun), succeeded: None };
                    } else if has_succeeded && seen.failed.is_some_and(|failed| failed < begun) {
                        seen.succeeded.get_or_insert_with(Instant::now);
                    }
                    drop(seen);
                    thread::sleep(PAUSE);
                }
            })
        });
        let writers = writers.collect();
        Self { seen, ends, writers }
    }

    /// Starts writers that connect to the database for each write.
    pub(super) fn of_database(url: &str) -> Self {
        let url = format!("{url}?connect_timeout=1&statement_timeout_ms=2000");
        Postgres::from_url(&url).unwrap().execute("CREATE TABLE outage (text text)").unwrap();
        // A full disk has no room for it.
        let write = "INSERT INTO outage SELECT repeat(md5(random()::text), 60)";
        Self::start(move || {
            Postgres::from_url(&url).and_then(|engine| engine.execute(write)).is_ok()
        })
    }

    /// Starts writers that send requests to nginx.
    pub(super) fn of_requests(url: &str) -> Self {
        let agent: Agent = Agent::config_builder().timeout_global(Some(ATTEMPT_MAX)).build().into();
        let url = format!("{url}/api/person");
        let row = json!({ "first_name": "outage", "last_name": "0", "year_of_birth": 1900 });
        let row = row.to_string();
        Self::start(move || {
            let insert = agent.post(&url).content_type("application/json");
            insert.send(&row).is_ok()
        })
    }

    /// Begins a round.
    pub(super) fn begin(&self) {
        *self.seen.lock().unwrap() = Seen::default();
    }

    /// Returns the time from `begun` until writes succeeded again; zero if none failed.
    pub(super) fn since(&self, begun: Instant) -> Duration {
        let until = Instant::now() + ATTEMPT_MAX * 2;
        loop {
            let seen = self.seen.lock().unwrap();
            match (seen.failed, seen.succeeded) {
                (None, _) => return Duration::ZERO,
                (Some(_), Some(succeeded)) => return succeeded.saturating_duration_since(begun),
                (Some(_), None) => assert!(Instant::now() < until, "writes do not succeed again"),
            }
            drop(seen);
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for writer in self.writers.drain(..) {
            let _ = writer.join();
        }
    }
}
