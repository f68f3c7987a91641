//! A body that is pushed instead of polled: by a future that the connection runs, or from another
//! task or thread through a [`BodySender`]. Both wait while the client has not taken the earlier
//! output.

use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::body::producer::{BodyStream, BoxError, Producer};

/// Bytes that the future of [`BodyStream::write`] may be ahead of the client.
const WINDOW_BYTES: usize = 32 * 1024;

/// The client has gone or timed out, and takes no more of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client takes no more of the answer")
    }
}

impl std::error::Error for Gone {}

/// A writer of a body that works from any task or thread.
///
/// Only [`BodySender::finish`] completes the body (or `Ok` from a [`BodyStream::write`] function).
/// A sender that is dropped earlier, by a panic for example, cuts the answer off; the client
/// detects it.
#[derive(Debug)]
pub struct BodySender {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    window_bytes: usize,
    end: Option<End>,
    gone: bool,
    sender: Option<Waker>,
    receiver: Option<Waker>,
}

#[derive(Debug)]
enum End {
    Finished,
    Failed(BoxError),
    /// The sender was dropped without either.
    Dropped,
}

impl BodyStream {
    /// Returns a body and its writer, which works from any task or thread. The writer may be ahead
    /// of the client by `window_bytes` and one piece.
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
    /// own thread while the client takes its output, and is dropped when the client disconnects.
    ///
    /// ```
    /// use marmota_http::{BodyStream, Response};
    /// let body = BodyStream::write(|mut out| async move {
    ///     for line in 0..1_000 {
    ///         out.send(format!("{line}\n")).await?;
    ///     }
    ///     Ok(())
    /// });
    /// let answer = Response::streamed("text/plain", body);
    /// ```
    pub fn write<F, T>(write: F) -> Self
    where
        F: FnOnce(BodySender) -> T,
        T: Future<Output = Result<(), BoxError>> + 'static,
    {
        let state = State { window_bytes: WINDOW_BYTES, ..State::default() };
        let shared = Arc::new(Mutex::new(state));
        let future = Box::pin(write(BodySender { shared: Arc::clone(&shared) }));
        Self::new(Written { future: Some(future), receiver: Receiver { shared } })
    }
}

impl BodySender {
    /// Writes a piece once there is room for it.
    ///
    /// # Errors
    /// [`Gone`] if the client takes no more.
    pub async fn send(&mut self, piece: impl AsRef<[u8]>) -> Result<(), Gone> {
        std::future::poll_fn(|context| self.poll_room(context)).await?;
        self.put(piece.as_ref());
        Ok(())
    }

    /// Like [`BodySender::send`], but blocks the thread while it waits. Not for a handler, whose
    /// thread is the one that sends.
    ///
    /// # Errors
    /// As for [`BodySender::send`].
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

    /// Returns true if the client takes no more of the body.
    pub fn is_gone(&self) -> bool {
        lock(&self.shared).gone
    }

    /// Completes the body.
    pub fn finish(self) {
        self.end(End::Finished);
    }

    /// Cuts the body off: the client detects that it is incomplete, and the error is logged.
    pub fn fail(self, error: impl Into<BoxError>) {
        self.end(End::Failed(error.into()));
    }

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

    fn put(&self, piece: &[u8]) {
        let mut state = lock(&self.shared);
        state.bytes.extend_from_slice(piece);
        let waker = state.receiver.take();
        drop(state);
        wake(waker);
    }

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

/// The receiving end of a sender: it moves written bytes into the answer.
struct Receiver {
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
                Poll::Ready(Err("its sender was dropped before the end of the body".into()))
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
struct Written<T> {
    /// `None` once it has ended.
    future: Option<Pin<Box<T>>>,
    receiver: Receiver,
}

impl<T> Producer for Written<T>
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
