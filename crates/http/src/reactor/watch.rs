//! Other sockets of a server's thread: what a handler waits for by itself (a
//! database's connection, say) is watched by the thread that serves it, so that
//! no other thread has to wake it.
//!
//! A thread has one epoll instance for all of them, and its reactor watches
//! that one: so a source is added from a handler without the reactor, taken
//! away from any thread, and the same on the ring and on epoll.

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

/// What is called on the thread when something has happened to a source.
pub type Happened = Arc<dyn Fn() + Send + Sync>;

thread_local! {
    static HERE: RefCell<Option<Arc<Sources>>> = const { RefCell::new(None) };
}

/// The sources of a thread.
#[derive(Debug)]
pub(crate) struct Sources {
    epoll: OwnedFd,
    called: Mutex<HashMap<u64, Called>>,
    next: AtomicU64,
    is_over: AtomicBool,
}

struct Called(Happened);

impl std::fmt::Debug for Called {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Called")
    }
}

/// A source that is watched by a server's thread, until this is dropped.
pub struct Watch {
    sources: Arc<Sources>,
    number: u64,
    source: Arc<dyn AsFd + Send + Sync>,
}

/// Has the calling thread watch a source: `happened` is called on it whenever
/// bytes have come, there is room for more, or an end or an error. It tells of
/// each only once, so that one has to read (write) until nothing more is there.
/// What happened before may not be told.
///
/// None on a thread that serves nothing, or if the system has no room for it.
///
/// ```
/// use std::sync::Arc;
/// let (socket, _) = std::os::unix::net::UnixStream::pair()?;
/// assert!(marmota_http::watch(Arc::new(socket), Arc::new(|| {})).is_none(), "serves nothing");
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn watch(source: Arc<dyn AsFd + Send + Sync>, happened: Happened) -> Option<Watch> {
    use epoll::EventFlags as Flags;
    let sources = HERE.with_borrow(Clone::clone).filter(|here| !here.is_over())?;
    let number = sources.next.fetch_add(1, Ordering::Relaxed);
    sources.lock().insert(number, Called(happened));
    let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
    let data = epoll::EventData::new_u64(number);
    if epoll::add(&sources.epoll, &*source, data, flags).is_err() {
        sources.lock().remove(&number);
        return None;
    }
    Some(Watch { sources, number, source })
}

impl Watch {
    /// True if it is the calling thread that watches.
    #[must_use]
    pub fn is_here(&self) -> bool {
        HERE.with_borrow(|here| here.as_ref().is_some_and(|here| Arc::ptr_eq(here, &self.sources)))
    }

    /// True once the thread serves no longer, and nobody watches.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.sources.is_over()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Only fails when it is not watched any more.
        let _ = epoll::delete(&self.sources.epoll, &*self.source);
        self.sources.lock().remove(&self.number);
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Sources {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            called: Mutex::default(),
            next: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }))
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// What the thread's reactor watches.
    pub(crate) fn as_source(&self) -> &OwnedFd {
        &self.epoll
    }

    /// Makes the calling thread the one that these belong to.
    pub(crate) fn settle_here(self: &Arc<Self>) {
        HERE.set(Some(Arc::clone(self)));
    }

    /// Calls for each source to which something has happened.
    pub(crate) fn call(&self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // What is left comes up in the next turn.
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

    /// Nothing is watched any more: whoever waits is told, to be watched elsewhere.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let called: Vec<Happened> = self.lock().values().map(|one| Arc::clone(&one.0)).collect();
        called.iter().for_each(|happened| happened());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Called>> {
        self.called.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
