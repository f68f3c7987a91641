//! What survives a loss of power: a store's choice, and a single write's.
//!
//! It says when a write is answered, not where it goes: all go to the same
//! log, in the order in which they were carried out.

/// What survives what.
///
/// | | the process ends | the power is cut | the file afterwards |
/// |---|---|---|---|
/// | full | all that was acknowledged | all that was acknowledged | sound |
/// | relaxed | all that was acknowledged | all but the last second | sound |
/// | none | all that was acknowledged | nothing is promised | see below |
///
/// A single write of a store that is full or relaxed may ask for another one
/// ([`crate::action::Action::durability`]). With none it is written as a
/// relaxed one is, but nobody sees to it that it reaches the disk: that
/// happens with the next write that asks for more, or when the log is moved to
/// the file, and the file stays sound. A *store* kept with none never waits
/// for the disk, so that a loss of power may damage its file; what a single
/// write asks for changes nothing there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Nothing waits for the disk.
    None,
    /// Answered once it is in the log, which reaches the disk within a second.
    Relaxed,
    /// Answered once it is on the disk.
    #[default]
    Full,
}
