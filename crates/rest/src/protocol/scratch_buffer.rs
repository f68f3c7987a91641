//! A thread-local buffer for bytes that must be complete before the head that describes them;
//! reused by the next response.
//!
//! A response has its `ETag`, `Link` and `Content-Length` before its body, but a hash of the body
//! or the next page is known only after it. Such a body is written here first, and then copied into
//! the buffer of the connection. With a buffer for each thread this needs no allocation.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// Larger buffers are freed, so that a large response does not occupy memory forever.
///
/// In bytes of capacity, for each thread.
const KEPT_BYTES_MAX: usize = 256 * 1024;

thread_local! {
    /// The buffer of this thread, without a capacity while it is in use.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An empty buffer that is returned to its thread when dropped.
///
/// It dereferences to the vector, so that functions that append to one accept it. A user may also
/// take the vector out of it, to pass a large body on instead of copying it.
#[derive(Debug, Default)]
pub(crate) struct ScratchBuffer(Vec<u8>);

impl ScratchBuffer {
    /// Takes the thread's buffer, or a new one while that is in use. The buffer is empty, with the
    /// capacity of an earlier response.
    pub(crate) fn take() -> Self {
        let mut bytes = SPARE.take();
        bytes.clear();
        Self(bytes)
    }
}

impl Drop for ScratchBuffer {
    /// Returns the bytes to the thread on which the value is dropped, which may be another than the
    /// one that took it: a request that waits can continue elsewhere.
    fn drop(&mut self) {
        if (1..=KEPT_BYTES_MAX).contains(&self.0.capacity()) {
            // Fails only if the thread is ending.
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
