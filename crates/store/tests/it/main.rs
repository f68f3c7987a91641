//! The store through its public API.

mod memory_model;
