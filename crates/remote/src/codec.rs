//! The protocol as functions on bytes, without sockets. Reading trusts no input: every length,
//! number and name is checked.
//!
//! The body of a client's packet ([`marmota_rpc::packet`]) starts with the request ([`operation`],
//! or the hello of [`contract`]), that of a server's with the result ([`outcome`]).

#[cfg(test)]
pub(crate) mod any_value;
pub(crate) mod bytes;
pub(crate) mod contract;
pub(crate) mod operation;
pub(crate) mod outcome;
pub(crate) mod query;
pub(crate) mod ranked;
