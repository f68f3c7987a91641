//! [`Replicas`]: the standbys of a cluster, and which of them executes a read.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use marmota_model::Result;
use parking_lot::Mutex;

use super::probe::Probes;
use crate::shared::Shared;
use crate::statement::sql_words::quoted;

/// The time for which a server that could not be used is left alone.
const PAUSE: Duration = Duration::from_secs(5);

/// The servers of a cluster, as replicas. Which of them are standbys is known once they are
/// connected: a primary refuses to be one.
pub(crate) struct Replicas {
    primary: Arc<Shared>,
    servers: Vec<Replica>,
    next: AtomicUsize,
    reads: AtomicU64,
    probes: OnceLock<Probes>,
}

/// A server that may be a standby.
struct Replica {
    shared: Arc<Shared>,
    /// The time until which it is left alone.
    left_until: Mutex<Option<Instant>>,
}

impl Replicas {
    /// Returns the replicas of a cluster; `None` if the URL names one server only. Nothing is
    /// connected before the first read.
    pub(crate) fn of(primary: &Arc<Shared>) -> Option<Arc<Self>> {
        let servers = match primary.options.other_servers.len() {
            0 => return None,
            others => others + 1,
        };
        let replica = |server| Replica {
            shared: Arc::new(Shared::of_replica(primary, server)),
            left_until: Mutex::default(),
        };
        Some(Arc::new(Self {
            primary: Arc::clone(primary),
            servers: (0..servers).map(replica).collect(),
            next: AtomicUsize::new(0),
            reads: AtomicU64::new(0),
            probes: OnceLock::new(),
        }))
    }

    pub(super) const fn primary(&self) -> &Arc<Shared> {
        &self.primary
    }

    /// Returns the number of servers.
    pub(super) const fn count(&self) -> usize {
        self.servers.len()
    }

    /// Returns the connections of a server.
    pub(super) fn shared(&self, server: usize) -> &Arc<Shared> {
        &self.servers[server].shared
    }

    /// Chooses the server for a read, in turns, without the one that is used as the primary; `None`
    /// if all others are left alone.
    pub(super) fn choose(&self) -> Option<usize> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let options = &self.primary.options;
        let primary = options.servers().next().filter(|_| options.has_one_primary());
        let mut servers = (0..self.count()).map(|at| (first + at) % self.count());
        servers.find(|&server| {
            if Some(server) == primary {
                return false;
            }
            let mut left_until = self.servers[server].left_until.lock();
            if left_until.is_some_and(|until| Instant::now() < until) {
                return false;
            }
            *left_until = None;
            true
        })
    }

    /// Leaves a server alone for a while.
    pub(super) fn leave_alone(&self, server: usize) {
        *self.servers[server].left_until.lock() = Some(Instant::now() + PAUSE);
    }

    /// Returns the statements of probes; `None` for a store without a change feed.
    pub(super) fn probes(&self) -> Option<&Probes> {
        let feed = self.primary.feed()?;
        Some(self.probes.get_or_init(|| Probes::new(&quoted(feed.recorder().table().name()))))
    }

    /// Counts a read of a replica.
    pub(super) fn note_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of reads that replicas have executed.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Closes the connections.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Busy`] if a read does not end in time.
    pub(crate) fn close(&self) -> Result<()> {
        self.servers.iter().try_for_each(|server| server.shared.close())
    }
}
