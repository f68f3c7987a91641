//! PostgreSQL's protocol, version 3, as functions on bytes: what is sent is
//! appended to a buffer, what has come is read from a slice. No socket, and no
//! state but what the caller keeps.

pub mod backend;
pub mod frontend;
pub mod value;
