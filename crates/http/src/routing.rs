//! Routing: from a method and a path to a handler, and running it.
//!
//! | file | subject |
//! |---|---|
//! | `router` | [`Router`](crate::Router): collects patterns and endpoints |
//! | `endpoint` | [`Endpoint`](crate::Endpoint): a handler with the settings of its route |
//! | `handler` | [`Handler`](crate::Handler): the trait of all handlers |
//! | `layer` | [`Layer`](crate::Layer): middleware around handlers |
//! | `described` | [`described`](crate::described): handlers with descriptions for OpenAPI |
//! | `wrap` | [`Next`](crate::Next): asynchronous functions around handlers |
//! | `admission` | [`Admission`](crate::Admission): the check of a request before its body is read |
//! | `state_router`, `typed_handler` | handlers with typed arguments |
//! | `dispatch` | runs the layers, the check and the handler of one request |
//!
//! A request passes `PathTree::find` → `dispatch::decide` (layers and check, by the head) → the
//! body → `dispatch::run` (the handler). A connection calls these in turn; nothing here reads a
//! socket.

pub(crate) mod admission;
#[cfg(feature = "extract")]
pub(crate) mod answer_steps;
#[cfg(feature = "schemars")]
pub(crate) mod described;
pub(crate) mod dispatch;
pub(crate) mod endpoint;
pub(crate) mod handler;
pub(crate) mod layer;
pub(crate) mod router;
#[cfg(feature = "extract")]
pub(crate) mod state_router;
#[cfg(feature = "extract")]
pub(crate) mod typed_handler;
pub(crate) mod wrap;
