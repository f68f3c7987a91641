//! The protocol as functions on bytes. They own no socket, and what reads
//! trusts nothing: every length, number and name is checked.
//!
//! A packet is its length and number (4 bytes each, little-endian) and a body.
//! A client's body begins with what is asked for ([`operation`], or the hello
//! of [`contract`]), a server's with what came of it ([`outcome`]).

pub(crate) mod bytes;
pub(crate) mod contract;
pub(crate) mod frame;
pub(crate) mod operation;
pub(crate) mod outcome;
pub mod packet;
pub(crate) mod query;
pub(crate) mod value;
