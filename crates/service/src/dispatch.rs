//! From a method's number and its arguments to the future that answers: what
//! the macros implement for each contract.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result};

use crate::arguments::Arguments;
use crate::contract::Contract;
use crate::form::{Reply, Transfer};

/// A call under way.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;

/// A call whose arguments were read, to be begun on an instance.
pub struct Prepared<T>(pub(crate) Box<dyn FnOnce(Arc<T>) -> Answer + Send>);

/// What has a contract.
pub trait Described {
    /// It.
    const CONTRACT: &'static Contract;
}

/// What calls methods of `T` by number.
pub trait Dispatch<T>: Described + 'static {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// Arguments that are no such ones.
    fn prepare(method: usize, arguments: Arguments<'_>) -> Result<Prepared<T>>;
}

/// A call that begins with its instance, and whose result is put on its way.
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

/// A result on its way.
pub(crate) fn written<R: Transfer>(result: R) -> Result<Reply> {
    result.into_reply().map_err(|error| {
        let message = format!("the result cannot be written as JSON: {error}");
        Error::new(ErrorKind::Bug, message).with_source(error)
    })
}
