//! [`SpareOperations`]: completed operations that a session reuses with their buffers.

use crate::in_flight::InFlightOperation;

/// The most completed operations that are kept for reuse, with their buffers: a server thread has
/// hundreds in progress at once.
const SPARE_MAX: usize = 512;
/// The most bytes of the buffers of a kept operation; the first few may have more.
const SPARE_BYTES_MAX: usize = 1 << 10;
const FIRST_SPARE_BYTES_MAX: usize = 16 << 10;
const FIRST_SPARE: usize = 16;

/// Completed operations of a session, kept for their buffers.
#[derive(Default)]
pub(crate) struct SpareOperations(
    #[expect(clippy::vec_box, reason = "they are handed out and taken back as they are")]
    Vec<Box<InFlightOperation>>,
);

impl SpareOperations {
    /// Returns a completed operation, for its buffers.
    pub(crate) fn take(&mut self) -> Option<Box<InFlightOperation>> {
        self.0.pop()
    }

    /// Keeps a completed operation, unless its buffers are too large.
    pub(crate) fn give_back(&mut self, mut running: Box<InFlightOperation>) {
        running.place.leave();
        let bytes_max = match self.0.len() {
            0..FIRST_SPARE => FIRST_SPARE_BYTES_MAX,
            FIRST_SPARE..SPARE_MAX => SPARE_BYTES_MAX,
            _ => return,
        };
        if running.bytes() <= bytes_max {
            self.0.push(running);
        }
    }
}
