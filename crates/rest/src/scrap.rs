//! Bytes that have to be there before the head that describes them: a
//! thread's buffer, used again by the next answer.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// A larger buffer is given back, so that one great answer is not kept for ever.
const KEPT_BYTES_MAX: usize = 256 * 1024;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An empty buffer that returns to its thread.
#[derive(Debug, Default)]
pub(crate) struct ScratchBuffer(Vec<u8>);

impl ScratchBuffer {
    /// The thread's buffer, or a new one while that is in use.
    pub(crate) fn take() -> Self {
        let mut bytes = SPARE.take();
        bytes.clear();
        Self(bytes)
    }
}

impl Drop for ScratchBuffer {
    fn drop(&mut self) {
        if (1..=KEPT_BYTES_MAX).contains(&self.0.capacity()) {
            // The thread's storage is gone only when the thread is.
            let _ = SPARE.try_with(|spare| spare.set(std::mem::take(&mut self.0)));
        }
    }
}

impl Deref for ScratchBuffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for ScratchBuffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}
