//! Memory that two processes have at once: a file without a name, sealed so that
//! neither can take pages away from under the other.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::fs::memfd_create;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::MEMORY_WORDS;
use super::ring::Words;
use super::sync::AtomicU64;

const BYTES: usize = MEMORY_WORDS * size_of::<u64>();
/// Nobody shortens it: who reads behind the end of a file is ended by the system.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Words of which each may change at any time.
pub(crate) struct Memory {
    first: NonNull<AtomicU64>,
}

// SAFETY: it is a place in memory that nobody takes away before the last clone of
// its `Arc` has gone, and what lies there are atomics, which threads may share.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// New memory, all zero, and what another process maps it by.
    pub(crate) fn new() -> io::Result<(Arc<Self>, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::NOEXEC_SEAL;
        // Kernels before 6.3 know nothing of files that nobody may run.
        let file = memfd_create("marmota", flags).or_else(|_| {
            memfd_create("marmota", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        })?;
        ftruncate(&file, BYTES as u64)?;
        fcntl_add_seals(&file, SEALS | SealFlags::SEAL)?;
        Ok((Self::map(&file)?, file))
    }

    /// The memory of another process.
    ///
    /// # Errors
    /// Also if it is not of the size agreed on, or could lose it.
    pub(crate) fn of(file: impl AsFd) -> io::Result<Arc<Self>> {
        let is_fit =
            fcntl_get_seals(&file)?.contains(SEALS) && fstat(&file)?.st_size == BYTES as i64;
        if !is_fit {
            return Err(io::Error::other("what was sent is no memory to be shared"));
        }
        Self::map(file)
    }

    fn map(file: impl AsFd) -> io::Result<Arc<Self>> {
        let (read_write, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the system chooses a place where nothing is, so nothing of this
        // process is changed by it.
        let first = unsafe { mmap(ptr::null_mut(), BYTES, read_write, shared, file, 0) }?;
        let first = NonNull::new(first.cast()).ok_or_else(|| io::Error::other("no place"))?;
        Ok(Arc::new(Self { first }))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size at this place, and nobody has a
        // reference to it: those that `word` gave are borrowed from what is dropped.
        // It only fails if that were not so.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), BYTES) };
    }
}

impl Words for Arc<Memory> {
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < MEMORY_WORDS, "a word inside of the memory");
        // SAFETY: it lies inside of what is mapped, aligned as pages are, for as long
        // as `self` is borrowed, and the file is sealed to its size. What the other
        // process does to it meanwhile is what atomics allow.
        unsafe { self.first.add(at).as_ref() }
    }
}
