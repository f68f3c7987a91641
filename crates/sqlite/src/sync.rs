//! The locks and atomics of `group.rs` and `writer.rs`, by one name: the model
//! check (`tests/model`) includes those files with others in their place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

pub(crate) use parking_lot::{Mutex, MutexGuard};

/// A lock held without a borrow.
pub(crate) type OwnedGuard<T> = parking_lot::ArcMutexGuard<parking_lot::RawMutex, T>;

/// How often a taken lock is looked at again before an operation waits: about
/// as long as one that needs no disk takes.
pub(crate) const SPINS: usize = 100;
