//! One thread of a server: what it starts with, and the runtime that its handlers may use.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::message::limits::Limits;
use crate::message::local::ThreadLocals;
use crate::middleware::observer::Observing;
use crate::reactor::Reactor;
use crate::reactor::backend::Settled;
use crate::reactor::task::Inbox;
use crate::reactor::thread_policy;
use crate::routing::router::Routes;
use crate::server::error::ServerError;
use crate::server::worker::{Common, Worker};
use crate::socket::listener::Listener;

/// Everything a server thread starts with.
pub(crate) struct WorkerConfig {
    pub(crate) listeners: Vec<Arc<Listener>>,
    pub(crate) core: Option<usize>,
    pub(crate) is_batch: bool,
    pub(crate) settled: Settled,
    pub(crate) runtime: Runtime,
    pub(crate) limits: Limits,
    pub(crate) routes: Arc<Routes>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) name: String,
    pub(crate) observing: Observing,
    pub(crate) common: Arc<Common>,
}

impl WorkerConfig {
    /// Serves until shutdown, after telling that it can: so that a server whose threads cannot
    /// all serve does not start, as connections that wait for one of them would wait for ever.
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

    fn prepare(self) -> Result<Worker, ServerError> {
        if let Some(core) = self.core {
            let mut set = CpuSet::new();
            set.set(core);
            sched_setaffinity(None, &set).map_err(|error| ServerError::Thread(error.into()))?;
        }
        if self.is_batch
            && let Err(error) = thread_policy::set_batch()
        {
            // It serves without.
            log::warn!("batch scheduling off: a server thread keeps its policy: {error}");
        }
        let mut local = ThreadLocals::new(
            self.limits,
            Arc::clone(&self.routes.context),
            self.routes.endpoints().count(),
            self.inbox,
            Arc::clone(&self.common.bodies),
            &self.name,
        );
        local.observer = self.observing.thread();
        let reactor = Reactor::new(self.settled)?;
        Worker::new(self.listeners, self.routes, local, self.common, reactor)
            .map_err(ServerError::Thread)
    }
}

/// The tokio runtime that handlers may use, when one of them may.
#[derive(Clone)]
pub(crate) struct Runtime {
    #[cfg(feature = "tokio")]
    tokio: Option<Arc<tokio::runtime::Runtime>>,
}

impl Runtime {
    #[cfg(feature = "tokio")]
    pub(crate) fn new(routes: &Routes) -> io::Result<Self> {
        if !routes.endpoints().any(|endpoint| endpoint.asynchronous) {
            return Ok(Self { tokio: None });
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("marmota-tokio")
            .enable_all()
            .build()?;
        Ok(Self { tokio: Some(Arc::new(runtime)) })
    }

    #[cfg(not(feature = "tokio"))]
    pub(crate) fn new(_: &Routes) -> io::Result<Self> {
        Ok(Self {})
    }

    /// Calls `serve` with the runtime entered for as long as it lasts, so that entering costs
    /// nothing a request.
    fn within<T>(&self, serve: impl FnOnce() -> T) -> T {
        #[cfg(feature = "tokio")]
        let _entered = self.tokio.as_ref().map(|tokio| tokio.enter());
        serve()
    }
}
