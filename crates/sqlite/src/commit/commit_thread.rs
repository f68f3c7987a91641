//! The background thread of an engine: it syncs relaxed writes to the disk, and leads groups if the
//! disk is slow, so that no caller waits for that.
//!
//! It is started at its first use and ends with the engine. It executes no operations itself;
//! callers could do everything that it does.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The writer of an engine, as the background thread uses it.
pub(crate) trait LeadsGroups: std::fmt::Debug + Send + Sync {
    /// Leads the waiting writes; returns their number, or `None` if the writer was not free within
    /// `timeout`.
    fn lead_within(&self, timeout: Duration) -> Option<usize>;

    /// Wakes writes that have waited too long.
    fn wake_late(&self);

    /// Returns the number of waiting writes.
    fn pending(&self) -> usize;

    /// Syncs relaxed writes; returns false if the writer was not free within `timeout` or the sync
    /// must be retried.
    fn sync_within(&self, timeout: Duration) -> bool;
}

/// The delay after which relaxed writes are synced. Less than a second is promised; twice this
/// delay stays below that, including the other work of the thread.
const BEHIND_MAX: Duration = Duration::from_millis(200);
/// If syncs take at least this long, passing a group to the background thread costs less than what
/// the caller's thread can do in the meantime.
const SLOW: Duration = Duration::from_micros(400);
/// If writes outside of groups take at least this long, helper threads execute them.
const SLOW_ALONE: Duration = Duration::from_millis(1);
/// The longest wait for the writer before the thread checks whether it should stop.
const TURN_TIMEOUT: Duration = Duration::from_millis(100);

/// The average of recent durations: a new one counts for an eighth.
#[derive(Debug, Default)]
struct RecentAverage {
    micros: AtomicU64,
}

impl RecentAverage {
    fn note(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).min(10_000_000);
        let old = self.micros.load(Ordering::Relaxed);
        self.micros.store((old * 7 + micros) / 8, Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}

/// The background thread and its tasks.
#[derive(Debug, Default)]
pub(crate) struct CommitThread {
    wanted: Mutex<Wanted>,
    bell: Condvar,
    is_behind: AtomicBool,
    /// The duration of a group's wait for the disk.
    wait: RecentAverage,
    /// The duration of a write outside of a group, or of a transaction's commit.
    alone: RecentAverage,
    /// True if each commit waits until it is copied elsewhere.
    waits: AtomicBool,
    /// Callers always lead, even if the disk is slow.
    #[cfg(feature = "simulated-disk")]
    stands_back: AtomicBool,
    writer: OnceLock<Weak<dyn LeadsGroups>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Wanted {
    lead: bool,
    sync_at: Option<Instant>,
    stop: bool,
}

impl CommitThread {
    /// Sets the writer; called once.
    pub(crate) fn employ(&self, writer: Weak<dyn LeadsGroups>) {
        let _ = self.writer.set(writer);
    }

    /// Schedules a sync after a relaxed write.
    pub(crate) fn fall_behind(self: &Arc<Self>) {
        #[cfg(feature = "simulated-disk")]
        if self.stands_back.load(Ordering::Relaxed) {
            return;
        }
        if !self.is_behind.swap(true, Ordering::SeqCst) {
            self.want(|wanted| wanted.sync_at = Some(Instant::now() + BEHIND_MAX));
        }
    }

    /// Declares that commits take long from now on, so that no event loop makes them.
    pub(crate) fn expect_waits(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    /// Records a group's wait for the disk.
    pub(crate) fn note_wait(&self, wait: Duration) {
        self.wait.note(wait);
    }

    /// Records the duration of a write outside of a group, its wait for the disk included.
    pub(crate) fn note_alone(&self, duration: Duration) {
        self.alone.note(duration);
    }

    /// Returns true if writes outside of groups take so long that an event loop should not execute
    /// them.
    pub(crate) fn is_slow_alone(&self) -> bool {
        // How long writes take depends on the load, not only on what callers do.
        #[cfg(feature = "simulated-disk")]
        if self.stands_back.load(Ordering::Relaxed) {
            return false;
        }
        self.waits.load(Ordering::Relaxed) || self.alone.get().max(self.wait.get()) >= SLOW_ALONE
    }

    /// Returns true if it should lead instead of a caller.
    pub(crate) fn is_better(&self) -> bool {
        #[cfg(feature = "simulated-disk")]
        if self.stands_back.load(Ordering::Relaxed) {
            return false;
        }
        self.waits.load(Ordering::Relaxed) || self.wait.get() >= SLOW
    }

    /// Lets only callers lead from now on.
    #[cfg(feature = "simulated-disk")]
    pub(crate) fn leave_to_callers(&self) {
        self.stands_back.store(true, Ordering::Relaxed);
    }

    /// Makes it lead. Returns false if it cannot.
    pub(crate) fn ask_to_lead(self: &Arc<Self>) -> bool {
        self.want(|wanted| wanted.lead = true)
    }

    /// Stops the thread.
    pub(crate) fn dismiss(&self) {
        self.wanted.lock().stop = true;
        self.bell.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread.filter(|own| own.thread().id() != std::thread::current().id())
        {
            // If it panicked, it has ended as well.
            let _ = thread.join();
        }
    }

    fn want(self: &Arc<Self>, change: impl FnOnce(&mut Wanted)) -> bool {
        let mut wanted = self.wanted.lock();
        change(&mut wanted);
        let stops = wanted.stop;
        drop(wanted);
        self.bell.notify_one();
        !stops && self.start()
    }

    fn start(self: &Arc<Self>) -> bool {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let commit_thread = Arc::clone(self);
            let builder = std::thread::Builder::new().name("marmota-sqlite".to_owned());
            *thread = builder.spawn(move || commit_thread.work()).ok();
        }
        thread.is_some()
    }

    fn work(&self) {
        let mut wanted = self.wanted.lock();
        while !wanted.stop {
            if std::mem::take(&mut wanted.lead) {
                drop(wanted);
                self.lead();
                wanted = self.wanted.lock();
                continue;
            }
            match wanted.sync_at {
                Some(at) if at <= Instant::now() => {
                    wanted.sync_at = None;
                    drop(wanted);
                    self.sync(TURN_TIMEOUT);
                    wanted = self.wanted.lock();
                }
                Some(at) => drop(self.bell.wait_until(&mut wanted, at)),
                None => self.bell.wait(&mut wanted),
            }
        }
    }

    /// Leads groups until no write waits.
    fn lead(&self) {
        let Some(writer) = self.writer.get().and_then(Weak::upgrade) else { return };
        loop {
            match writer.lead_within(TURN_TIMEOUT) {
                Some(0) => return,
                Some(members) => self.gather(&*writer, members),
                None if self.wanted.lock().stop => return,
                None => writer.wake_late(),
            }
        }
    }

    /// Waits a moment for the members that were just answered: usually they write again, and a
    /// group that commits without them makes them wait twice.
    fn gather(&self, writer: &dyn LeadsGroups, members: usize) {
        let step = self.wait.get() / 32;
        for _ in 0..4 {
            if writer.pending() >= members {
                return;
            }
            std::thread::sleep(step);
        }
    }

    /// Syncs relaxed writes to the disk if it becomes the writer within `timeout`.
    pub(crate) fn sync(&self, timeout: Duration) {
        let Some(writer) = self.writer.get().and_then(Weak::upgrade) else { return };
        // Cleared first: later writes need another sync.
        self.is_behind.store(false, Ordering::SeqCst);
        let done = writer.sync_within(timeout);
        if !done && !self.is_behind.swap(true, Ordering::SeqCst) {
            // Retry soon: a transaction is open.
            self.wanted.lock().sync_at = Some(Instant::now() + BEHIND_MAX / 2);
        }
    }
}
