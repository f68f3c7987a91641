//! The threads that run a service's calls, and their concurrency.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use async_executor::{Executor, Task};
use futures_lite::future::block_on;
use futures_lite::stream::Stream;
use marmota_model::{Error, ErrorKind, Result};
use marmota_store::wait::TurnLock;

use crate::call::{Call, Running, Start};
use crate::transfer::{ChunkStream, Reply};

/// The threads that run a service's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// Concurrently, on the thread that receives the call: for methods that wait only with
    /// `.await`. Over HTTP this is a server thread: a method that blocks or computes for long
    /// delays all connections of that thread.
    #[default]
    Inline,
    /// On the thread that receives the call, one after the other in order of arrival. A call ends
    /// with its result; a stream that it returns is produced during the next calls. The thread and
    /// the restrictions on a method are those of `Inline`.
    OneAtATime,
    /// On one separate thread of the service. A call that waits with `.await` lets others run.
    OwnThread,
    /// On this number of separate threads of the service, from 1 to 256: for methods that block.
    Pool(usize),
}

const THREADS_MAX: usize = 256;

/// Executes the calls of one service.
pub(crate) struct Runner {
    execution: Execution,
    turn: Arc<TurnLock>,
    threads: OnceLock<Option<Threads>>,
    under_way: Arc<AtomicUsize>,
    calls_max: usize,
}

/// Threads that end when this is dropped by its last owner.
struct Threads {
    executor: Arc<Executor<'static>>,
    /// Dropping it stops the threads.
    _alive: async_channel::Sender<()>,
}

/// A call that counts as running until it is dropped.
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

    /// Returns a runner with the same limit and another execution.
    pub(crate) fn with(&self, execution: Execution) -> Self {
        Self::new(execution, self.calls_max)
    }

    /// Returns a runner with the same execution and another limit.
    pub(crate) fn with_max(&self, calls_max: usize) -> Self {
        Self::new(self.execution, calls_max)
    }

    /// Executes a call.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if too many calls are running.
    pub(crate) fn run(
        &self,
        call: Call,
        start: Start,
    ) -> Result<impl Future<Output = Result<Reply>> + Send + use<>> {
        let counted = Counted(Arc::clone(&self.under_way));
        if self.under_way.fetch_add(1, Ordering::AcqRel) >= self.calls_max {
            return Err(self.too_many(&call));
        }
        let begin = move || -> Running { call.run(start) };
        let way = match self.execution {
            Execution::Inline => Way::Here,
            Execution::OneAtATime => Way::InTurn(Arc::clone(&self.turn)),
            Execution::OwnThread => Way::There(self.threads(1)?),
            Execution::Pool(threads) => Way::There(self.threads(threads)?),
        };
        Ok(async move {
            let reply = match &way {
                Way::Here => begin().await,
                Way::InTurn(turn) => {
                    let _turn = turn.take().await;
                    begin().await
                }
                // Dropping the call drops and so cancels the task.
                Way::There(executor) => executor.spawn(async move { begin().await }).await,
            };
            // A call with a streamed result counts until the stream ends.
            Ok(match (reply?, way) {
                (Reply::Stream(pieces), Way::There(executor)) => {
                    Reply::Stream(ChunkStream::new(Elsewhere::new(&executor, pieces, counted)))
                }
                (Reply::Stream(pieces), _) => {
                    Reply::Stream(ChunkStream::new(Here { pieces, _counted: counted }))
                }
                (value, _) => value,
            })
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
                    // `recv` returns an error once the sender is dropped: the service is gone.
                    let _ = block_on(executor.run(ended.recv()));
                };
                let thread = std::thread::Builder::new().name("marmota-service".to_owned());
                match thread.spawn(work) {
                    Ok(_) => begun += 1,
                    Err(error) => {
                        log::error!("a thread for a service could not be started: {error}");
                    }
                }
            }
            (begun > 0).then_some(Threads { executor, _alive: alive })
        });
        threads.as_ref().map(|threads| Arc::clone(&threads.executor)).ok_or_else(|| {
            Error::new(ErrorKind::Busy, "a thread for the service could not be started; try again")
        })
    }

    #[cold]
    fn too_many(&self, call: &Call) -> Error {
        let message = format!(
            "{} calls of {} are running, the limit (`calls_max`); try again later",
            self.calls_max,
            call.service()
        );
        Error::new(ErrorKind::Busy, message)
    }
}

/// A streamed result that is produced on the thread that reads it.
struct Here {
    pieces: ChunkStream,
    _counted: Counted,
}

impl Stream for Here {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.pieces).poll_next(context)
    }
}

/// A streamed result that is produced on the threads of the service.
struct Elsewhere {
    made: Pin<Box<async_channel::Receiver<Result<Vec<u8>>>>>,
    /// Dropping it cancels the producer.
    _task: Task<()>,
}

impl Elsewhere {
    fn new(executor: &Executor<'static>, mut pieces: ChunkStream, counted: Counted) -> Self {
        let (sender, made) = async_channel::bounded(1);
        let task = executor.spawn(async move {
            let _counted = counted;
            while let Some(piece) = pieces.next().await {
                if sender.send(piece).await.is_err() {
                    return;
                }
            }
        });
        Self { made: Box::pin(made), _task: task }
    }
}

impl Stream for Elsewhere {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.made.as_mut().poll_next(context)
    }
}

enum Way {
    Here,
    InTurn(Arc<TurnLock>),
    There(Arc<Executor<'static>>),
}
