//! The REST contract over real sockets and every engine.

mod batch;
mod blob;
mod client;
mod faulty;
mod guide;
mod list;
mod random;
mod resource;
mod row;
mod service;
mod slow;
