//! Durability: the writes that survive a power loss, set for a store or for a single write.
//!
//! The durability determines when a write is answered, not where it is stored: all writes go to the
//! same log, in the order in which they were executed.

/// The writes that survive a crash.
///
/// | | the process ends | the power is cut | the file afterwards |
/// |---|---|---|---|
/// | full | all that was acknowledged | all that was acknowledged | sound |
/// | relaxed | all that was acknowledged | all but the last second | sound |
/// | none | all that was acknowledged | nothing is promised | see below |
///
/// A single write of a store with full or relaxed durability may have another one
/// ([`crate::action::Action::durability`]). A write with `None` is written like a relaxed one, but
/// is not synced by itself: it reaches the disk with the next write that has a higher durability,
/// or when the log is moved to the file. The file stays sound. A *store* with `None` never waits
/// for the disk, so a power loss may damage its file; the durability of a single write has no
/// effect there.
///
/// ```
/// use marmota_store::Durability;
/// assert_eq!(Durability::default(), Durability::Full);
/// assert!(Durability::None < Durability::Relaxed && Durability::Relaxed < Durability::Full);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Nothing waits for the disk.
    None,
    /// A write is answered once it is in the log, which reaches the disk within a second.
    Relaxed,
    /// A write is answered once it is on the disk.
    #[default]
    Full,
}
