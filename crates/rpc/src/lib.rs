//! One connection between two processes: packets in both directions over Unix sockets, TCP, TLS
//! and WebSockets, below remote stores and services.
//!
//! A client's [`Connector`] connects to a [`ServerAddress`], upgrades the connection from HTTP to
//! its protocol, and returns a [`Connection`]: buffers around a non-blocking [`Transport`].
//! [`Reconnect`] and [`ConnectThreads`] make the next connection when one breaks. On the server a
//! [`ServerProtocol`] turns bytes into bytes; [`upgraded`] runs it on a connection of the HTTP
//! server, and [`InProcess`] for a client of the same process.
//!
//! ```no_run
//! use std::time::Duration;
//! use marmota_rpc::{Connector, ServerAddress};
//!
//! let address = ServerAddress::parse("unix:/run/app.sock")?;
//! let connector = Connector::new(address, "/-/chat", "chat", "no chat is served");
//! let mut connection = connector.connect(&[], Duration::from_secs(5))?;
//! connection.queue(b"hello")?;
//! # Ok::<(), marmota_model::Error>(())
//! ```
//!
//! The crate knows no operations and no calls: what packets contain is decided above it.
#![forbid(unsafe_code)]

mod address;
mod connect_attempt;
mod connection;
mod connector;
mod credential;
pub mod packet;
mod reconnect;
mod server;
mod transport;
mod upgrade_request;

pub use address::ServerAddress;
pub use connect_attempt::{ConnectAttempt, ConnectThreads};
pub use connection::Connection;
pub use connector::{Connector, no_local_address};
pub use credential::Credential;
pub use packet::{Packet, PacketBody};
pub use reconnect::Reconnect;
pub use server::protocol::{ConnectionEnd, ServerProtocol};
pub use server::upgrade_response::upgraded;
pub use transport::in_process::InProcess;
pub use transport::{Source, Transport};
