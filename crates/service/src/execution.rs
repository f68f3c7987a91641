//! Where a service's calls run, and how many of them at once.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use async_executor::Executor;
use async_lock::Mutex;
use futures_lite::future::block_on;
use marmota_model::{Error, ErrorKind, Result};

use crate::call::{Call, Running};
use crate::hosted::Start;

/// Where calls of a service run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// Where they arrive, as many at once as there are: for methods that wait by
    /// `.await` alone. Over HTTP that is a thread of the server's, which a method
    /// that blocks would hold up.
    #[default]
    Free,
    /// Where they arrive, one after the other, in the order in which they came.
    OneAtATime,
    /// On a thread of the service's own. Those that wait by `.await` let others
    /// run meanwhile.
    OwnThread,
    /// On so many threads of the service's own, from 1 to 256: for methods that
    /// block.
    Pool(usize),
}

const THREADS_MAX: usize = 256;

/// What carries out the calls of one service.
pub(crate) struct Runner {
    execution: Execution,
    turn: Arc<Mutex<()>>,
    threads: OnceLock<Option<Threads>>,
    under_way: Arc<AtomicUsize>,
    calls_max: usize,
}

/// Threads that end when nobody has this any more.
struct Threads {
    executor: Arc<Executor<'static>>,
    /// Its end is the threads'.
    _alive: async_channel::Sender<()>,
}

/// A call that counts until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Runner {
    pub(crate) fn new(execution: Execution, calls_max: usize) -> Self {
        Self {
            execution,
            turn: Arc::default(),
            threads: OnceLock::new(),
            under_way: Arc::default(),
            calls_max,
        }
    }

    /// The same with another execution.
    pub(crate) fn with(&self, execution: Execution) -> Self {
        Self::new(execution, self.calls_max)
    }

    /// The same with another bound.
    pub(crate) fn with_max(&self, calls_max: usize) -> Self {
        Self::new(self.execution, calls_max)
    }

    /// Carries out a call.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if too many are under way.
    pub(crate) fn run(
        &self,
        call: Call,
        start: Start,
    ) -> Result<impl Future<Output = Result<Vec<u8>>> + Send + use<>> {
        let counted = Counted(Arc::clone(&self.under_way));
        if self.under_way.fetch_add(1, Ordering::AcqRel) >= self.calls_max {
            return Err(self.too_many(&call));
        }
        let begin = move || -> Running { call.run(start) };
        let way = match self.execution {
            Execution::Free => Way::Here,
            Execution::OneAtATime => Way::InTurn(Arc::clone(&self.turn)),
            Execution::OwnThread => Way::There(self.threads(1)?),
            Execution::Pool(threads) => Way::There(self.threads(threads)?),
        };
        Ok(async move {
            let _counted = counted;
            match way {
                Way::Here => begin().await,
                Way::InTurn(turn) => {
                    let _turn = turn.lock_arc().await;
                    begin().await
                }
                // Dropped, the task is given up with the call.
                Way::There(executor) => executor.spawn(async move { begin().await }).await,
            }
        })
    }

    fn threads(&self, count: usize) -> Result<Arc<Executor<'static>>> {
        let threads = self.threads.get_or_init(|| {
            let executor = Arc::new(Executor::new());
            let (alive, ended) = async_channel::bounded::<()>(1);
            let mut begun = 0;
            for _ in 0..count.clamp(1, THREADS_MAX) {
                let (executor, ended) = (Arc::clone(&executor), ended.clone());
                let work = move || {
                    // It ends with an error when nobody is left to say anything.
                    let _ = block_on(executor.run(ended.recv()));
                };
                let thread = std::thread::Builder::new().name("marmota-service".to_owned());
                match thread.spawn(work) {
                    Ok(_) => begun += 1,
                    Err(error) => log::error!("no thread for a service: {error}"),
                }
            }
            (begun > 0).then_some(Threads { executor, _alive: alive })
        });
        threads.as_ref().map(|threads| Arc::clone(&threads.executor)).ok_or_else(|| {
            Error::new(ErrorKind::Busy, "the system gives no thread for the service; try again")
        })
    }

    #[cold]
    fn too_many(&self, call: &Call) -> Error {
        let message = format!(
            "{} calls of {} are under way, the most there may be (`calls_max`); try again",
            self.calls_max,
            call.service()
        );
        Error::new(ErrorKind::Busy, message)
    }
}

enum Way {
    Here,
    InTurn(Arc<Mutex<()>>),
    There(Arc<Executor<'static>>),
}
