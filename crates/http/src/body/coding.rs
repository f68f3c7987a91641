//! Content codings: bodies coded as gzip (RFC 1952), brotli (RFC 7932) or zstd (RFC 8878), piece by
//! piece while they are produced.
//!
//! A short body is coded at once. A longer one is coded while it is sent, and other connections of
//! the thread get their turn after each 64 KiB, since compression takes milliseconds per megabyte.
//! [`crate::Compression`] and [`crate::Response::compressed`] decide which answers are coded;
//! [`crate::proto::accept_encoding`] chooses the coding.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::task::{Context, Poll};

use brotli::CompressorWriter as BrotliEncoder;
use flate2::Compression;
use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use crate::body::Body;
use crate::body::producer::{BodyStream, BoxError, Producer};
use crate::proto::accept_encoding::best_coding;

/// Shorter bodies are sent uncoded: they would hardly become shorter.
pub(crate) const BODY_BYTES_MIN: usize = 1024;
/// Longer bodies are coded while they are sent, so that they do not block a thread's loop.
pub(crate) const WHOLE_BYTES_MAX: usize = 32 * 1024;
/// Bytes of a body that are coded before other connections get their turn.
const TURN_BYTES: usize = 64 * 1024;
/// Bytes of a whole body that are coded at once.
const SLICE_BYTES: usize = 16 * 1024;
/// The level of zstd. Answers are coded while their client waits, so the levels are fast ones.
const ZSTD_LEVEL: i32 = 1;
/// The quality of brotli, of 0 to 11.
const BROTLI_LEVEL: u32 = 3;
/// Brotli uses a window of 256 KiB; its default of 4 MiB would be held for each answer.
const BROTLI_WINDOW_BITS: u32 = 18;
/// The bytes that brotli's encoder collects before it writes.
const BROTLI_BUFFER_BYTES: usize = 4096;
/// Pieces that are coded at once while the encoder produces no output.
const PIECES_MAX: usize = 8;

/// A content coding of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Brotli,
    Zstd,
}

impl Coding {
    /// Returns the name in `Accept-Encoding` and `Content-Encoding`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// Returns the coding that a client prefers by its `Accept-Encoding`; zstd, or else brotli, if
    /// it prefers all equally.
    pub(crate) fn accepted(header: &str) -> Option<Self> {
        const ALL: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];
        best_coding(header, &ALL.map(Coding::name)).map(|at| ALL[at])
    }
}

/// An encoder that writes to memory.
enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Brotli(Box<BrotliEncoder<Vec<u8>>>),
    Zstd(ZstdEncoder<'static, Vec<u8>>),
}

impl Encoder {
    /// Creates an encoder.
    ///
    /// # Errors
    /// There is no memory for it.
    fn new(coding: Coding) -> io::Result<Self> {
        Ok(match coding {
            Coding::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
            Coding::Brotli => Self::Brotli(Box::new(BrotliEncoder::new(
                Vec::new(),
                BROTLI_BUFFER_BYTES,
                BROTLI_LEVEL,
                BROTLI_WINDOW_BITS,
            ))),
            Coding::Zstd => Self::Zstd(ZstdEncoder::new(Vec::new(), ZSTD_LEVEL)?),
        })
    }

    /// Returns the side that takes plain bytes.
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Gzip(encoder) => encoder,
            Self::Brotli(encoder) => encoder,
            Self::Zstd(encoder) => encoder,
        }
    }

    /// Moves the coded bytes to `out`.
    fn move_to(&mut self, out: &mut Vec<u8>) {
        out.append(match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Brotli(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        });
    }

    /// Ends the coded body, and moves its last bytes to `out`.
    fn finish(self, out: &mut Vec<u8>) -> io::Result<()> {
        out.append(&mut match self {
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Brotli(encoder) => encoder.into_inner(),
            Self::Zstd(encoder) => encoder.finish()?,
        });
        Ok(())
    }
}

/// A body that is coded while it is sent. It polls its source up to [`PIECES_MAX`] times for one
/// piece of output, because encoders hold bytes back, and flushes the encoder when the source
/// waits.
struct Coded<P> {
    /// The source of plain bytes.
    body: P,
    /// The encoder; `None` when the body has ended.
    encoder: Option<Encoder>,
    /// The plain bytes of the last poll. The buffer is reused.
    piece: Vec<u8>,
    /// Bytes coded since other connections had their turn.
    turn_bytes: usize,
}

/// A source of the pieces of a body that is to be coded. Its `poll_next` has the contract of
/// [`Producer::poll_piece`].
trait Pieces: 'static {
    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>>;
}

impl Pieces for BodyStream {
    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        self.poll_piece(context, out)
    }
}

/// A whole body as a source of slices of 16 KiB.
struct Slices {
    body: Body,
    /// The index of the next slice.
    at: usize,
}

impl Pieces for Slices {
    fn poll_next(
        &mut self,
        _: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        let left = &self.body.as_bytes()[self.at..];
        let slice = &left[..left.len().min(SLICE_BYTES)];
        out.extend_from_slice(slice);
        self.at += slice.len();
        let more = slice.len() < left.len();
        Poll::Ready(Ok(if more { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }))
    }
}

impl<P: Pieces> Producer for Coded<P> {
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        let Some(encoder) = &mut self.encoder else {
            return Poll::Ready(Ok(ControlFlow::Break(())));
        };
        let start = out.len();
        for _ in 0..PIECES_MAX {
            if self.turn_bytes >= TURN_BYTES {
                self.turn_bytes = 0;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.piece.clear();
            let polled = self.body.poll_next(context, &mut self.piece);
            self.turn_bytes += self.piece.len();
            encoder.writer().write_all(&self.piece)?;
            match polled {
                Poll::Ready(Ok(ControlFlow::Continue(()))) => encoder.move_to(out),
                Poll::Ready(Ok(ControlFlow::Break(()))) => {
                    encoder.move_to(out);
                    if let Some(encoder) = self.encoder.take() {
                        encoder.finish(out)?;
                    }
                    return Poll::Ready(Ok(ControlFlow::Break(())));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.turn_bytes = 0;
                    // The client may have waited long for these bytes.
                    if !self.piece.is_empty() {
                        encoder.writer().flush()?;
                        encoder.move_to(out);
                    }
                    return Poll::Pending;
                }
            }
            if out.len() > start {
                break;
            }
        }
        Poll::Ready(Ok(ControlFlow::Continue(())))
    }
}

/// The coded form of a whole body.
pub(crate) enum CodedBody {
    /// Coded at once.
    Whole(Body),
    /// Coded while it is sent.
    Stream(BodyStream),
}

/// Codes the body: at once if it is short, else while it is sent. Returns the body unchanged if
/// there is no memory for an encoder.
pub(crate) fn whole(body: Body, coding: Coding) -> Result<CodedBody, Body> {
    let Ok(mut encoder) = Encoder::new(coding) else { return Err(body) };
    if body.len() > WHOLE_BYTES_MAX {
        let held_bytes = body.held_bytes();
        let coded = coded(Slices { body, at: 0 }, encoder).holding(held_bytes);
        return Ok(CodedBody::Stream(coded));
    }
    let mut bytes = Vec::new();
    let written = encoder.writer().write_all(body.as_bytes());
    match written.and_then(|()| encoder.finish(&mut bytes)) {
        Ok(()) => Ok(CodedBody::Whole(bytes.into())),
        Err(_) => Err(body),
    }
}

/// Codes the stream while it is sent. Returns the stream unchanged if there is no memory for an
/// encoder.
pub(crate) fn streamed(body: BodyStream, coding: Coding) -> Result<BodyStream, BodyStream> {
    match Encoder::new(coding) {
        Ok(encoder) => Ok(coded(body, encoder)),
        Err(_) => Err(body),
    }
}

/// Returns the stream of a source's coded bytes.
fn coded(body: impl Pieces, encoder: Encoder) -> BodyStream {
    BodyStream::new(Coded { body, encoder: Some(encoder), piece: Vec::new(), turn_bytes: 0 })
}

/// Returns an entity tag for coded bytes: a weak one (RFC 9110, 8.8.1), because the tag was made
/// for other bytes.
pub(crate) fn weak_tag(tag: &[u8]) -> Vec<u8> {
    match tag.starts_with(b"W/") {
        true => tag.to_vec(),
        false => [b"W/", tag].concat(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::task::Waker;

    use super::*;
    use crate::body::producer::Progress;

    #[test]
    fn long_bodies_are_coded_in_turns() {
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
        for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
            let Ok(CodedBody::Stream(mut body)) = whole(bytes.clone().into(), coding) else {
                panic!("a long body is streamed");
            };
            assert!(body.held_bytes() >= bytes.len());
            let (mut out, mut turns) = (Vec::new(), 1);
            let mut context = Context::from_waker(Waker::noop());
            loop {
                match body.poll_ahead(&mut context, &mut out, usize::MAX) {
                    Progress::Ended => break,
                    Progress::Stalled => turns += 1,
                    Progress::More => {}
                    Progress::Failed(error) => panic!("{error}"),
                }
            }
            assert!(turns >= bytes.len() / (TURN_BYTES + SLICE_BYTES), "{coding:?}: {turns}");
            let mut decoded = Vec::new();
            match coding {
                Coding::Gzip => flate2::read::GzDecoder::new(&*out).read_to_end(&mut decoded),
                Coding::Brotli => brotli::Decompressor::new(&*out, 4096).read_to_end(&mut decoded),
                Coding::Zstd => zstd::Decoder::new(&*out).unwrap().read_to_end(&mut decoded),
            }
            .unwrap();
            assert!(decoded == bytes, "{coding:?}");
        }
    }
}
