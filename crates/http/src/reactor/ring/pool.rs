//! The pieces of memory that the kernel fills with what connections receive.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::{null_mut, slice_from_raw_parts};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The pool's group; there is one.
pub(super) const GROUP: u16 = 0;
/// Pieces, a power of two.
const PIECES: u16 = 256;
/// The bytes of one: a message of 16 KB with its head, or a batch of pipelined requests. Where less
/// comes, less of it is memory in use. By pieces of 4 KB a WebSocket's echo of 16 KB took 1.3 times
/// the processor time: five completions, and five turns of the connection, instead of one.
const PIECE_BYTES: usize = 20 * 1024;
const BYTES: usize = PIECES as usize * PIECE_BYTES;
/// Pieces that the kernel has at first; twice as many each time it runs out of them. It fills one
/// after the other, so that all that it has are memory in use.
const PIECES_FIRST: u16 = 32;

/// A part of the pool that holds received bytes, until it is given back.
#[derive(Debug)]
pub(crate) struct Piece {
    index: u16,
    len: usize,
}

impl Piece {
    pub(super) fn new(index: u16, len: usize) -> Self {
        Self { index, len: len.min(PIECE_BYTES) }
    }
}

/// The pieces, and the list by which they are given to the kernel.
pub(super) struct Pool {
    entries: *mut BufRingEntry,
    bytes: *mut u8,
    tail: u16,
    /// How many pieces the kernel has been given so far.
    pieces: u16,
    /// Since the last wait.
    has_grown: bool,
    leak: bool,
}

impl Pool {
    pub(super) fn new() -> io::Result<Self> {
        let layout = Self::entries_layout()?;
        // SAFETY: a new mapping of nothing that exists.
        let bytes = unsafe {
            mmap_anonymous(null_mut(), BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }?;
        // SAFETY: the layout's size is not nothing.
        let entries = unsafe { alloc_zeroed(layout) }.cast::<BufRingEntry>();
        if entries.is_null() {
            handle_alloc_error(layout);
        }
        let bytes = bytes.cast();
        Ok(Self { entries, bytes, tail: 0, pieces: 0, has_grown: false, leak: false })
    }

    fn entries_layout() -> io::Result<Layout> {
        let bytes = usize::from(PIECES) * size_of::<BufRingEntry>();
        Layout::from_size_align(bytes, rustix::param::page_size()).map_err(io::Error::other)
    }

    /// Lets the ring's operations find the first pieces.
    pub(super) fn open(&mut self, ring: &IoUring) -> io::Result<()> {
        // SAFETY: the entries are page-aligned, zeroed or the kernel's no more, `PIECES` long, and
        // stay where they are until the ring has ended (see the ring's `drop`).
        unsafe {
            ring.submitter().register_buf_ring_with_flags(self.entries as u64, PIECES, GROUP, 0)?;
        }
        self.grow();
        Ok(())
    }

    /// Has the kernel have the first pieces only, as at first, and the memory of all given back.
    /// No completion may name a piece that is not taken back.
    pub(super) fn shrink(&mut self, ring: &IoUring) -> io::Result<()> {
        if self.pieces == PIECES_FIRST {
            return Ok(());
        }
        // Operations find no pieces between here and `open`, but none goes on then: with
        // DEFER_TASKRUN that is when this thread enters the kernel to wait or to submit.
        ring.submitter().unregister_buf_ring(GROUP)?;
        // SAFETY: the mapping is this pool's, nobody has a part of it (see above), and all that
        // changes is that it reads as zeros.
        unsafe { madvise(self.bytes.cast(), BYTES, Advice::LinuxDontNeed) }?;
        (self.pieces, self.tail, self.has_grown) = (0, 0, false);
        self.show_tail();
        self.open(ring)
    }

    pub(super) fn bytes(&self, piece: &Piece) -> &[u8] {
        let at = usize::from(piece.index) * PIECE_BYTES;
        // SAFETY: a piece is made for a completion only, whose bytes the kernel has written
        // and leaves alone until the piece is given back, which takes the piece away.
        unsafe { &*slice_from_raw_parts(self.bytes.add(at), piece.len) }
    }

    /// Gives the kernel as many more pieces as it has; once between two waits, however many
    /// connections have found none.
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

    pub(super) fn note_wait(&mut self) {
        self.has_grown = false;
    }

    #[allow(clippy::needless_pass_by_value, reason = "who gives a piece back must not keep it")]
    pub(super) fn take_back(&mut self, piece: Piece) {
        self.give(piece.index);
    }

    pub(super) fn give(&mut self, index: u16) {
        if index >= PIECES {
            return;
        }
        // SAFETY: the slot and the piece lie inside of what was allocated; the kernel reads a
        // slot only after the tail, stored with release, has passed it.
        unsafe {
            let entry = &mut *self.entries.add(usize::from(self.tail % PIECES));
            entry.set_addr(self.bytes.add(usize::from(index) * PIECE_BYTES) as u64);
            entry.set_len(PIECE_BYTES as u32);
            entry.set_bid(index);
        }
        self.tail = self.tail.wrapping_add(1);
        self.show_tail();
    }

    fn show_tail(&self) {
        // SAFETY: the tail is the field of the first entry that is left alone by setting address,
        // length and number; the kernel only reads it.
        unsafe {
            let tail = BufRingEntry::tail(self.entries).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }

    /// Never gives the memory back: the kernel may still read or write it.
    pub(super) fn leak(&mut self) {
        self.leak = true;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.leak {
            return;
        }
        // SAFETY: both were allocated in `new` with this size and alignment, and the ring has
        // no operation left that could touch them.
        unsafe {
            // Only fails for what is no mapping.
            let _ = munmap(self.bytes.cast(), BYTES);
            if let Ok(layout) = Self::entries_layout() {
                dealloc(self.entries.cast(), layout);
            }
        }
    }
}
