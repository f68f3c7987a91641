//! Streams as bodies of requests and answers of HTTP: bytes as they are, items as lines of JSON.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_channel::{Receiver, Sender};
use futures_lite::stream::Stream;
use marmota_http::{BodyError, BodyReader, BodyStream, BoxError, Producer, Request, Response};
use marmota_model::{Error, ErrorKind, Result};

use crate::contract::Method;
use crate::failure::Failure;
use crate::form::Form;
use crate::pieces::Pieces;
use crate::services::Settings;

/// In which form a request's body is a parameter: that of the only one that is a stream.
pub(crate) fn of_method(method: &'static Method) -> Option<Form> {
    let mut streams = method.parameters.iter().filter(|one| !one.form.is_value());
    let only = streams.next()?;
    streams.next().is_none().then_some(only.form)
}

/// True if the body of a request is the stream itself, and not JSON with all parameters.
pub(crate) fn is_streamed(request: &Request) -> bool {
    let media_type = request.header_text("content-type").unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default();
    !media_type.trim().eq_ignore_ascii_case("application/json")
}

/// Bytes of such a body at most.
pub(crate) fn bytes_max(form: Form, settings: &Settings) -> u64 {
    match form {
        // Of items there may be any number.
        Form::Items => u64::MAX,
        _ => settings.limits.stream_bytes_max,
    }
}

/// A body on its way from its connection's thread to where the call runs, which may be another.
pub(crate) struct Upload(Option<Pin<Box<dyn Future<Output = ()>>>>);

/// A piece; none is the end.
type Piece = Result<Option<Vec<u8>>>;

/// Where it arrives.
struct Arriving {
    ask: Sender<()>,
    is_asked: bool,
    pieces: Pin<Box<Receiver<Piece>>>,
    has_end: bool,
}

impl Upload {
    pub(crate) fn new(reader: BodyReader) -> (Self, Pieces) {
        let (ask, asked) = async_channel::bounded(1);
        let (sender, pieces) = async_channel::bounded(1);
        let pieces = Box::pin(pieces);
        let arriving = Arriving { ask, is_asked: false, pieces, has_end: false };
        (Self(Some(Box::pin(bring(reader, asked, sender)))), Pieces::new(arriving))
    }

    /// Moves what has come, as far as it was asked for.
    pub(crate) fn go_on(&mut self, context: &mut Context<'_>) {
        if let Some(moving) = &mut self.0
            && moving.as_mut().poll(context).is_ready()
        {
            self.0 = None;
        }
    }
}

async fn bring(mut reader: BodyReader, asked: Receiver<()>, sender: Sender<Piece>) {
    // Nothing is read before it is asked for.
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
            // There is room for one, and where nobody is asked the next poll tells.
            let _ = self.ask.try_send(());
            self.is_asked = true;
        }
        self.pieces.as_mut().poll_next(context).map(|piece| {
            self.is_asked = false;
            // Nobody brings any more: the connection has gone.
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

/// The media type of a stream's body.
pub(crate) const fn media_type(form: Form) -> &'static str {
    match form {
        Form::Items => "application/x-ndjson",
        _ => "application/octet-stream",
    }
}

/// The answer that a stream is, once its first piece or its end is there: its head says that all is
/// well, which nothing takes back.
///
/// # Errors
/// That of a stream that fails before its first piece.
pub(crate) async fn answer(
    mut pieces: Pieces,
    form: Form,
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
            // Nothing was said by it.
            Some(piece) if piece.is_empty() => {}
            Some(piece) => break piece,
        }
    };
    let making = Making { first, pieces, form, upload, called, fault: None };
    Ok(Response::streamed(media_type(form), BodyStream::new(making)))
}

/// An answer that is made piece by piece.
struct Making {
    /// What is there already; empty behind it.
    first: Vec<u8>,
    pieces: Pieces,
    form: Form,
    /// The request's own, which is read beside it.
    upload: Option<Upload>,
    called: Arc<str>,
    /// What cuts the answer off behind what it was told by.
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
                if self.form != Form::Items {
                    return Err(fault);
                }
                // A last line says why; that the body has no good end tells it from an item.
                out.extend_from_slice(b"{\"error\":");
                // Texts and a number: they can be written.
                let _ = serde_json::to_writer(&mut *out, &Failure::of(&error, &self.called));
                out.extend_from_slice(b"}\n");
                self.fault = Some(fault);
                Ok(ControlFlow::Continue(()))
            }
        })
    }
}
