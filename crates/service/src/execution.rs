//! Where a service's calls run, and how many of them at once.

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

use crate::call::{Call, Running};
use crate::form::Reply;
use crate::hosted::Start;
use crate::pieces::Pieces;

/// Where calls of a service run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// Where they arrive, as many at once as there are: for methods that wait by
    /// `.await` alone. Over HTTP that is a thread of the server's: a method that
    /// blocks or computes for long keeps every connection of that thread waiting.
    #[default]
    Inline,
    /// Where they arrive, one after the other, in the order in which they came. A call ends
    /// when it answers: a stream that comes of it is made during the next calls. On the same
    /// thread as for `Free`, and with the same limit on what a method may do.
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
    turn: Arc<TurnLock>,
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
                // Dropped, the task is given up with the call.
                Way::There(executor) => executor.spawn(async move { begin().await }).await,
            };
            // It counts for as long as something comes of it.
            Ok(match (reply?, way) {
                (Reply::Stream(pieces), Way::There(executor)) => {
                    Reply::Stream(Pieces::new(Elsewhere::new(&executor, pieces, counted)))
                }
                (Reply::Stream(pieces), _) => {
                    Reply::Stream(Pieces::new(Here { pieces, _counted: counted }))
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

/// A result's stream, made where it is taken.
struct Here {
    pieces: Pieces,
    _counted: Counted,
}

impl Stream for Here {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.pieces).poll_next(context)
    }
}

/// A result's stream, made on threads of the service's own.
struct Elsewhere {
    made: Pin<Box<async_channel::Receiver<Result<Vec<u8>>>>>,
    /// Dropped, it is given up.
    _task: Task<()>,
}

impl Elsewhere {
    fn new(executor: &Executor<'static>, mut pieces: Pieces, counted: Counted) -> Self {
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
