//! The store through its public API.

mod memory_file;
mod memory_model;
mod memory_session;
