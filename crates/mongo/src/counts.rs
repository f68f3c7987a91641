//! What the engine has done, and what its pool is doing.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use marmota_store::EngineStatistics;
use mongodb::event::cmap::CmapEvent;
use mongodb::options::ServerAddress;
use parking_lot::Mutex;

/// Numbers that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    commits: AtomicU64,
    /// What is asked of servers at this moment.
    asked: AtomicU64,
    pub(crate) writes_waiting: AtomicU64,
    refused: AtomicU64,
    read_yields: AtomicU64,
    pools: Mutex<HashMap<ServerAddress, Pool>>,
}

/// The connections of one server, by the driver's numbers for them. Who asked
/// for a connection and gave up may be given it all the same: then the driver
/// tells of its return, but not that it went out. A number added and taken
/// from would drift; a set does not.
#[derive(Debug, Default)]
struct Pool {
    open: HashSet<u32>,
    in_use: HashSet<u32>,
}

/// Something asked of a server, counted.
#[derive(Debug)]
pub(crate) struct Asked<'a>(&'a Counts);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.asked.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counts {
    /// Something is asked of a server, until what this returns is dropped.
    pub(crate) fn ask(&self) -> Asked<'_> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Asked(self)
    }

    /// Takes note of what the driver's pool does.
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

    /// A read has left its thread to others.
    pub(crate) fn read_yield(&self) {
        self.read_yields.fetch_add(1, Ordering::Relaxed);
    }

    /// A write took place.
    pub(crate) fn committed(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    /// An operation was refused because too many were under way.
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
