//! Additional sockets of a server's thread. A socket that a handler waits for (a database
//! connection, for example) is watched by the thread that serves the handler, so that no other
//! thread has to wake it.
//!
//! A thread has one poller for all of them, which its reactor watches. So a handler adds a source
//! without the reactor, any thread can remove it, and all works the same with all backends. The file
//! knows no protocol: it calls a function, which usually wakes the handler.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fd::AsFd;

use crate::reactor::Reactor;
use crate::reactor::backend::ChosenBackend;
use crate::reactor::event::{Event, Token, Trigger};
use crate::reactor::poller::Poller;

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
pub(crate) struct WatchedSources {
    list: Mutex<SourceList>,
    /// The thread has stopped serving.
    is_over: AtomicBool,
}

/// The sources, and the poller that watches them.
struct SourceList {
    poller: Poller,
    /// The functions, by the number of their source.
    callbacks: HashMap<Token, ReadinessCallback>,
    /// The number of the next source.
    next: Token,
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
    number: Token,
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
    let sources = CURRENT.with_borrow(Clone::clone).filter(|here| !here.is_over())?;
    let mut list = sources.lock();
    let number = list.next;
    list.poller.add(&*source, number, Trigger::Edge).ok()?;
    list.next += 1;
    list.callbacks.insert(number, callback);
    drop(list);
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
        let mut list = self.sources.lock();
        list.poller.remove(&*self.source);
        let callback = list.callbacks.remove(&self.number);
        // The callback may own another watch.
        drop(list);
        drop(callback);
    }
}

impl std::fmt::Debug for ReadinessWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadinessWatch").field("number", &self.number).finish_non_exhaustive()
    }
}

impl WatchedSources {
    /// Creates the empty list of a thread's sources.
    pub(crate) fn new(chosen: ChosenBackend) -> io::Result<Arc<Self>> {
        let poller = Poller::new(chosen)?;
        let list = Mutex::new(SourceList { poller, callbacks: HashMap::new(), next: 0 });
        Ok(Arc::new(Self { list, is_over: AtomicBool::new(false) }))
    }

    /// Returns true once the thread has stopped serving.
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Registers the poller with the thread's reactor.
    pub(crate) fn register(&self, reactor: &mut Reactor) -> io::Result<()> {
        reactor.add_watched_sources(&self.lock().poller)
    }

    /// Assigns these sources to the calling thread.
    pub(crate) fn install(self: &Arc<Self>) {
        CURRENT.set(Some(Arc::clone(self)));
    }

    /// Calls the function of each source that has an event.
    pub(crate) fn call(&self) {
        let mut list = self.lock();
        // Further events are reported in the next turn.
        if list.poller.wait(Some(0)).is_err() {
            return;
        }
        let mut ready = Vec::new();
        let mut index = 0;
        while let Some(event) = list.poller.event(index) {
            if let Event::Ready { token, .. } = event
                && let Some(callback) = list.callbacks.get(&token)
            {
                ready.push(Arc::clone(callback));
            }
            index += 1;
        }
        drop(list);
        ready.iter().for_each(|callback| callback());
    }

    /// Stops watching and notifies all waiters, so that they can watch elsewhere.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let callbacks: Vec<ReadinessCallback> = self.lock().callbacks.values().cloned().collect();
        callbacks.iter().for_each(|callback| callback());
    }

    fn lock(&self) -> MutexGuard<'_, SourceList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
