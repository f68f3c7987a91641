//! Additional sockets of a server's thread. A socket that a handler waits for (a database
//! connection, for example) is watched by the thread that serves the handler, so that no other
//! thread has to wake it.
//!
//! A thread has one epoll instance for all of them, which its reactor watches. So a handler adds a
//! source without the reactor, any thread can remove it, and all works the same with io_uring and
//! epoll. The file knows no protocol: it calls a function, which usually wakes the handler.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};

/// The maximum number of events taken at once.
const EVENTS_MAX: usize = 64;

/// The function that a thread calls when a watched source is ready. It runs on the server's thread,
/// so it must be short: wake a task, or set a flag.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use marmota_http::ReadinessCallback;
///
/// let ready = Arc::new(AtomicBool::new(false));
/// let flag = Arc::clone(&ready);
/// let callback: ReadinessCallback = Arc::new(move || flag.store(true, Ordering::Release));
/// callback();
/// assert!(ready.load(Ordering::Acquire));
/// ```
pub type ReadinessCallback = Arc<dyn Fn() + Send + Sync>;

thread_local! {
    /// The sources of the current thread; `None` on a thread that does not serve.
    static CURRENT: RefCell<Option<Arc<WatchedSources>>> = const { RefCell::new(None) };
}

/// The watched sources of a thread. The thread and each [`ReadinessWatch`] share it.
#[derive(Debug)]
pub(crate) struct WatchedSources {
    /// The instance that watches the sources.
    epoll: OwnedFd,
    /// The functions, by the number of their source.
    callbacks: Mutex<HashMap<u64, Registered>>,
    /// The number of the next source.
    next: AtomicU64,
    /// The thread has stopped serving.
    is_over: AtomicBool,
}

/// A callback, with a [`Debug`](std::fmt::Debug) for its owner.
struct Registered(ReadinessCallback);

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Registered")
    }
}

/// A source that a server's thread watches until this value is dropped. It can be dropped on any
/// thread.
///
/// The handler that waits for the source keeps it. When the thread stops serving, the callback is
/// called once more, and [`ReadinessWatch::is_over`] is true from then on: the owner then watches
/// the source in another way.
///
/// ```
/// use marmota_http::ReadinessWatch;
/// /// Returns true if a connection of a pool must be watched again before it is used.
/// fn must_watch(watch: Option<&ReadinessWatch>) -> bool {
///     watch.is_none_or(|watch| watch.is_over() || !watch.is_here())
/// }
/// assert!(must_watch(None));
/// ```
pub struct ReadinessWatch {
    /// The sources of the thread that watches it.
    sources: Arc<WatchedSources>,
    /// The number of the source there.
    number: u64,
    /// The source, which stays open as long as it is watched.
    source: Arc<dyn AsFd + Send + Sync>,
}

/// Watches a source on the calling thread, which calls `callback` when bytes have arrived, when
/// there is room for more, and at an end or an error.
///
/// Each event is reported only once (edge-triggered), so the caller must read (write) until nothing
/// more is available. Events before the call may not be reported.
///
/// Returns `None` on a thread that is not a server's, or if the system has no room for the source.
///
/// ```
/// use std::sync::Arc;
/// let (socket, _) = std::os::unix::net::UnixStream::pair()?;
/// assert!(marmota_http::watch(Arc::new(socket), Arc::new(|| {})).is_none(), "serves nothing");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// In a handler, the callback wakes the task that waits for the socket:
///
/// ```no_run
/// use std::os::unix::net::UnixStream;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use std::task::Poll;
/// use marmota_http::{Request, watch};
///
/// async fn wait_for_byte(_: Request) -> &'static str {
///     let Ok((socket, _other)) = UnixStream::pair() else { return "no socket" };
///     let (ready, mut watched) = (Arc::new(AtomicBool::new(false)), None);
///     std::future::poll_fn(|context| {
///         if ready.load(Ordering::Acquire) {
///             return Poll::Ready(());
///         }
///         if watched.is_none() {
///             let (waker, flag) = (context.waker().clone(), Arc::clone(&ready));
///             let Ok(source) = socket.try_clone() else { return Poll::Ready(()) };
///             watched = watch(Arc::new(source), Arc::new(move || {
///                 flag.store(true, Ordering::Release);
///                 waker.wake_by_ref();
///             }));
///         }
///         Poll::Pending
///     })
///     .await;
///     "ready"
/// }
/// # marmota_http::Router::new().get("/", wait_for_byte);
/// ```
#[must_use]
pub fn watch(
    source: Arc<dyn AsFd + Send + Sync>,
    callback: ReadinessCallback,
) -> Option<ReadinessWatch> {
    use epoll::EventFlags as Flags;
    let sources = CURRENT.with_borrow(Clone::clone).filter(|here| !here.is_over())?;
    let number = sources.next.fetch_add(1, Ordering::Relaxed);
    sources.lock().insert(number, Registered(callback));
    let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
    let data = epoll::EventData::new_u64(number);
    if epoll::add(&sources.epoll, &*source, data, flags).is_err() {
        sources.lock().remove(&number);
        return None;
    }
    Some(ReadinessWatch { sources, number, source })
}

impl ReadinessWatch {
    /// Returns true if the calling thread is the one that watches the source. A connection that
    /// moves to another thread is watched there anew.
    ///
    /// ```
    /// fn moved(watch: &marmota_http::ReadinessWatch) -> bool {
    ///     !watch.is_here()
    /// }
    /// ```
    #[must_use]
    pub fn is_here(&self) -> bool {
        CURRENT
            .with_borrow(|here| here.as_ref().is_some_and(|here| Arc::ptr_eq(here, &self.sources)))
    }

    /// Returns true once the thread has stopped serving and watches no more.
    ///
    /// ```
    /// fn is_useful(watch: &marmota_http::ReadinessWatch) -> bool {
    ///     !watch.is_over()
    /// }
    /// ```
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.sources.is_over()
    }
}

impl Drop for ReadinessWatch {
    fn drop(&mut self) {
        // Fails only after the thread has ended.
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
    /// Creates the empty list of a thread's sources.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            callbacks: Mutex::default(),
            next: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }))
    }

    /// Returns true once the thread has stopped serving.
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
        // Further events are reported in the next turn.
        if epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&now)).is_err() {
            return;
        }
        for event in &events {
            let registered =
                self.lock().get(&event.data.u64()).map(|registered| Arc::clone(&registered.0));
            if let Some(callback) = registered {
                callback();
            }
        }
    }

    /// Stops watching and notifies all waiters, so that they can watch elsewhere.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let callbacks: Vec<ReadinessCallback> =
            self.lock().values().map(|one| Arc::clone(&one.0)).collect();
        callbacks.iter().for_each(|callback| callback());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Registered>> {
        self.callbacks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
