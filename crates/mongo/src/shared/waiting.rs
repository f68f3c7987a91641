//! Waiting for the work of the engine's thread: on a thread that blocks, or by polls.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};

use marmota_model::{Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::fault;

/// Runs a future on the engine's thread and waits for it, on a thread that may itself belong to a
/// runtime.
pub(crate) fn wait_on<T: Send + 'static>(
    handle: &Handle,
    future: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = mpsc::channel();
    handle.spawn(async move {
        // The caller may have given up.
        let _ = sender.send(future.await);
    });
    receiver.recv().unwrap_or_else(|_| Err(fault::closed()))
}

/// Waits for a task of the engine's thread.
pub(crate) fn joined<T>(
    task: &mut JoinHandle<Result<T>>,
    context: &mut Context<'_>,
) -> Poll<Result<T>> {
    Pin::new(task).poll(context).map(|joined| match joined {
        Ok(done) => done,
        Err(error) if error.is_panic() => {
            Err(Error::new(ErrorKind::Bug, "the engine's work has panicked; see its message"))
        }
        Err(_) => Err(fault::closed()),
    })
}
