//! Requests and responses as handlers see them, and the state of a server thread that writing a
//! response needs. Nothing here knows the handler of a route or a connection.
//!
//! | file | subject |
//! |---|---|
//! | `request` | [`Request`](crate::Request): a handle on the read buffer of a connection |
//! | `body_reader` | reading a request's body piece by piece |
//! | `before_body` | the results of layers and checks, before the body is read |
//! | `forwarded` | the client, as a trusted proxy reports it |
//! | `same_origin`, `sites` | the check for requests of foreign pages |
//! | `response`, `problem`, `events` | [`Response`](crate::Response): an answer as a value |
//! | `writer` | [`ResponseWriter`](crate::ResponseWriter): an answer as bytes |
//! | `added_headers` | headers that layers add to an answer |
//! | `protocol` | other protocols on a connection, after an upgrade |
//! | `limits` | all limits and timeouts |
//! | `thread_locals`, `observe` | the state of a thread, and the observer of its events |

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
