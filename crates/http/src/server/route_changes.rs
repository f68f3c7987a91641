//! Replacing the routes of a server that runs, without closing connections.
//!
//! ```text
//!  RouteChanges::pause     number becomes odd; every inbox is notified
//!    each worker           starts no request, ends upgraded protocols, reports its requests
//!    all reports are 0     RoutePause is returned
//!  RoutePause::resume_with the routes are stored; number becomes even; inboxes are notified
//!    each worker           adopts the routes and drives all its connections
//! ```
//!
//! A worker compares one number in each turn of its loop, so a request pays nothing. Held-back
//! requests stay unparsed in the buffers of their connections.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::message::sites::Sites;
use crate::routing::router::{RouteError, Router, Routes};
use crate::server::running::ShutdownHandle;
use crate::socket::proxies::Proxies;

/// A handle that replaces the routes of a server while it runs, for programs whose routes depend on
/// data: requests wait meanwhile, and no connection is closed.
///
/// ```
/// use std::time::Duration;
/// use marmota_http::{RouteChanges, Router, Server};
///
/// let changes = RouteChanges::new();
/// let server = Server::bind("127.0.0.1:0")?.route_changes(&changes);
/// let running = server.start(Router::new().get("/", |_| async { "old" }))?;
///
/// // No request is in progress now, unless some took longer than a second.
/// let pause = changes.pause(Duration::from_secs(1)).expect("the server runs");
/// assert_eq!(pause.requests_in_progress(), 0);
/// pause.resume_with(Router::new().get("/", |_| async { "new" }))?;
/// # running.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RouteChanges {
    /// The server, once it runs.
    link: Arc<Mutex<Option<Arc<RouteLink>>>>,
    /// A pause is in effect.
    is_paused: Arc<AtomicBool>,
}

/// The parts of a server that a change of routes needs.
struct RouteLink {
    handle: ShutdownHandle,
    proxies: Proxies,
    sites: Sites,
}

impl fmt::Debug for RouteLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RouteLink")
    }
}

impl RouteChanges {
    /// Creates a handle, for [`Server::route_changes`](crate::Server::route_changes).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Connects the handle with a server that starts.
    pub(super) fn connect(&self, handle: ShutdownHandle, proxies: Proxies, sites: Sites) {
        *lock(&self.link) = Some(Arc::new(RouteLink { handle, proxies, sites }));
    }

    /// Holds back new requests, and waits for up to `patience` until those in progress are
    /// answered. Streams of events are not awaited. WebSockets, and other protocols after an
    /// upgrade, are notified that they end ([`Turn::is_draining`](crate::Turn::is_draining)).
    ///
    /// It blocks: do not call it on a thread of the server. Returns `None` if the server does not
    /// run, or if another pause is in effect. Dropping the result resumes with the same routes.
    #[must_use]
    pub fn pause(&self, patience: Duration) -> Option<RoutePause> {
        let link = lock(&self.link).clone()?;
        if self.is_paused.swap(true, Ordering::AcqRel) {
            return None;
        }
        let state = &link.handle.common.routes;
        let number = state.number.fetch_add(1, Ordering::AcqRel) + 1;
        link.handle.notify();
        let requests = state.await_reports(number, patience);
        Some(RoutePause { link, is_paused: Arc::clone(&self.is_paused), requests })
    }
}

/// A server whose requests are held back; see [`RouteChanges::pause`].
///
/// ```
/// use std::time::Duration;
/// use marmota_http::RouteChanges;
/// // Without a server there is nothing to pause.
/// assert!(RouteChanges::new().pause(Duration::ZERO).is_none());
/// ```
#[derive(Debug)]
#[must_use = "dropping it resumes with the same routes"]
pub struct RoutePause {
    link: Arc<RouteLink>,
    is_paused: Arc<AtomicBool>,
    requests: usize,
}

impl RoutePause {
    /// Returns the number of requests that were not answered in time. They continue with the routes
    /// that they were found in.
    #[must_use]
    pub const fn requests_in_progress(&self) -> usize {
        self.requests
    }

    /// Replaces the routes, and continues with the requests that were held back. Requests in
    /// progress are answered by the previous routes.
    ///
    /// # Errors
    /// A route that is malformed or conflicts with another; the server then continues with the same
    /// routes.
    pub fn resume_with(self, router: Router) -> Result<(), RouteError> {
        let routes = router.into_routes(self.link.proxies.clone(), self.link.sites.clone())?;
        *lock(&self.link.handle.common.routes.current) = Some(Arc::new(routes));
        Ok(())
    }
}

impl Drop for RoutePause {
    fn drop(&mut self) {
        self.link.handle.common.routes.number.fetch_add(1, Ordering::AcqRel);
        self.link.handle.notify();
        self.is_paused.store(false, Ordering::Release);
    }
}

/// The routes that the threads of a server share, while they are replaced.
pub(crate) struct RouteState {
    /// Odd while requests are held back.
    number: AtomicU64,
    /// The routes that replaced those of the start.
    current: Mutex<Option<Arc<Routes>>>,
    /// For each thread, the number that it has seen, and its requests in progress.
    reports: Mutex<Vec<(u64, usize)>>,
    /// Notified of new reports.
    reported: Condvar,
}

impl RouteState {
    /// Returns the state of a server with this number of threads.
    pub(super) fn new(threads: usize) -> Self {
        Self {
            number: AtomicU64::new(0),
            current: Mutex::default(),
            reports: Mutex::new(vec![(0, 0); threads]),
            reported: Condvar::new(),
        }
    }

    /// Returns the number of changes so far; it is odd while requests are held back.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Returns the routes that replaced those of the start.
    pub(super) fn current(&self) -> Option<Arc<Routes>> {
        lock(&self.current).clone()
    }

    /// Reports the requests in progress of a thread that holds back new ones.
    pub(super) fn report(&self, thread: usize, number: u64, requests: usize) {
        if let Some(report) = lock(&self.reports).get_mut(thread) {
            *report = (number, requests);
        }
        self.reported.notify_all();
    }

    /// Waits until all threads have reported that they have no requests. Returns the requests of
    /// the last reports; a thread that has not reported counts as one.
    fn await_reports(&self, number: u64, patience: Duration) -> usize {
        let until = Instant::now() + patience;
        let mut reports = lock(&self.reports);
        loop {
            let requests = reports.iter().map(|&(seen, requests)| match seen == number {
                true => requests,
                false => 1,
            });
            let requests = requests.sum();
            let left = until.saturating_duration_since(Instant::now());
            if requests == 0 || left.is_zero() {
                return requests;
            }
            let waited = self.reported.wait_timeout(reports, left);
            (reports, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl fmt::Debug for RouteState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RouteState {}", self.number())
    }
}

/// Locks a mutex. No code panics while it holds one of this file.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
