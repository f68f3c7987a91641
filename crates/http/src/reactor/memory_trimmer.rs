//! The return of a burst's memory to the system. The allocator keeps freed memory for reuse: after
//! 16,384 bodies of 64 KB at once, the process kept 783 MB, of which 6 MB were in use.
//!
//! Each thread counts the memory of buffers that it frees. When much was freed and the burst is
//! over, the thread calls malloc_trim(3). A program with another allocator than glibc's is not
//! affected.

use std::cell::Cell;
use std::mem::take;

/// The minimum number of freed bytes that is worth a walk through the whole heap.
const FREED_MIN_BYTES: usize = 16 << 20;
/// The burst is over when fewer bytes than this were freed since the last check. During a burst,
/// freed memory is needed again at once.
const CALM_BYTES: usize = FREED_MIN_BYTES / 16;

thread_local! {
    /// The bytes that were freed where no [`MemoryTrimmer`] is available.
    static FREED: Cell<usize> = const { Cell::new(0) };
}

/// Counts freed memory that was held for a client, on the calling thread.
pub(crate) fn note_freed(bytes: usize) {
    // Only fails while the thread ends.
    let _ = FREED.try_with(|freed| freed.set(freed.get() + bytes));
}

/// The bytes that a thread has freed since it last returned memory to the system.
#[derive(Debug, Default)]
pub(crate) struct MemoryTrimmer {
    /// The bytes freed since memory was last returned.
    freed_bytes: usize,
    /// The value of `freed_bytes` at the last check.
    freed_at_last_check_bytes: usize,
}

impl MemoryTrimmer {
    /// Counts the memory of a buffer or connection that is freed.
    #[inline]
    pub(crate) fn note_freed(&mut self, bytes: usize) {
        self.freed_bytes += bytes;
    }

    /// Adds the bytes that were freed elsewhere on this thread.
    pub(crate) fn collect(&mut self) {
        self.freed_bytes += FREED.take();
    }

    /// Returns true if a check must follow even without other events, so that the thread does not
    /// sleep without a timeout. Bytes that were not collected yet count: the answers of the last
    /// connection may have been freed elsewhere.
    pub(crate) fn needs_check(&self) -> bool {
        self.freed_bytes + FREED.get() >= FREED_MIN_BYTES
    }

    /// Returns true if it is time to return memory, which the caller then does by [`trim`]. The
    /// count starts again.
    pub(crate) fn should_trim(&mut self) -> bool {
        let freed_since = self.freed_bytes - self.freed_at_last_check_bytes;
        self.freed_at_last_check_bytes = self.freed_bytes;
        if !self.needs_check() || freed_since >= CALM_BYTES {
            return false;
        }
        take(self);
        true
    }
}

/// Makes the allocator return all free whole pages to the system, which takes some ms per GB. Other
/// threads that allocate wait in the meantime. Does nothing if the system's allocator is not
/// glibc's or the program has another one.
pub(crate) fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: any thread may call it at any time (malloc_trim(3): MT-Safe); it changes no allocated
    // memory.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_freed_elsewhere_needs_a_check() {
        let mut trimmer = MemoryTrimmer::default();
        note_freed(FREED_MIN_BYTES);
        assert!(trimmer.needs_check(), "before it is collected");
        trimmer.collect();
        assert!(!trimmer.should_trim() && trimmer.should_trim());
        assert!(!trimmer.needs_check());
    }

    #[test]
    fn memory_is_given_back_once_after_a_burst() {
        let mut trimmer = MemoryTrimmer::default();
        trimmer.note_freed(FREED_MIN_BYTES - 1);
        assert!(!trimmer.should_trim() && !trimmer.should_trim(), "too little");
        trimmer.note_freed(CALM_BYTES);
        assert!(trimmer.needs_check());
        assert!(!trimmer.should_trim(), "the burst continues");
        trimmer.note_freed(CALM_BYTES - 1);
        assert!(trimmer.should_trim(), "it is over");
        assert!(!trimmer.needs_check() && !trimmer.should_trim());
    }
}
