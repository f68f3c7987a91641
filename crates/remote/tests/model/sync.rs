//! Loom's atomics under the names of `src/shared/sync.rs`.

pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
