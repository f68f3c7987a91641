//! Watches the sockets through which engines receive the answers of their futures. The watcher is a
//! server's thread, if one of its handlers awaits the operation, or one thread for the whole
//! process (`poller.rs`). Servers do not know engines, and engines do not know servers, so the code
//! that combines them registers the watcher ([`watch_by`]).

use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Instant;

use crate::runtime::poller::{Polled, Poller};
use crate::runtime::watch::{Happened, Source, Watch};

/// A registration of a socket, which is watched until this value is dropped.
///
/// A server implements it for its event loop.
pub trait Watching: Send + Sync {
    /// Returns true if the calling thread is the watcher.
    fn is_here(&self) -> bool;

    /// Returns true once the watcher has ended.
    fn is_over(&self) -> bool;
}

/// A function with which the calling thread watches a socket. The callback is called once for each
/// event; `None` on a thread that does not watch sockets.
pub type Watcher = fn(Source, Happened) -> Option<Box<dyn Watching>>;

static WATCHER: OnceLock<Watcher> = OnceLock::new();

/// Registers the function with which threads watch sockets; only the first call has an effect.
///
/// `marmota::open` does this for the web server; other event loops call it once before they open a
/// store.
///
/// ```
/// use marmota_store::engine::{Happened, Source, Watching, watch_by};
///
/// fn watch(_: Source, _: Happened) -> Option<Box<dyn Watching>> {
///     // A thread with an event loop registers the socket there, and calls `Happened` for its events.
///     None
/// }
/// watch_by(watch);
/// ```
pub fn watch_by(watcher: Watcher) {
    // A second registration is ignored: a process has one kind of server.
    let _ = WATCHER.set(watcher);
}

/// Wakes `waker` at this time. Returns false if the system cannot start a thread for it.
///
/// ```
/// use std::task::Waker;
/// use std::time::{Duration, Instant};
/// assert!(marmota_store::engine::wake_at(Instant::now() + Duration::from_millis(1), Waker::noop().clone()));
/// ```
#[must_use]
pub fn wake_at(at: Instant, waker: Waker) -> bool {
    let poller = Poller::the();
    poller.inspect(|poller| poller.wake_at(at, waker)).is_some()
}

/// A socket whose events are reported to a watch, until this value is dropped.
pub struct Watched {
    /// The socket.
    source: Source,
    by: By,
}

/// The source of the events.
enum By {
    /// A server's thread.
    Thread(Box<dyn Watching>),
    Poller(#[expect(dead_code, reason = "watches until it is dropped")] Polled),
}

impl Watched {
    /// Returns true if the calling thread is the watcher.
    #[must_use]
    pub fn is_here(&self) -> bool {
        matches!(&self.by, By::Thread(watching) if watching.is_here())
    }
}

impl Watch {
    /// Ensures that this socket is watched, by the calling thread if it belongs to a server.
    /// Returns true if the socket was not watched before; then earlier events are reported at once.
    /// `watched` is `None` if the system cannot provide a watcher.
    ///
    /// An engine calls it in each poll that waits: a task may have moved to another thread, and a
    /// server's thread may have ended.
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

    /// Wakes the waiting task at this time or earlier.
    pub fn wake_at(self: &Arc<Self>, at: Instant) {
        if self.set_alarm(at) && !wake_at(at, Arc::clone(self).into()) {
            self.happened();
        }
    }
}
