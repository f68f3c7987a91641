//! From method and path to a handler: the router, what a handler is, the layers around handlers, and
//! the check of a request before its body is read.

pub(crate) mod admission;
pub(crate) mod dispatch;
pub(crate) mod endpoint;
pub(crate) mod handler;
pub(crate) mod layer;
pub(crate) mod router;
#[cfg(feature = "extract")]
pub(crate) mod state_router;
#[cfg(feature = "extract")]
pub(crate) mod typed_handler;
