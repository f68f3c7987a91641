//! Dispatch from a method's number and arguments to the future of its result. The macros implement
//! it for each contract.

use std::future::Future;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result};

use super::arguments::Arguments;
use crate::contract::Described;
use crate::transfer::{Answer, Reply, Transfer};

/// A call with parsed arguments, ready to start on an instance.
pub struct Prepared<T>(pub(crate) Box<dyn FnOnce(Arc<T>) -> Answer + Send>);

/// Calls the methods of `T` by number.
pub trait Dispatch<T>: Described + 'static {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// If the arguments are invalid.
    fn prepare(method: usize, arguments: Arguments<'_>) -> Result<Prepared<T>>;
}

/// Returns a call that starts when it gets its instance, and encodes its result.
pub fn prepared<T, R, F>(begin: impl FnOnce(Arc<T>) -> F + Send + 'static) -> Prepared<T>
where
    R: Transfer,
    F: Future<Output = Result<R>> + Send + 'static,
{
    Prepared(Box::new(move |instance| {
        let future = begin(instance);
        Box::pin(async move { written(future.await?) })
    }))
}

/// Encodes a result.
pub(crate) fn written<R: Transfer>(result: R) -> Result<Reply> {
    result.into_reply().map_err(|error| {
        let message = format!("the result cannot be written as JSON: {error}");
        Error::new(ErrorKind::Bug, message).with_source(error)
    })
}
