//! The protocol as functions on bytes, without sockets. Reading trusts no input: every length,
//! number and name is checked.
//!
//! A packet is its length and number (4 bytes each, little-endian) and a body. A client's body
//! starts with the request ([`operation`], or the hello of [`contract`]), a server's with the
//! result ([`outcome`]).

pub(crate) mod bytes;
pub(crate) mod contract;
pub(crate) mod frame;
pub(crate) mod operation;
pub(crate) mod outcome;
pub mod packet;
pub(crate) mod query;
pub(crate) mod value;
