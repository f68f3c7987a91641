//! Streams as HTTP request and response bodies: raw bytes, or items as lines of JSON.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_channel::{Receiver, Sender};
use futures_lite::stream::Stream;
use marmota_http::{BodyError, BodyReader, BodyStream, BoxError, Producer, Request, Response};
use marmota_model::{Error, ErrorKind, Result};

use crate::contract::MethodContract;
use crate::failure::Failure;
use crate::limits::Limits;
use crate::transfer::{ChunkStream, TransferForm};

/// Returns the form in which a request body is a parameter: that of the method's only stream.
pub(crate) fn of_method(method: &'static MethodContract) -> Option<TransferForm> {
    let mut streams = method.parameters.iter().filter(|one| !one.form.is_value());
    let only = streams.next()?;
    streams.next().is_none().then_some(only.form)
}

/// Returns true if the request body is the stream itself, not JSON with all parameters.
pub(crate) fn is_streamed(request: &Request) -> bool {
    let media_type = request.header_text("content-type").unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default();
    !media_type.trim().eq_ignore_ascii_case("application/json")
}

/// Returns the maximum size of such a body in bytes.
pub(crate) fn bytes_max(form: TransferForm, limits: &Limits) -> u64 {
    match form {
        // The number of items is unlimited.
        TransferForm::Items => u64::MAX,
        _ => limits.stream_bytes_max,
    }
}

/// Moves a body from its connection's thread to the thread of the call, which may differ.
pub(crate) struct Upload(Option<Pin<Box<dyn Future<Output = ()>>>>);

/// A piece of a body; `None` marks the end.
type Piece = Result<Option<Vec<u8>>>;

/// The receiving end of an [`Upload`].
struct Arriving {
    ask: Sender<()>,
    is_asked: bool,
    pieces: Pin<Box<Receiver<Piece>>>,
    has_end: bool,
}

impl Upload {
    pub(crate) fn new(reader: BodyReader) -> (Self, ChunkStream) {
        let (ask, asked) = async_channel::bounded(1);
        let (sender, pieces) = async_channel::bounded(1);
        let pieces = Box::pin(pieces);
        let arriving = Arriving { ask, is_asked: false, pieces, has_end: false };
        (Self(Some(Box::pin(bring(reader, asked, sender)))), ChunkStream::new(arriving))
    }

    /// Forwards received data, as far as it was requested.
    pub(crate) fn go_on(&mut self, context: &mut Context<'_>) {
        if let Some(moving) = &mut self.0
            && moving.as_mut().poll(context).is_ready()
        {
            self.0 = None;
        }
    }
}

async fn bring(mut reader: BodyReader, asked: Receiver<()>, sender: Sender<Piece>) {
    // Each piece is read only after it is requested.
    while asked.recv().await.is_ok() {
        let mut bytes = Vec::new();
        let piece = match reader.read(&mut bytes).await {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(bytes)),
            Err(error) => Err(broken(error)),
        };
        let is_last = !matches!(piece, Ok(Some(_)));
        if sender.send(piece).await.is_err() || is_last {
            return;
        }
    }
}

impl Stream for Arriving {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_end {
            return Poll::Ready(None);
        }
        if !self.is_asked {
            // The channel has room for one request. If it is closed, the poll below returns the
            // error.
            let _ = self.ask.try_send(());
            self.is_asked = true;
        }
        self.pieces.as_mut().poll_next(context).map(|piece| {
            self.is_asked = false;
            // The sender was dropped: the connection is closed.
            let piece = piece.unwrap_or_else(|| Err(broken(BodyError::CutOff)));
            self.has_end = !matches!(piece, Ok(Some(_)));
            piece.transpose()
        })
    }
}

#[cold]
fn broken(error: BodyError) -> Error {
    let kind = match error {
        BodyError::CutOff => ErrorKind::Lost,
        BodyError::TimedOut => ErrorKind::Timeout,
        _ => ErrorKind::Invalid,
    };
    let too_large = match error {
        BodyError::TooLarge => " (`stream_bytes_max`)",
        _ => "",
    };
    Error::new(kind, format!("{error}{too_large}")).with_source(error)
}

/// Returns the media type of a stream's body.
pub(crate) const fn media_type(form: TransferForm) -> &'static str {
    match form {
        TransferForm::Items => "application/x-ndjson",
        _ => "application/octet-stream",
    }
}

/// Returns the response for a stream, once its first piece or its end is available: the status 200
/// cannot be changed after it is sent.
///
/// # Errors
/// If the stream fails before its first piece.
pub(crate) async fn answer(
    mut pieces: ChunkStream,
    form: TransferForm,
    mut upload: Option<Upload>,
    called: Arc<str>,
) -> Result<Response> {
    let first = loop {
        let next = std::future::poll_fn(|context| {
            if let Some(upload) = &mut upload {
                upload.go_on(context);
            }
            Pin::new(&mut pieces).poll_next(context)
        });
        match next.await.transpose()? {
            None => return Ok(Response::with_body(media_type(form), Vec::new())),
            // An empty piece has no data to send.
            Some(piece) if piece.is_empty() => {}
            Some(piece) => break piece,
        }
    };
    let making = Making { first, pieces, form, upload, called, fault: None };
    Ok(Response::streamed(media_type(form), BodyStream::new(making)))
}

/// A response that is produced piece by piece.
struct Making {
    /// The first piece; empty once it was sent.
    first: Vec<u8>,
    pieces: ChunkStream,
    form: TransferForm,
    /// The body of the request, forwarded while the response is produced.
    upload: Option<Upload>,
    called: Arc<str>,
    /// The error that aborts the response, after the line that reports it was sent.
    fault: Option<BoxError>,
}

impl Producer for Making {
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        if let Some(fault) = self.fault.take() {
            return Poll::Ready(Err(fault));
        }
        if !self.first.is_empty() {
            out.append(&mut std::mem::take(&mut self.first));
            return Poll::Ready(Ok(ControlFlow::Continue(())));
        }
        if let Some(upload) = &mut self.upload {
            upload.go_on(context);
        }
        Pin::new(&mut self.pieces).poll_next(context).map(|piece| match piece {
            Some(Ok(piece)) => {
                out.extend_from_slice(&piece);
                Ok(ControlFlow::Continue(()))
            }
            None => Ok(ControlFlow::Break(())),
            Some(Err(error)) => {
                let fault = Box::<dyn std::error::Error + Send + Sync>::from(error.to_string());
                if self.form != TransferForm::Items {
                    return Err(fault);
                }
                // The last line reports the error. The missing end of the body distinguishes it
                // from an item.
                out.extend_from_slice(b"{\"error\":");
                // The failure holds only strings and a number: serializing cannot fail.
                let _ = serde_json::to_writer(&mut *out, &Failure::of(&error, &self.called));
                out.extend_from_slice(b"}\n");
                self.fault = Some(fault);
                Ok(ControlFlow::Continue(()))
            }
        })
    }
}
