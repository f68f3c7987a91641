//! Who watches the sockets through which engines hear of their futures'
//! answers: a server's thread, if one of its handlers awaits the operation, or
//! one thread for the whole process ([`crate::poller`]). The server knows no
//! engine and engines no server, so whoever puts them together tells one of the
//! other ([`watch_by`]).

use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};
use std::time::Instant;

use parking_lot::Mutex;

use crate::poller::{Polled, Poller};

/// What is watched.
pub type Source = Arc<dyn AsFd + Send + Sync>;

/// A socket that is watched, until this is dropped.
pub trait Watching: Send + Sync {
    /// True if it is the calling thread that watches.
    fn is_here(&self) -> bool;

    /// True once nobody watches any more.
    fn is_over(&self) -> bool;
}

/// What is called when bytes have come, there is room for more, or an end.
pub type Happened = Arc<dyn Fn() + Send + Sync>;

/// Has the calling thread watch a socket and call, once for each thing that
/// happens to it; none on a thread that watches nothing.
pub type Watcher = fn(Source, Happened) -> Option<Box<dyn Watching>>;

static WATCHER: OnceLock<Watcher> = OnceLock::new();

/// Says how a thread is asked to watch a socket; the first one stays.
pub fn watch_by(watcher: Watcher) {
    // One is as good as another: a process has one kind of server.
    let _ = WATCHER.set(watcher);
}

/// Wakes whoever waits at this time; false if the system gives no thread for it.
#[must_use]
pub fn wake_at(at: Instant, waker: Waker) -> bool {
    let poller = Poller::the();
    poller.inspect(|poller| poller.wake_at(at, waker)).is_some()
}

/// Who is to be woken when something happens to a socket.
#[derive(Debug, Default)]
pub struct Watch {
    slot: Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    waker: Option<Waker>,
    /// It happened while nobody waited.
    happened: bool,
    alarm: Option<Instant>,
}

/// A socket that a watch is told of, until this is dropped.
pub struct Watched {
    source: Source,
    by: By,
}

/// Who tells.
enum By {
    Thread(Box<dyn Watching>),
    Poller(#[expect(dead_code, reason = "watches until it is dropped")] Polled),
}

impl Watched {
    /// True if it is the calling thread that watches.
    #[must_use]
    pub fn is_here(&self) -> bool {
        matches!(&self.by, By::Thread(watching) if watching.is_here())
    }
}

impl Watch {
    /// Sees to it that somebody watches this socket, the calling thread if it is
    /// a server's; true if it is watched from now on only. What came before is
    /// told then at once. None stays where the system gives nobody to watch.
    pub fn keep(self: &Arc<Self>, source: &Source, watched: &mut Option<Watched>) -> bool {
        let same = watched.as_ref().filter(|known| Arc::ptr_eq(&known.source, source));
        match same.map(|known| &known.by) {
            Some(By::Thread(watching)) if !watching.is_over() => return false,
            Some(_) => {}
            None => *watched = None,
        }
        let watch = Arc::clone(self);
        let happened: Happened = Arc::new(move || watch.happened());
        let here = WATCHER.get().and_then(|watch_here| watch_here(Arc::clone(source), happened));
        let by = match here {
            Some(watching) => By::Thread(watching),
            None if matches!(watched, Some(Watched { by: By::Poller(_), .. })) => return false,
            None => {
                let polled = |poller: &Poller| poller.add(Arc::clone(source), self).ok();
                let Some(polled) = Poller::the().and_then(polled) else {
                    *watched = None;
                    return false;
                };
                By::Poller(polled)
            }
        };
        *watched = Some(Watched { source: Arc::clone(source), by });
        true
    }

    /// Forgets what has happened: about to look for itself.
    pub fn look(&self) {
        self.slot.lock().happened = false;
    }

    /// Wakes this one next; at once, if something happened since the look.
    pub fn wake(&self, waker: &Waker) {
        let mut slot = self.slot.lock();
        // It stays true until somebody looks: who finds it false reads nothing.
        if slot.happened {
            waker.wake_by_ref();
        }
        match &mut slot.waker {
            Some(kept) => kept.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Wakes whoever waits at this time or before.
    pub fn wake_at(self: &Arc<Self>, at: Instant) {
        let mut slot = self.slot.lock();
        // Who is woken too early asks again, and one alarm serves many waits.
        if slot.alarm.is_some_and(|alarm| alarm <= at && alarm > Instant::now()) {
            return;
        }
        slot.alarm = Some(at);
        drop(slot);
        if !wake_at(at, Arc::clone(self).into()) {
            self.happened();
        }
    }

    /// True if something happened since the look.
    pub fn has_happened(&self) -> bool {
        self.slot.lock().happened
    }

    /// Something has happened.
    pub(crate) fn happened(&self) {
        let mut slot = self.slot.lock();
        slot.happened = true;
        let waker = slot.waker.take();
        drop(slot);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        self.happened();
    }
}
