//! The pool of memory pieces that the kernel fills with received bytes (a "provided buffer ring").
//!
//! The memory is one mapping of 5 MiB per thread, of which only the pages that were written use
//! memory. The kernel starts with 32 of the 256 pieces and gets more each time it runs out, so idle
//! threads use little. A piece is owned either by the kernel or by one [`Piece`], never by both:
//! the type is not `Clone`, and returning it consumes it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::{null_mut, slice_from_raw_parts};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The number of the pool's buffer group; the ring has only one.
pub(super) const GROUP: u16 = 0;
/// The number of pieces, a power of two.
const PIECES: u16 = 256;
/// The bytes of a piece: a message of 16 KB with its head, or a batch of pipelined requests. If
/// less arrives, less of the memory is used. With pieces of 4 KB, a WebSocket echo of 16 KB took
/// 1.3 times the processor time: five completions and five turns of the connection, instead of one.
const PIECE_BYTES: usize = 20 * 1024;
/// The bytes of the whole mapping.
const BYTES: usize = PIECES as usize * PIECE_BYTES;
/// The number of pieces that the kernel has at first; doubled each time it runs out of them. The
/// kernel fills them in turn, so all its pieces are memory in use.
const PIECES_FIRST: u16 = 32;

/// A part of the pool that holds received bytes until it is returned.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The number of the piece.
    index: u16,
    /// The number of bytes that the kernel has written.
    len: usize,
}

impl Piece {
    /// Returns the piece that a completion names.
    pub(super) fn new(index: u16, len: usize) -> Self {
        Self { index, len: len.min(PIECE_BYTES) }
    }
}

/// The pieces, and the list through which the kernel gets them. Both are raw memory, because the
/// kernel writes to it at any time: a Rust reference to all of it must never exist.
pub(super) struct Pool {
    /// The list that is shared with the kernel: a ring of addresses.
    entries: *mut BufRingEntry,
    /// The mapping.
    bytes: *mut u8,
    /// The number of entries written so far, modulo 2^16.
    tail: u16,
    /// Number of pieces given to the kernel so far.
    pieces: u16,
    /// True if the pool has grown since the last wait.
    has_grown: bool,
    /// The memory is not freed when the pool is dropped.
    leak: bool,
}

impl Pool {
    /// Allocates the memory. The kernel learns of it in [`Pool::open`].
    pub(super) fn new() -> io::Result<Self> {
        let layout = Self::entries_layout()?;
        // SAFETY: a new mapping that replaces no other.
        let bytes = unsafe {
            mmap_anonymous(null_mut(), BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }?;
        // SAFETY: the layout's size is not zero.
        let entries = unsafe { alloc_zeroed(layout) }.cast::<BufRingEntry>();
        if entries.is_null() {
            handle_alloc_error(layout);
        }
        let bytes = bytes.cast();
        Ok(Self { entries, bytes, tail: 0, pieces: 0, has_grown: false, leak: false })
    }

    /// Returns the size and alignment of the list: the kernel requires a page.
    fn entries_layout() -> io::Result<Layout> {
        let bytes = usize::from(PIECES) * size_of::<BufRingEntry>();
        Layout::from_size_align(bytes, rustix::param::page_size()).map_err(io::Error::other)
    }

    /// Registers the pool with the ring, and gives the kernel the first pieces.
    pub(super) fn open(&mut self, ring: &IoUring) -> io::Result<()> {
        // SAFETY: the entries are page-aligned, zeroed or no longer used by the kernel, `PIECES`
        // long, and stay in place until the ring has ended (see the ring's `drop`).
        unsafe {
            ring.submitter().register_buf_ring_with_flags(self.entries as u64, PIECES, GROUP, 0)?;
        }
        self.grow();
        Ok(())
    }

    /// Leaves the kernel only the first pieces, as at the start, and returns the memory of all. No
    /// completion may refer to a piece that was not taken back.
    pub(super) fn shrink(&mut self, ring: &IoUring) -> io::Result<()> {
        if self.pieces == PIECES_FIRST {
            return Ok(());
        }
        // Operations find no pieces between here and `open`, but none runs then: with DEFER_TASKRUN
        // they run only when this thread enters the kernel to wait or to submit.
        ring.submitter().unregister_buf_ring(GROUP)?;
        // SAFETY: this pool owns the mapping, no reference to a part of it exists (see above), and
        // the only change is that it reads as zeros.
        unsafe { madvise(self.bytes.cast(), BYTES, Advice::LinuxDontNeed) }?;
        (self.pieces, self.tail, self.has_grown) = (0, 0, false);
        self.publish_tail();
        self.open(ring)
    }

    /// Returns the bytes of a piece.
    pub(super) fn bytes(&self, piece: &Piece) -> &[u8] {
        let at = usize::from(piece.index) * PIECE_BYTES;
        // SAFETY: a piece is created only for a completion. The kernel has written its bytes and
        // does not touch them until the piece is returned, which consumes it.
        unsafe { &*slice_from_raw_parts(self.bytes.add(at), piece.len) }
    }

    /// Doubles the number of pieces that the kernel has; once between two waits, no matter how many
    /// connections found none.
    pub(super) fn grow(&mut self) {
        if std::mem::replace(&mut self.has_grown, true) {
            return;
        }
        let pieces = (self.pieces * 2).clamp(PIECES_FIRST, PIECES);
        for index in self.pieces..pieces {
            self.give(index);
        }
        self.pieces = pieces;
    }

    /// Allows the pool to grow again: the kernel has had a chance to use what it got.
    pub(super) fn note_wait(&mut self) {
        self.has_grown = false;
    }

    /// Returns a piece to the kernel.
    #[allow(clippy::needless_pass_by_value, reason = "a piece that was returned must not be used")]
    pub(super) fn take_back(&mut self, piece: Piece) {
        self.give(piece.index);
    }

    /// Adds a piece to the list. An index that is not a piece's is ignored.
    pub(super) fn give(&mut self, index: u16) {
        if index >= PIECES {
            return;
        }
        // SAFETY: the slot and the piece lie within the allocated memory; the kernel reads a slot
        // only after the tail, stored with release, has passed it.
        unsafe {
            let entry = &mut *self.entries.add(usize::from(self.tail % PIECES));
            entry.set_addr(self.bytes.add(usize::from(index) * PIECE_BYTES) as u64);
            entry.set_len(PIECE_BYTES as u32);
            entry.set_bid(index);
        }
        self.tail = self.tail.wrapping_add(1);
        self.publish_tail();
    }

    /// Publishes the entries that were written.
    fn publish_tail(&self) {
        // SAFETY: the tail is the field of the first entry that setting address, length and number
        // does not touch; the kernel only reads it.
        unsafe {
            let tail = BufRingEntry::tail(self.entries).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }

    /// Never frees the memory: the kernel may still read or write it.
    pub(super) fn leak(&mut self) {
        self.leak = true;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.leak {
            return;
        }
        // SAFETY: both were allocated in `new` with this size and alignment, and the ring has no
        // operation left that could access them.
        unsafe {
            // Fails only if it is not a mapping.
            let _ = munmap(self.bytes.cast(), BYTES);
            if let Ok(layout) = Self::entries_layout() {
                dealloc(self.entries.cast(), layout);
            }
        }
    }
}
