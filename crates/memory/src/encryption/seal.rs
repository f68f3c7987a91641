//! The sizes that encryption adds to a file, and the purposes of derived keys.

/// The length of a seal in bytes.
pub(crate) const SEAL_BYTES: usize = 64;
/// The difference in length between a sealed message and a plain one, in bytes.
pub(crate) const TAG_BYTES: usize = 16;

/// The purpose of a file, on which its key depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Snapshot,
    Log,
}
