//! Operations on models, over any engine.
#![forbid(unsafe_code)]

pub mod engine;
pub mod operation;
