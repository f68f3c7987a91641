//! The time and the rate of a mixed load, and the figures of each second.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use marmota::store::Store;
use serde_json::{Value, json};

use super::line::Count;
use super::owned_rows::OwnedRows;

/// A wait for the next request is at most this long, so that the end is not missed.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The time and the rate of a mixed load.
#[derive(Debug)]
pub(super) struct Load {
    time: Duration,
    /// Requests per second of all threads; without a limit if `None`.
    rate: Option<u32>,
    begun: OnceLock<Instant>,
    is_ended: AtomicBool,
}

/// The requests of one second. A request belongs to the second in which it ends.
#[derive(Clone, Default)]
struct SecondOfLoad {
    requests: u64,
    longest: Duration,
    /// The number of failed requests, by the kind of the request and of the error.
    failures: BTreeMap<String, u64>,
}

/// The figures of a thread, or of all.
#[derive(Default)]
pub(super) struct LoadFigures {
    seconds: Vec<SecondOfLoad>,
    /// The message of the first failure of each kind.
    pub(super) messages: BTreeMap<String, String>,
}

impl LoadFigures {
    fn count(&mut self, at: usize, time: Duration, failure: Option<(String, String)>) {
        if self.seconds.len() <= at {
            self.seconds.resize(at + 1, SecondOfLoad::default());
        }
        let second = &mut self.seconds[at];
        second.requests += 1;
        second.longest = second.longest.max(time);
        if let Some((kind, message)) = failure {
            self.messages.entry(kind.clone()).or_insert(message);
            *second.failures.entry(kind).or_default() += 1;
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), SecondOfLoad::default());
        }
        for (second, more) in self.seconds.iter_mut().zip(other.seconds) {
            second.requests += more.requests;
            second.longest = second.longest.max(more.longest);
            for (kind, count) in more.failures {
                *second.failures.entry(kind).or_default() += count;
            }
        }
        for (kind, message) in other.messages {
            self.messages.entry(kind).or_insert(message);
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.seconds.iter().map(|second| second.requests).sum()
    }

    pub(super) fn longest(&self) -> Duration {
        self.seconds.iter().map(|second| second.longest).max().unwrap_or_default()
    }

    /// Returns the number of failed requests, by kind.
    pub(super) fn failures(&self) -> BTreeMap<&str, u64> {
        let mut all = BTreeMap::new();
        for (kind, count) in self.seconds.iter().flat_map(|second| &second.failures) {
            *all.entry(&**kind).or_default() += count;
        }
        all
    }

    /// Returns the figures as JSON; each second with its time since 1970.
    pub(super) fn json(&self, begun: SystemTime) -> Value {
        let begun = begun.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        let seconds = self.seconds.iter().enumerate().map(|(at, second)| {
            json!({
                "at_ms": begun as u64 + at as u64 * 1_000,
                "requests": second.requests,
                "failures": second.failures,
                "longest_ms": second.longest.as_millis() as u64,
            })
        });
        json!({
            "requests": self.requests(),
            "failures": self.failures(),
            "messages": self.messages,
            "longest_ms": self.longest().as_millis() as u64,
            "seconds": seconds.collect::<Vec<_>>(),
        })
    }
}

impl Load {
    pub(super) fn new(time: Duration, rate: Option<u32>) -> Self {
        Self { time, rate, begun: OnceLock::new(), is_ended: AtomicBool::new(false) }
    }

    /// Ends the load before its time.
    pub(super) fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed) || self.elapsed() >= self.time
    }

    /// Returns the time since the first call.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.get_or_init(Instant::now).elapsed()
    }

    /// Returns the time between two requests of one of this many threads.
    fn interval(&self, threads: u32) -> Duration {
        let rate = self.rate.map(|rate| Duration::from_secs(threads.into()) / rate);
        rate.unwrap_or_default()
    }

    /// Sends the requests of a thread until the load is over, through its clients in turn.
    pub(super) fn drive(
        &self,
        rows: &mut OwnedRows,
        (threads, thread): (u32, u32),
        clients: &[Store],
        count: &dyn Count,
    ) -> LoadFigures {
        let mut figures = LoadFigures::default();
        let interval = self.interval(threads);
        let mut next = interval / threads.max(1) * thread;
        for client in clients.iter().cycle() {
            while !self.is_over() && self.elapsed() < next {
                thread::sleep((next - self.elapsed()).min(WAIT_MAX));
            }
            if self.is_over() {
                break;
            }
            let begun = Instant::now();
            let failure = rows.request(client);
            let time = begun.elapsed();
            // After a pause there is no burst of the requests that were not sent.
            next = (next + interval).max(self.elapsed().saturating_sub(interval));
            figures.count(self.elapsed().as_secs() as usize, time, failure);
            count.step();
        }
        figures
    }
}
