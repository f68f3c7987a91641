//! Atomics, under names that the model's test gives to loom's.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
