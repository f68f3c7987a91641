//! The result of a load.

/// The requests or messages of one load, and its duration.
pub(super) struct Load {
    pub(super) answered: u64,
    pub(super) seconds: f64,
    pub(super) failed: u64,
}
