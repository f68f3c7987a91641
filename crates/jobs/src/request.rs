//! A call on jobs that has not been executed yet, for blocking and asynchronous callers.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use marmota_model::Result;
use marmota_store::action::block_on;

/// A call on jobs. `.await` it, or call [`JobRequest::run`]: nothing happens before that.
#[must_use = "nothing happens until it is awaited or run"]
pub struct JobRequest<'s, T>(Pin<Box<dyn Future<Output = Result<T>> + Send + 's>>);

impl<'s, T> JobRequest<'s, T> {
    pub(crate) fn new(future: impl Future<Output = Result<T>> + Send + 's) -> Self {
        Self(Box::pin(future))
    }

    /// Executes the call and blocks the thread while it waits.
    ///
    /// # Errors
    /// Those of the call.
    pub fn run(self) -> Result<T> {
        block_on(self.0)
    }
}

impl<'s, T> IntoFuture for JobRequest<'s, T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T>> + Send + 's>>;

    fn into_future(self) -> Self::IntoFuture {
        self.0
    }
}
