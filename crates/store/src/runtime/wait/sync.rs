//! The locks and atomics of `queue.rs` under one name: the model checks include that file with
//! those of loom instead.

pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

pub(super) use parking_lot::Mutex;
