//! The sizes of what encryption adds to a file, and what a key is derived for.

/// How long a seal is.
pub(super) const SEAL_BYTES: usize = 64;
/// What a sealed message is longer by.
pub(super) const TAG_BYTES: usize = 16;

/// What a file is, which its key depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Snapshot,
    Log,
}
