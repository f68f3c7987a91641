//! The REST contract over real sockets and every engine.

mod client;
mod row;
mod service;
mod slow;
