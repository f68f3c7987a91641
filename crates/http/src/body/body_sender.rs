//! Bodies that are pushed instead of polled: by a future that the connection runs
//! ([`BodyStream::write`]), or from another task or thread through a [`BodySender`]
//! ([`BodyStream::channel`]).
//!
//! Sender and body share a buffer. The sender waits while the buffer has its window of bytes, the
//! connection waits while it is empty; each wakes the other. So a client that reads slowly holds
//! the sender back, and its memory is bounded by the window and one piece.

use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::body::producer::{BodyStream, BoxError, Producer};

/// The bytes that the future of [`BodyStream::write`] may be ahead of the client.
const WINDOW_BYTES: usize = 32 * 1024;

/// The client has disconnected or timed out, and takes no more of the body. The sender should stop
/// producing. It is not logged: clients leave at any time.
///
/// ```
/// use marmota_http::{BodyStream, Gone};
/// let (mut sender, body) = BodyStream::channel(1024);
/// drop(body); // The connection drops it when the client disconnects.
/// assert_eq!(sender.send_blocking("a"), Err(Gone));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client does not read the rest of the answer")
    }
}

impl std::error::Error for Gone {}

/// A writer of a body that works from any task or thread.
///
/// Only [`BodySender::finish`] completes the body (or `Ok` from a [`BodyStream::write`] function).
/// A sender that is dropped earlier, by a panic for example, cuts the answer off, and the client
/// detects that it is incomplete.
///
/// ```
/// use marmota_http::{BodyStream, Request, Response, Router, TestRequest};
/// async fn export(_: Request) -> Response {
///     let (mut sender, body) = BodyStream::channel(64 * 1024);
///     std::thread::spawn(move || {
///         for line in 0..3 {
///             sender.send_blocking(format!("{line}\n"))?;
///         }
///         sender.finish();
///         Ok::<_, marmota_http::Gone>(())
///     });
///     Response::streamed("text/plain", body)
/// }
/// let router = Router::new().get("/export", export);
/// assert_eq!(router.call(TestRequest::get("/export"))?.text(), "0\n1\n2\n");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Debug)]
pub struct BodySender {
    /// The buffer, shared with the body.
    shared: Arc<Mutex<State>>,
}

/// The buffer between a sender and its body.
#[derive(Debug, Default)]
struct State {
    /// The bytes that the connection has not taken.
    bytes: Vec<u8>,
    /// The number of bytes from which the sender waits.
    window_bytes: usize,
    /// The end, after the bytes. The first one counts.
    end: Option<End>,
    /// The body was dropped.
    gone: bool,
    /// The waker of a sender that waits for room.
    sender: Option<Waker>,
    /// The waker of a connection that waits for bytes.
    receiver: Option<Waker>,
}

/// The end of a body.
#[derive(Debug)]
enum End {
    /// It is complete.
    Finished,
    /// It cannot be completed.
    Failed(BoxError),
    /// The sender was dropped without either.
    Dropped,
}

impl BodyStream {
    /// Returns a writer and its body. The writer works from any task or thread, and may be ahead of
    /// the client by `window_bytes` and one piece. 64 KiB is a good window.
    ///
    /// ```
    /// use marmota_http::{BodyStream, Response};
    /// async fn export(_: marmota_http::Request) -> Response {
    ///     let (mut sender, body) = BodyStream::channel(64 * 1024);
    ///     std::thread::spawn(move || {
    ///         for line in 0..1_000_000 {
    ///             sender.send_blocking(format!("{line}\n"))?;
    ///         }
    ///         sender.finish();
    ///         Ok::<_, marmota_http::Gone>(())
    ///     });
    ///     Response::streamed("text/plain", body)
    /// }
    /// ```
    pub fn channel(window_bytes: usize) -> (BodySender, Self) {
        let state = State { window_bytes: window_bytes.max(1), ..State::default() };
        let shared = Arc::new(Mutex::new(state));
        (BodySender { shared: Arc::clone(&shared) }, Self::new(Receiver { shared }))
    }

    /// Returns a body that an asynchronous function writes. The function runs on the connection's
    /// own thread while the client takes its output, up to 32 KiB ahead, and is dropped when the
    /// client disconnects. An error cuts the body off and is logged.
    ///
    /// ```
    /// use marmota_http::{BodyStream, Request, Response, Router, TestRequest};
    /// async fn lines(_: Request) -> Response {
    ///     let body = BodyStream::write(|mut out| async move {
    ///         for line in 0..1_000 {
    ///             out.send(format!("{line}\n")).await?;
    ///         }
    ///         Ok(())
    ///     });
    ///     Response::streamed("text/plain", body)
    /// }
    /// let router = Router::new().get("/lines", lines);
    /// assert_eq!(router.call(TestRequest::get("/lines"))?.text().lines().count(), 1_000);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn write<F, T>(write: F) -> Self
    where
        F: FnOnce(BodySender) -> T,
        T: Future<Output = Result<(), BoxError>> + 'static,
    {
        let state = State { window_bytes: WINDOW_BYTES, ..State::default() };
        let shared = Arc::new(Mutex::new(state));
        let future = Box::pin(write(BodySender { shared: Arc::clone(&shared) }));
        Self::new(WrittenBody { future: Some(future), receiver: Receiver { shared } })
    }
}

impl BodySender {
    /// Writes a piece once there is room for it. It returns as soon as the piece is in the buffer,
    /// before the client has read it. A piece may be larger than the window.
    ///
    /// ```
    /// use marmota_http::{BodyStream, Response};
    /// let body = BodyStream::write(|mut out| async move {
    ///     out.send("first,").await?;
    ///     out.send(b"second").await?;
    ///     Ok(())
    /// });
    /// let answer = Response::streamed("text/plain", body);
    /// ```
    ///
    /// # Errors
    /// [`Gone`] if the client takes no more.
    pub async fn send(&mut self, piece: impl AsRef<[u8]>) -> Result<(), Gone> {
        std::future::poll_fn(|context| self.poll_room(context)).await?;
        self.put(piece.as_ref());
        Ok(())
    }

    /// Like [`BodySender::send`], but blocks the thread while it waits. Do not call it in a
    /// handler: its thread is the one that sends.
    ///
    /// ```
    /// use marmota_http::BodyStream;
    /// let (mut sender, body) = BodyStream::channel(1024);
    /// sender.send_blocking("there is room, so this does not block")?;
    /// # Ok::<(), marmota_http::Gone>(())
    /// ```
    ///
    /// # Errors
    /// [`Gone`] if the client takes no more.
    pub fn send_blocking(&mut self, piece: impl AsRef<[u8]>) -> Result<(), Gone> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            match self.poll_room(&mut Context::from_waker(&waker)) {
                Poll::Ready(room) => break room?,
                Poll::Pending => std::thread::park(),
            }
        }
        self.put(piece.as_ref());
        Ok(())
    }

    /// Returns true if the client takes no more of the body, for producers that compute long
    /// between two pieces.
    ///
    /// ```
    /// use marmota_http::BodyStream;
    /// let (sender, body) = BodyStream::channel(1024);
    /// assert!(!sender.is_gone());
    /// drop(body);
    /// assert!(sender.is_gone());
    /// ```
    pub fn is_gone(&self) -> bool {
        lock(&self.shared).gone
    }

    /// Completes the body.
    ///
    /// ```
    /// use marmota_http::BodyStream;
    /// let (mut sender, body) = BodyStream::channel(1024);
    /// sender.send_blocking("all")?;
    /// sender.finish();
    /// # Ok::<(), marmota_http::Gone>(())
    /// ```
    pub fn finish(self) {
        self.end(End::Finished);
    }

    /// Cuts the body off. The client detects that it is incomplete, and the error is logged. The
    /// status cannot be changed any more, since the head was sent before.
    ///
    /// ```
    /// use marmota_http::BodyStream;
    /// let (sender, body) = BodyStream::channel(1024);
    /// sender.fail("the source is not readable");
    /// ```
    pub fn fail(self, error: impl Into<BoxError>) {
        self.end(End::Failed(error.into()));
    }

    /// Waits until the buffer has fewer bytes than its window.
    fn poll_room(&self, context: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let mut state = lock(&self.shared);
        if state.gone {
            return Poll::Ready(Err(Gone));
        }
        if state.bytes.len() < state.window_bytes {
            return Poll::Ready(Ok(()));
        }
        state.sender = Some(context.waker().clone());
        Poll::Pending
    }

    /// Appends a piece, and wakes the connection.
    fn put(&self, piece: &[u8]) {
        let mut state = lock(&self.shared);
        state.bytes.extend_from_slice(piece);
        let waker = state.receiver.take();
        drop(state);
        wake(waker);
    }

    /// Ends the body, unless it has ended, and wakes the connection.
    fn end(&self, end: End) {
        let mut state = lock(&self.shared);
        state.end.get_or_insert(end);
        let waker = state.receiver.take();
        drop(state);
        wake(waker);
    }
}

impl Drop for BodySender {
    fn drop(&mut self) {
        self.end(End::Dropped);
    }
}

/// A waker for a thread that blocks on a future.
pub(crate) struct Unpark(pub(crate) Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The body of a sender: it moves the written bytes into the answer.
struct Receiver {
    /// The buffer, shared with the sender.
    shared: Arc<Mutex<State>>,
}

impl Producer for Receiver {
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        let mut state = lock(&self.shared);
        if !state.bytes.is_empty() {
            out.append(&mut state.bytes);
            let waker = state.sender.take();
            drop(state);
            wake(waker);
            return Poll::Ready(Ok(ControlFlow::Continue(())));
        }
        match state.end.take() {
            Some(End::Finished) => Poll::Ready(Ok(ControlFlow::Break(()))),
            Some(End::Failed(error)) => Poll::Ready(Err(error)),
            Some(End::Dropped) => {
                Poll::Ready(Err("the sender was dropped before the end of the body".into()))
            }
            None => {
                state.receiver = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        state.gone = true;
        let waker = state.sender.take();
        drop(state);
        wake(waker);
    }
}

/// A future that writes a body, and the receiver of its output.
struct WrittenBody<T> {
    /// `None` once it has ended.
    future: Option<Pin<Box<T>>>,
    receiver: Receiver,
}

impl<T> Producer for WrittenBody<T>
where
    T: Future<Output = Result<(), BoxError>> + 'static,
{
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        if let Some(future) = &mut self.future
            && let Poll::Ready(ended) = future.as_mut().poll(context)
        {
            self.future = None;
            ended?;
            // The sender was dropped with the future, unless a task that still runs has it.
            let mut state = lock(&self.receiver.shared);
            if matches!(state.end, Some(End::Dropped)) {
                state.end = Some(End::Finished);
            }
        }
        self.receiver.poll_piece(context, out)
    }
}

/// Wakes outside of the lock, because the woken task may take it at once.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
