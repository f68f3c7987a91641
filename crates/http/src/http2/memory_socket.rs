//! The socket that `h2` uses: two buffers in memory, whose other ends belong to the connection.
//!
//! `h2` expects a socket of tokio. The connection has one of its own, which a ring or epoll drives,
//! so it copies received bytes into the input buffer, calls `h2`, and takes the output. No waker is
//! needed: `h2` is polled after each change.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that may wait for the client before `h2` has to wait.
const OUTPUT_BYTES_MAX: usize = 32 * 1024;

/// A socket in memory. Clones share the buffers: one is `h2`'s.
#[derive(Clone, Default)]
pub(super) struct MemorySocket(Rc<RefCell<Buffers>>);

/// The buffers in both directions.
#[derive(Default)]
struct Buffers {
    /// Bytes for `h2`, of which `read` are read.
    input: Vec<u8>,
    read: usize,
    /// No more bytes follow.
    ended: bool,
    /// Bytes of `h2` for the client.
    output: Vec<u8>,
    /// `h2` has more to write.
    blocked: bool,
}

impl MemorySocket {
    /// Returns the number of bytes that `h2` has not read.
    pub(super) fn waiting(&self) -> usize {
        let buffers = self.0.borrow();
        buffers.input.len() - buffers.read
    }

    /// Appends bytes for `h2`; `ended` if no more follow.
    pub(super) fn put(&self, bytes: &[u8], ended: bool) {
        let mut buffers = self.0.borrow_mut();
        if buffers.read == buffers.input.len() {
            buffers.input.clear();
        } else {
            let read = buffers.read;
            buffers.input.drain(..read);
        }
        buffers.read = 0;
        buffers.input.extend_from_slice(bytes);
        buffers.ended = ended;
    }

    /// Appends the output of `h2` to `out`. Returns true if `h2` has more, for which there was no
    /// room.
    pub(super) fn take_output(&self, out: &mut Vec<u8>) -> bool {
        let mut buffers = self.0.borrow_mut();
        if out.is_empty() {
            std::mem::swap(out, &mut buffers.output);
        } else {
            out.append(&mut buffers.output);
        }
        if buffers.read == buffers.input.len() {
            // Idle connections hold no memory.
            buffers.input = Vec::new();
            buffers.read = 0;
        }
        std::mem::take(&mut buffers.blocked)
    }
}

impl AsyncRead for MemorySocket {
    /// Reads input, if there is any; ends when no more follows.
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut buffers = self.0.borrow_mut();
        let unread = &buffers.input[buffers.read..];
        if unread.is_empty() && !buffers.ended {
            return Poll::Pending;
        }
        let count = unread.len().min(out.remaining());
        out.put_slice(&unread[..count]);
        buffers.read += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MemorySocket {
    /// Accepts output until [`OUTPUT_BYTES_MAX`] wait: then `h2` stops, and with it the streams.
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffers = self.0.borrow_mut();
        if buffers.output.len() >= OUTPUT_BYTES_MAX {
            buffers.blocked = true;
            return Poll::Pending;
        }
        buffers.output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    /// Accepts output in several parts, as `h2` writes heads and data.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut buffers = self.0.borrow_mut();
        if buffers.output.len() >= OUTPUT_BYTES_MAX {
            buffers.blocked = true;
            return Poll::Pending;
        }
        let before = buffers.output.len();
        for slice in slices {
            buffers.output.extend_from_slice(slice);
        }
        Poll::Ready(Ok(buffers.output.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: the connection takes the output after each call of `h2`.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing: the connection closes its socket itself.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
