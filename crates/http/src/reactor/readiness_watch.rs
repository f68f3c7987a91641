//! Additional sockets of a server's thread. A socket that a handler waits for (a database
//! connection, say) is watched by the thread that serves the handler, so that no other thread has
//! to wake it.
//!
//! A thread has one epoll instance for all of them, which its reactor watches. So a handler adds a
//! source without the reactor, any thread can remove it, and all works the same with io_uring and
//! epoll.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};

/// Events taken at once.
const EVENTS_MAX: usize = 64;

/// The function that the thread calls when a source has an event.
pub type ReadinessCallback = Arc<dyn Fn() + Send + Sync>;

thread_local! {
    static CURRENT: RefCell<Option<Arc<WatchedSources>>> = const { RefCell::new(None) };
}

/// The watched sources of a thread.
#[derive(Debug)]
pub(crate) struct WatchedSources {
    epoll: OwnedFd,
    callbacks: Mutex<HashMap<u64, Registered>>,
    next: AtomicU64,
    is_over: AtomicBool,
}

struct Registered(ReadinessCallback);

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Registered")
    }
}

/// A source that a server's thread watches until this is dropped.
pub struct ReadinessWatch {
    sources: Arc<WatchedSources>,
    number: u64,
    source: Arc<dyn AsFd + Send + Sync>,
}

/// Watches a source on the calling thread, which calls `happened` whenever bytes have arrived,
/// there is room for more, or at an end or an error. Each event is reported only once, so the
/// caller must read (write) until nothing more is available. Earlier events may not be reported.
///
/// Returns `None` on a thread that is not a server's, or if the system has no room for the source.
///
/// ```
/// use std::sync::Arc;
/// let (socket, _) = std::os::unix::net::UnixStream::pair()?;
/// assert!(marmota_http::watch(Arc::new(socket), Arc::new(|| {})).is_none(), "serves nothing");
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn watch(
    source: Arc<dyn AsFd + Send + Sync>,
    happened: ReadinessCallback,
) -> Option<ReadinessWatch> {
    use epoll::EventFlags as Flags;
    let sources = CURRENT.with_borrow(Clone::clone).filter(|here| !here.is_over())?;
    let number = sources.next.fetch_add(1, Ordering::Relaxed);
    sources.lock().insert(number, Registered(happened));
    let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
    let data = epoll::EventData::new_u64(number);
    if epoll::add(&sources.epoll, &*source, data, flags).is_err() {
        sources.lock().remove(&number);
        return None;
    }
    Some(ReadinessWatch { sources, number, source })
}

impl ReadinessWatch {
    /// Returns true if the calling thread watches the source.
    #[must_use]
    pub fn is_here(&self) -> bool {
        CURRENT
            .with_borrow(|here| here.as_ref().is_some_and(|here| Arc::ptr_eq(here, &self.sources)))
    }

    /// Returns true once the thread has stopped serving and watches no more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.sources.is_over()
    }
}

impl Drop for ReadinessWatch {
    fn drop(&mut self) {
        // Fails only if it is no longer watched.
        let _ = epoll::delete(&self.sources.epoll, &*self.source);
        self.sources.lock().remove(&self.number);
    }
}

impl std::fmt::Debug for ReadinessWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadinessWatch").field("number", &self.number).finish_non_exhaustive()
    }
}

impl WatchedSources {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            callbacks: Mutex::default(),
            next: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }))
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Returns the descriptor that the thread's reactor watches.
    pub(crate) fn as_source(&self) -> &OwnedFd {
        &self.epoll
    }

    /// Assigns these sources to the calling thread.
    pub(crate) fn install(self: &Arc<Self>) {
        CURRENT.set(Some(Arc::clone(self)));
    }

    /// Calls the function of each source that has an event.
    pub(crate) fn call(&self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Remaining events are reported in the next turn.
        if epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&now)).is_err() {
            return;
        }
        for event in &events {
            let called = self.lock().get(&event.data.u64()).map(|called| Arc::clone(&called.0));
            if let Some(happened) = called {
                happened();
            }
        }
    }

    /// Stops watching and notifies all waiters, so that they can watch elsewhere.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let called: Vec<ReadinessCallback> =
            self.lock().values().map(|one| Arc::clone(&one.0)).collect();
        called.iter().for_each(|happened| happened());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Registered>> {
        self.callbacks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
