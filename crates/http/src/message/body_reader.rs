//! Reading a request's body piece by piece.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::body::body_buffer::{BodyBuffer, BodyError};
use crate::body::producer::{BoxError, Producer};
use crate::message::request::Request;

impl Request {
    /// Returns a reader of the body: in pieces on a route with [`crate::Endpoint::streamed`], otherwise
    /// the whole body at once. Several readers of a request share its body.
    pub fn reader(&self) -> BodyReader {
        match &self.0.body_buffer {
            Some(body_buffer) => BodyReader::of_buffer(Rc::clone(body_buffer)),
            None => BodyReader::of_whole(self.clone()),
        }
    }
}

/// Reads a request's body piece by piece; see [`Request::reader`].
///
/// It is read by the handler itself or by its answer's [`Producer`], one of which it can be: an
/// answer that is the request's own body is `BodyStream::new(request.reader())`.
#[derive(Debug)]
pub struct BodyReader(Source);

#[derive(Debug)]
enum Source {
    BodyBuffer(Rc<BodyBuffer>),
    /// A body that is there already, until it is read.
    Whole(Option<Request>),
}

impl BodyReader {
    pub(crate) fn of_buffer(body_buffer: Rc<BodyBuffer>) -> Self {
        Self(Source::BodyBuffer(body_buffer))
    }

    pub(crate) fn of_whole(request: Request) -> Self {
        Self(Source::Whole(Some(request)))
    }

    /// Appends what has come to `out`, waiting until something has; gives how many bytes, 0 at
    /// the end of the body.
    ///
    /// # Errors
    /// [`BodyError`], again each time it is read.
    pub async fn read(&mut self, out: &mut Vec<u8>) -> Result<usize, BodyError> {
        std::future::poll_fn(|context| self.poll_read(context, out)).await
    }

    /// As [`BodyReader::read`], for futures written by hand.
    ///
    /// # Errors
    /// As there.
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<usize, BodyError>> {
        match &mut self.0 {
            Source::BodyBuffer(body_buffer) => body_buffer.poll(context, out),
            Source::Whole(request) => Poll::Ready(Ok(request.take().map_or(0, |request| {
                out.extend_from_slice(request.body());
                request.body().len()
            }))),
        }
    }
}

impl Producer for BodyReader {
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        self.poll_read(context, out).map(|read| match read? {
            0 => Ok(ControlFlow::Break(())),
            _ => Ok(ControlFlow::Continue(())),
        })
    }
}

#[cfg(feature = "stream")]
impl futures_core::Stream for BodyReader {
    type Item = Result<Vec<u8>, BodyError>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Self::Item>> {
        let mut piece = Vec::new();
        self.poll_read(context, &mut piece).map(|read| match read {
            Ok(0) => None,
            Ok(_) => Some(Ok(piece)),
            Err(error) => Some(Err(error)),
        })
    }
}
