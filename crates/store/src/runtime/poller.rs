//! A poller that wakes futures of threads without an event loop when something happens to a socket:
//! one thread for the whole process, which sleeps in epoll.
//!
//! Threads that run an operation do not need it: they sleep on the socket itself (`block_on.rs`).
//! Nor do a server's threads, which watch sockets themselves (`watcher.rs`).
//!
//! The thread is started at the first use, and runs until the process ends. Sockets are registered
//! edge-triggered (`EPOLLET`, epoll(7)), so an event is reported once; [`Watch`] keeps it until a
//! task has read the socket.

use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::runtime::watch::{Source, Watch};

/// The event number of the bell, which rings when an earlier alarm was added.
const BELL: u64 = 0;
/// The maximum time that the thread sleeps.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// The registration of a socket, whose events the poller reports to a watch until this value is
/// dropped.
pub(crate) struct Polled {
    /// The number of its watch.
    number: u64,
    /// The socket, which stays open as long as it is registered.
    source: Source,
}

impl Drop for Polled {
    fn drop(&mut self) {
        if let Some(poller) = Poller::the() {
            let _ = epoll::delete(&poller.epoll, self.source.as_fd());
            poller.watches.lock().remove(&self.number);
        }
    }
}

/// The thread that watches sockets, and wakes at times, for the whole process.
pub(crate) struct Poller {
    /// The epoll instance.
    epoll: OwnedFd,
    /// An eventfd that wakes the thread.
    bell: OwnedFd,
    /// The watches, by the numbers in their events.
    watches: Mutex<HashMap<u64, Arc<Watch>>>,
    /// The wakers with a time, the earliest first.
    alarms: Mutex<BinaryHeap<Alarm>>,
    /// The number of the next watch.
    next: AtomicU64,
}

/// A waker, and the time at which to wake it.
struct Alarm(Instant, Waker);

impl PartialEq for Alarm {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Alarm {}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Alarm {
    /// The earliest alarm is the greatest, for the heap.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.0.cmp(&self.0)
    }
}

impl Poller {
    /// Returns the poller of the process; `None` if the system does not provide one.
    ///
    /// If the thread cannot be started, it is not tried again.
    pub(crate) fn the() -> Option<&'static Self> {
        static POLLER: OnceLock<Option<Poller>> = OnceLock::new();
        static THREAD: OnceLock<bool> = OnceLock::new();
        let poller = POLLER.get_or_init(|| Self::new().ok()).as_ref()?;
        let runs = THREAD.get_or_init(|| {
            let thread = std::thread::Builder::new().name("marmota-poller".to_owned());
            thread.spawn(move || poller.run()).is_ok()
        });
        runs.then_some(poller)
    }

    /// Creates the epoll instance and the bell.
    fn new() -> std::io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
        let (watches, alarms) = (Mutex::default(), Mutex::default());
        Ok(Self { epoll, bell, watches, alarms, next: AtomicU64::new(BELL + 1) })
    }

    /// Reports the events of a socket to `watch` from now on.
    pub(crate) fn add(&self, source: Source, watch: &Arc<Watch>) -> std::io::Result<Polled> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.watches.lock().insert(number, Arc::clone(watch));
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let added = epoll::add(&self.epoll, source.as_fd(), EventData::new_u64(number), flags);
        if let Err(error) = added {
            self.watches.lock().remove(&number);
            return Err(error.into());
        }
        Ok(Polled { number, source })
    }

    /// Wakes `waker` at this time.
    pub(crate) fn wake_at(&self, at: Instant, waker: Waker) {
        let mut alarms = self.alarms.lock();
        let is_first = alarms.peek().is_none_or(|first| at < first.0);
        alarms.push(Alarm(at, waker));
        drop(alarms);
        if is_first {
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// The loop of the thread.
    fn run(&self) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            let timeout = Timespec::try_from(self.ring_alarms()).ok();
            let waited = epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            );
            if waited.is_err() {
                continue;
            }
            for event in &events {
                let number = event.data.u64();
                if number == BELL {
                    let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
                    continue;
                }
                let watch = self.watches.lock().get(&number).cloned();
                if let Some(watch) = watch {
                    watch.happened();
                }
            }
        }
    }

    /// Wakes the wakers whose time has come, and returns how long to sleep.
    fn ring_alarms(&self) -> Duration {
        loop {
            let mut alarms = self.alarms.lock();
            let now = Instant::now();
            match alarms.peek() {
                None => return SLEEP_MAX,
                Some(first) if first.0 > now => return (first.0 - now).min(SLEEP_MAX),
                Some(_) => {}
            }
            let alarm = alarms.pop();
            drop(alarms);
            if let Some(Alarm(_, waker)) = alarm {
                waker.wake();
            }
        }
    }
}
