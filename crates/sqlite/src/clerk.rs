//! The thread that does what no caller should wait for: it takes to the disk
//! what relaxed writes left behind, and leads groups where the disk is slow.
//!
//! It is started at the first use and ends with the engine. It knows no
//! operation; what it does could be done by any caller.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::lane::Lane;
use crate::writer::Writer;

/// How long a relaxed write stays behind; twice that is promised to be less
/// than a second, whatever else the thread has to do.
const BEHIND_MAX: Duration = Duration::from_millis(200);
/// From this wait for the disk on, handing a group over to the clerk costs
/// less than what the caller's thread could do in the meantime.
const SLOW: Duration = Duration::from_micros(400);
/// How long the clerk tries to get its turn before it looks if it is over.
const TURN_TIMEOUT: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Clerk {
    wanted: Mutex<Wanted>,
    bell: Condvar,
    is_behind: AtomicBool,
    /// How long a group waited for the disk lately, on average.
    wait_micros: AtomicU64,
    /// Callers lead, however slow the disk is.
    #[cfg(feature = "simulated-disk")]
    stands_back: AtomicBool,
    writer: OnceLock<Weak<Writer<Lane>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Wanted {
    lead: bool,
    sync_at: Option<Instant>,
    stop: bool,
}

impl Clerk {
    /// Says for whom it works; called once.
    pub(crate) fn employ(&self, writer: &Arc<Writer<Lane>>) {
        let _ = self.writer.set(Arc::downgrade(writer));
    }

    /// Something was written that nobody waits for.
    pub(crate) fn fall_behind(self: &Arc<Self>) {
        #[cfg(feature = "simulated-disk")]
        if self.stands_back.load(Ordering::Relaxed) {
            return;
        }
        if !self.is_behind.swap(true, Ordering::SeqCst) {
            self.want(|wanted| wanted.sync_at = Some(Instant::now() + BEHIND_MAX));
        }
    }

    /// A group waited so long for the disk.
    pub(crate) fn note_wait(&self, wait: Duration) {
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX).min(10_000_000);
        let old = self.wait_micros.load(Ordering::Relaxed);
        self.wait_micros.store((old * 7 + micros) / 8, Ordering::Relaxed);
    }

    fn wait(&self) -> Duration {
        Duration::from_micros(self.wait_micros.load(Ordering::Relaxed))
    }

    /// True if it should lead instead of a caller.
    pub(crate) fn is_better(&self) -> bool {
        #[cfg(feature = "simulated-disk")]
        if self.stands_back.load(Ordering::Relaxed) {
            return false;
        }
        self.wait() >= SLOW
    }

    /// Leaves groups to callers from here on.
    #[cfg(feature = "simulated-disk")]
    pub(crate) fn stand_back(&self) {
        self.stands_back.store(true, Ordering::Relaxed);
    }

    /// Has it lead; false if it cannot.
    pub(crate) fn ask_to_lead(self: &Arc<Self>) -> bool {
        self.want(|wanted| wanted.lead = true)
    }

    /// Ends it.
    pub(crate) fn dismiss(&self) {
        self.wanted.lock().stop = true;
        self.bell.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread.filter(|own| own.thread().id() != std::thread::current().id())
        {
            // A panic of it has ended it as well.
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
            let clerk = Arc::clone(self);
            let builder = std::thread::Builder::new().name("marmota-sqlite".to_owned());
            *thread = builder.spawn(move || clerk.work()).ok();
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

    /// Leads groups until nobody waits.
    fn lead(&self) {
        let Some(writer) = self.writer.get().and_then(Weak::upgrade) else { return };
        loop {
            match writer.lead_within(TURN_TIMEOUT) {
                Some(0) => return,
                Some(members) => self.gather(&writer, members),
                None if self.wanted.lock().stop => return,
                None => writer.wake_late(),
            }
        }
    }

    /// Waits a moment for those that were just answered: as a rule they come
    /// again, and a group that leaves without them makes them wait twice.
    fn gather(&self, writer: &Writer<Lane>, members: usize) {
        let step = self.wait() / 32;
        for _ in 0..4 {
            if writer.pending() >= members {
                return;
            }
            std::thread::sleep(step);
        }
    }

    /// Takes to the disk what was left behind, if its turn comes in that time.
    pub(crate) fn sync(&self, timeout: Duration) {
        let Some(writer) = self.writer.get().and_then(Weak::upgrade) else { return };
        // Cleared first: what falls behind from here on is another time's.
        self.is_behind.store(false, Ordering::SeqCst);
        let done = match writer.turn_within(timeout) {
            // One that failed has stopped the engine, and is never tried again.
            Some(mut turn) => {
                turn.lane().is_none_or(|lane| lane.sync_log().is_ok() || lane.is_stopped())
            }
            None => false,
        };
        if !done && !self.is_behind.swap(true, Ordering::SeqCst) {
            // Soon again: a transaction is open.
            self.wanted.lock().sync_at = Some(Instant::now() + BEHIND_MAX / 2);
        }
    }
}
