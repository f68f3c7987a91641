//! The configuration of one server thread, and the tokio runtime that its handlers may use.
//!
//! It is made on the starting thread and moved to the new one, which builds its [`Worker`] from it:
//! a worker has an event loop and reference-counted data, and cannot move between threads.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::message::limits::Limits;
use crate::message::thread_locals::ThreadLocals;
use crate::middleware::observer::Observing;
use crate::reactor::Reactor;
use crate::reactor::backend::ChosenBackend;
use crate::reactor::readiness_watch::WatchedSources;
use crate::reactor::task::Inbox;
use crate::routing::router::Routes;
use crate::server::error::ServerError;
use crate::server::worker::{Common, Worker};
use crate::socket::listener::Listener;

/// Everything that a server thread needs to start.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux schedules threads"))]
pub(crate) struct WorkerConfig {
    /// One listener for each address of the server; other threads may share them.
    pub(crate) listeners: Vec<Arc<Listener>>,
    /// The number of the thread.
    pub(crate) index: usize,
    /// The core that the thread is bound to.
    pub(crate) core: Option<usize>,
    /// The thread gets the scheduling policy SCHED_BATCH.
    pub(crate) is_batch: bool,
    /// The backend that was chosen, with what it needs.
    pub(crate) settled: ChosenBackend,
    /// Entered by the thread for as long as it serves.
    pub(crate) runtime: Runtime,
    pub(crate) limits: Limits,
    /// The routes at the start.
    pub(crate) routes: Arc<Routes>,
    /// Wake-ups from other threads.
    pub(crate) inbox: Arc<Inbox>,
    /// The `Server` header.
    pub(crate) name: String,
    pub(crate) observing: Observing,
    /// The state that the threads share.
    pub(crate) common: Arc<Common>,
}

impl WorkerConfig {
    /// Serves until shutdown. Sends to `ready` whether the thread can serve: a server starts only
    /// if all its threads can, because the connections of a listener without a thread would wait
    /// forever.
    pub(crate) fn serve(self, ready: Sender<Result<(), ServerError>>) -> io::Result<()> {
        let runtime = self.runtime.clone();
        match self.prepare() {
            Ok(worker) => {
                // Only fails when the starting thread has given up, which ends the service.
                let _ = ready.send(Ok(()));
                drop(ready);
                runtime.within(|| worker.run())
            }
            Err(error) => {
                let _ = ready.send(Err(error));
                Ok(())
            }
        }
    }

    /// Builds the worker on its own thread.
    fn prepare(self) -> Result<Worker, ServerError> {
        #[cfg(target_os = "linux")]
        self.schedule()?;
        let mut local = ThreadLocals::new(
            self.limits,
            Arc::clone(&self.routes.context),
            self.routes.endpoints().count(),
            self.inbox,
            Arc::clone(&self.common.bodies),
            &self.name,
        );
        local.observer = self.observing.thread();
        let reactor = Reactor::new(self.settled, &local.inbox)?;
        local.reports_half_close = reactor.reports_half_close();
        let sources = WatchedSources::new(self.settled).map_err(ServerError::Thread)?;
        Worker::new(self.listeners, self.routes, self.index, local, self.common, reactor, sources)
            .map_err(ServerError::Thread)
    }

    /// Binds the thread to its core, and sets its scheduling policy. Only Linux has both.
    #[cfg(target_os = "linux")]
    fn schedule(&self) -> Result<(), ServerError> {
        use rustix::thread::{CpuSet, sched_setaffinity};
        if let Some(core) = self.core {
            let mut set = CpuSet::new();
            set.set(core);
            sched_setaffinity(None, &set).map_err(|error| ServerError::Thread(error.into()))?;
        }
        if self.is_batch
            && let Err(error) = crate::reactor::thread_policy::set_batch()
        {
            // The thread serves without it.
            log::warn!("batch scheduling off: a server thread keeps its policy: {error}");
        }
        Ok(())
    }
}

/// The tokio runtime for asynchronous handlers, if there are any.
///
/// All threads of a server share it. It has one worker thread, for timers, sockets and spawned
/// tasks; the handlers themselves run on the server's threads.
#[derive(Clone)]
pub(crate) struct Runtime {
    #[cfg(feature = "tokio")]
    tokio: Option<Arc<tokio::runtime::Runtime>>,
}

impl Runtime {
    /// Starts the runtime if a route has an asynchronous handler, or may get one later.
    #[cfg(feature = "tokio")]
    pub(crate) fn new(routes: &Routes, may_change: bool) -> io::Result<Self> {
        if !may_change && !routes.endpoints().any(|endpoint| endpoint.asynchronous) {
            return Ok(Self { tokio: None });
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("marmota-tokio")
            .enable_all()
            .build()?;
        Ok(Self { tokio: Some(Arc::new(runtime)) })
    }

    /// Returns no runtime: without the feature `tokio` handlers have none.
    #[cfg(not(feature = "tokio"))]
    pub(crate) fn new(_: &Routes, _: bool) -> io::Result<Self> {
        Ok(Self {})
    }

    /// Calls `serve` within the runtime. It is entered once for the whole time, so a request does
    /// not pay for it.
    fn within<T>(&self, serve: impl FnOnce() -> T) -> T {
        #[cfg(feature = "tokio")]
        let _entered = self.tokio.as_ref().map(|tokio| tokio.enter());
        serve()
    }
}
