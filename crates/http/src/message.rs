//! Requests and responses, as handlers see them, and the state of a server thread that writing a
//! response needs. Nothing here knows a route's handler or a connection.

pub(crate) mod added_headers;
pub(crate) mod before_body;
pub(crate) mod body_reader;
pub(crate) mod events;
pub(crate) mod forwarded;
pub(crate) mod limits;
pub(crate) mod observe;
pub(crate) mod problem;
pub(crate) mod protocol;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod same_origin;
pub(crate) mod sites;
pub(crate) mod thread_locals;
pub(crate) mod writer;
