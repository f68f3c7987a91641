//! A writer with its own thread: a slow sink, or a pipe that is not read, blocks no caller. What it
//! cannot take is omitted and counted.
//!
//! Callers push whole pieces into a bounded queue under a mutex; the thread takes all of them at
//! once, and writes them without the lock.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum bytes that wait for the sink.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// How long the last handle waits for a slow sink when it is dropped.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// A writer that never blocks: a thread passes on the bytes that are written to it. Up to 4 MiB
/// wait for the sink; further pieces are omitted. Clones write to the same sink. When the last one
/// is dropped it waits up to a second for the bytes that are not written yet.
///
/// ```
/// use std::io::Write;
/// let mut out = marmota_http::BackgroundWriter::new("notes", std::io::sink())?;
/// out.write_all(b"one line\n")?;
/// assert!(out.drain(std::time::Duration::from_secs(1)));
/// assert_eq!(out.lost(), 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BackgroundWriter(Arc<WriterHandle>);

/// Ends the thread when the last clone is dropped.
#[derive(Debug)]
struct WriterHandle(Arc<PieceQueue>);

impl Drop for WriterHandle {
    fn drop(&mut self) {
        self.0.state().is_ended = true;
        self.0.changed.notify_all();
        self.0.drain(END_TIMEOUT);
    }
}

/// The queue between the handles and the thread.
#[derive(Debug, Default)]
struct PieceQueue {
    state: Mutex<QueueState>,
    /// Notified when a piece is pushed, when pieces are written, and at the end.
    changed: Condvar,
    /// Pieces that were omitted, or that the sink refused.
    lost: AtomicU64,
}

/// The state of the queue.
#[derive(Debug, Default)]
struct QueueState {
    pieces: Vec<Vec<u8>>,
    /// Bytes of all pieces, also of those that are being written.
    bytes: usize,
    is_writing: bool,
    is_ended: bool,
}

impl BackgroundWriter {
    /// Starts a thread of this name, which writes to `sink`.
    ///
    /// # Errors
    /// The system's, if it cannot start a thread.
    pub fn new(name: &str, sink: impl Write + Send + 'static) -> io::Result<Self> {
        let queue = Arc::new(PieceQueue::default());
        let of_thread = Arc::clone(&queue);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || of_thread.run(sink))?;
        Ok(Self(Arc::new(WriterHandle(queue))))
    }

    /// Queues a piece, which is written as a whole. If 4 MiB wait already, it is omitted and
    /// counted.
    ///
    /// ```
    /// let out = marmota_http::BackgroundWriter::new("notes", std::io::sink())?;
    /// out.push(b"a line that is not torn apart\n".to_vec());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn push(&self, piece: Vec<u8>) {
        self.0.0.push(piece);
    }

    /// Returns the number of pieces that were omitted, because the sink was too slow or failed.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.0.0.lost.load(Ordering::Relaxed)
    }

    /// Waits until everything is written. Returns false if `timeout` has passed before.
    ///
    /// ```
    /// use std::time::Duration;
    /// let out = marmota_http::BackgroundWriter::new("notes", std::io::sink())?;
    /// out.push(vec![b'x'; 1000]);
    /// assert!(out.drain(Duration::from_secs(5)), "the sink is slow");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn drain(&self, timeout: Duration) -> bool {
        self.0.0.drain(timeout)
    }
}

impl Write for BackgroundWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes.to_vec());
        Ok(bytes.len())
    }

    /// Does nothing; use [`BackgroundWriter::drain`] to wait.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PieceQueue {
    /// Locks the queue. A panic of the sink leaves it usable.
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, piece: Vec<u8>) {
        let mut state = self.state();
        if state.bytes + piece.len() > WAITING_BYTES_MAX {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.bytes += piece.len();
        state.pieces.push(piece);
        drop(state);
        self.changed.notify_all();
    }

    fn drain(&self, timeout: Duration) -> bool {
        let is_busy = |state: &mut QueueState| state.is_writing || !state.pieces.is_empty();
        let waited = self.changed.wait_timeout_while(self.state(), timeout, is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Writes the pieces as they are pushed, until the last handle is dropped and the queue is
    /// empty.
    fn run(&self, mut sink: impl Write) {
        loop {
            let is_idle = |state: &mut QueueState| state.pieces.is_empty() && !state.is_ended;
            let waited = self.changed.wait_while(self.state(), is_idle);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            if state.pieces.is_empty() {
                return;
            }
            let pieces = std::mem::take(&mut state.pieces);
            state.is_writing = true;
            drop(state);
            for piece in &pieces {
                if sink.write_all(piece).and_then(|()| sink.flush()).is_err() {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
                self.state().bytes -= piece.len();
            }
            self.state().is_writing = false;
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A sink that takes a piece when it is let.
    struct Held(Receiver<()>, Sender<Vec<u8>>);

    impl Write for Held {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            self.1.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_sink_that_takes_nothing_blocks_no_one() {
        let ((allow, allowed), (written, pieces)) = (channel(), channel());
        let out = BackgroundWriter::new("test", Held(allowed, written)).unwrap();
        for _ in 0..5 {
            out.push(vec![b'x'; 1 << 20]);
        }
        assert_eq!(out.lost(), 1);
        assert!(!out.drain(Duration::from_millis(10)));
        (0..4).for_each(|_| allow.send(()).unwrap());
        assert!(out.drain(Duration::from_secs(30)));
        assert_eq!(pieces.try_iter().count(), 4);
        // There is room again.
        out.push(b"y".to_vec());
        allow.send(()).unwrap();
        drop(out);
        assert_eq!(pieces.iter().collect::<Vec<_>>(), [b"y"]);
    }

    #[test]
    fn what_the_sink_refuses_is_counted() {
        let (written, _) = channel();
        let out = BackgroundWriter::new("test", Held(channel().1, written)).unwrap();
        out.push(b"x".to_vec());
        assert!(out.drain(Duration::from_secs(30)));
        assert_eq!(out.lost(), 1);
    }
}
