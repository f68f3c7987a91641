//! Memory of a burst, given back to the system. The allocator keeps what was freed for the next
//! one: after 16,384 bodies of 64 KB at once the process kept 783 MB of which 6 were in use.

use std::cell::Cell;
use std::mem::take;

/// Less than this is not worth a walk through the whole heap.
const FREED_MIN_BYTES: usize = 16 << 20;
/// The burst is over when less than this was freed since the last look. While it goes on, what is
/// freed is wanted again at once.
const CALM_BYTES: usize = FREED_MIN_BYTES / 16;

thread_local! {
    /// Bytes that were freed where no [`MemoryTrimmer`] is at hand.
    static FREED: Cell<usize> = const { Cell::new(0) };
}

/// Memory is freed that was held for a client, on whatever thread this is.
pub(crate) fn note_freed(bytes: usize) {
    // Only fails while the thread ends.
    let _ = FREED.try_with(|freed| freed.set(freed.get() + bytes));
}

/// What a thread has freed since it last gave memory back.
#[derive(Debug, Default)]
pub(crate) struct MemoryTrimmer {
    freed_bytes: usize,
    at_last_look_bytes: usize,
}

impl MemoryTrimmer {
    /// A buffer or connection goes.
    #[inline]
    pub(crate) fn note_freed(&mut self, bytes: usize) {
        self.freed_bytes += bytes;
    }

    /// Counts what was freed elsewhere on this thread.
    pub(crate) fn collect(&mut self) {
        self.freed_bytes += FREED.take();
    }

    /// Whether a look has to come even when nothing else happens.
    pub(crate) fn is_waiting(&self) -> bool {
        self.freed_bytes >= FREED_MIN_BYTES
    }

    /// Whether it is time to give memory back, which is the caller's to do then.
    pub(crate) fn look(&mut self) -> bool {
        let freed_since = self.freed_bytes - self.at_last_look_bytes;
        self.at_last_look_bytes = self.freed_bytes;
        if !self.is_waiting() || freed_since >= CALM_BYTES {
            return false;
        }
        take(self);
        true
    }
}

/// Has the allocator give back all whole pages that are free: some ms a GB of them. Other threads
/// that allocate wait meanwhile. Does nothing where the system's allocator is not glibc's or the
/// program has another one.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: any thread may call it at any time (malloc_trim(3): MT-Safe); it changes nothing that
    // is allocated.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_after_a_burst() {
        let mut slack = MemoryTrimmer::default();
        slack.note_freed(FREED_MIN_BYTES - 1);
        assert!(!slack.look() && !slack.look(), "too little");
        slack.note_freed(CALM_BYTES);
        assert!(slack.is_waiting());
        assert!(!slack.look(), "it goes on");
        slack.note_freed(CALM_BYTES - 1);
        assert!(slack.look(), "it is over");
        assert!(!slack.is_waiting() && !slack.look());
    }
}
