//! Statistics of the engine and its connection pool.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use marmota_store::EngineStatistics;
use mongodb::event::cmap::CmapEvent;
use mongodb::options::ServerAddress;
use parking_lot::Mutex;

/// Counters that many threads update.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    commits: AtomicU64,
    /// The number of requests to servers in progress.
    asked: AtomicU64,
    pub(crate) writes_waiting: AtomicU64,
    refused: AtomicU64,
    read_yields: AtomicU64,
    pools: Mutex<HashMap<ServerAddress, Pool>>,
}

/// The connections of one server, by the driver's numbers. If a caller gives up while waiting for a
/// connection, the driver may check it out all the same: then it reports the check-in, but not the
/// check-out. A counter would drift; a set does not.
#[derive(Debug, Default)]
struct Pool {
    open: HashSet<u32>,
    in_use: HashSet<u32>,
}

/// A counted request to a server.
#[derive(Debug)]
pub(crate) struct CountedRequest<'a>(&'a Counts);

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        self.0.asked.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counts {
    /// Counts a request to a server as in progress until the returned guard is dropped.
    pub(crate) fn begin_request(&self) -> CountedRequest<'_> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        CountedRequest(self)
    }

    /// Records an event of the driver's pool.
    pub(crate) fn note(&self, event: &CmapEvent) {
        match event {
            CmapEvent::ConnectionCreated(event) => {
                self.of(&event.address, |pool| pool.open.insert(event.connection_id));
            }
            CmapEvent::ConnectionClosed(event) => self.of(&event.address, |pool| {
                pool.in_use.remove(&event.connection_id);
                pool.open.remove(&event.connection_id)
            }),
            CmapEvent::ConnectionCheckedOut(event) => {
                self.of(&event.address, |pool| pool.in_use.insert(event.connection_id));
            }
            CmapEvent::ConnectionCheckedIn(event) => {
                self.of(&event.address, |pool| pool.in_use.remove(&event.connection_id));
            }
            _ => {}
        }
    }

    fn of(&self, address: &ServerAddress, note: impl FnOnce(&mut Pool) -> bool) {
        let mut pools = self.pools.lock();
        match pools.get_mut(address) {
            Some(pool) => note(pool),
            None => note(pools.entry(address.clone()).or_default()),
        };
    }

    /// Counts a read that yielded its thread.
    pub(crate) fn read_yield(&self) {
        self.read_yields.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a write that took effect.
    pub(crate) fn committed(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an operation that was refused because too many were in progress.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn statistics(&self) -> EngineStatistics {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let mut statistics = EngineStatistics::default();
        statistics.commits = read(&self.commits);
        statistics.writes_waiting = read(&self.writes_waiting);
        statistics.writes_refused = read(&self.refused);
        let pools = self.pools.lock();
        let all = |of: fn(&Pool) -> usize| pools.values().map(of).sum::<usize>() as u64;
        statistics.connections = all(|pool| pool.open.len());
        statistics.connections_in_use = all(|pool| pool.in_use.len());
        let without = read(&self.asked).saturating_sub(statistics.connections_in_use);
        statistics.connections_wanted = without;
        statistics.read_yields = read(&self.read_yields);
        statistics
    }
}
