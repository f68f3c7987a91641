//! The locks and atomics of `queue.rs` under one name: the model checks include
//! that file with loom's in their place.

pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

pub(super) use parking_lot::Mutex;
