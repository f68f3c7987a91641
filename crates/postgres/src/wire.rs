//! PostgreSQL's protocol, version 3, as functions on bytes: sent messages are appended to a buffer,
//! received ones are parsed from a slice. Without sockets, and without state except the caller's.

pub mod backend;
pub mod frontend;
pub mod value;
