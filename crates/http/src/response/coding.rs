//! Content codings: answers sent as gzip (RFC 1952), brotli (RFC 7932) or zstd (RFC 8878) to
//! those who take them, coded piece by piece while they are made.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::task::{Context, Poll};

use brotli::CompressorWriter as BrotliEncoder;
use flate2::Compression;
use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use crate::accepted::best_coding;
use crate::body::Body;
use crate::producer::{BodyStream, BoxError, Producer};
use crate::request::Request;
use crate::response::{Payload, Response};
use crate::status::Status;

/// A shorter body would hardly get shorter.
const BODY_BYTES_MIN: usize = 1024;
/// Answers are coded while their client waits: the quickest levels.
const ZSTD_LEVEL: i32 = 1;
const BROTLI_LEVEL: u32 = 3;
/// Brotli looks back over 256 KiB, where its own default of 4 MiB would be held for each answer.
const BROTLI_WINDOW_BITS: u32 = 18;
const BROTLI_BUFFER_BYTES: usize = 4096;
/// Pieces that are made in one go when they vanish in the encoder.
const PIECES_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Gzip,
    Brotli,
    Zstd,
}

impl Coding {
    const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// What a client likes best of what is coded here; zstd, or else brotli, if it likes all alike.
    fn accepted(header: &str) -> Option<Self> {
        const ALL: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];
        best_coding(header, &ALL.map(Coding::name)).map(|at| ALL[at])
    }
}

enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Brotli(Box<BrotliEncoder<Vec<u8>>>),
    Zstd(ZstdEncoder<'static, Vec<u8>>),
}

impl Encoder {
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

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Gzip(encoder) => encoder,
            Self::Brotli(encoder) => encoder,
            Self::Zstd(encoder) => encoder,
        }
    }

    /// Moves what is coded so far.
    fn move_to(&mut self, out: &mut Vec<u8>) {
        out.append(match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Brotli(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        });
    }

    fn finish(self, out: &mut Vec<u8>) -> io::Result<()> {
        out.append(&mut match self {
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Brotli(encoder) => encoder.into_inner(),
            Self::Zstd(encoder) => encoder.finish()?,
        });
        Ok(())
    }
}

/// Another body, coded.
struct Coded {
    body: BodyStream,
    /// None when it has ended.
    encoder: Option<Encoder>,
    piece: Vec<u8>,
}

impl Producer for Coded {
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
            self.piece.clear();
            let polled = self.body.poll_piece(context, &mut self.piece);
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
                    // What is there may be long awaited.
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

impl Response {
    /// Has the body sent as zstd, brotli or gzip if the request's `Accept-Encoding`
    /// takes one of them, and the body is streamed or not very short. A strong
    /// ETag becomes a weak one, since the bytes are others then.
    ///
    /// Do not use it where a secret and what a stranger chose stand in one
    /// answer: its length tells about the secret.
    ///
    /// ```
    /// use marmota_http::{Request, Response};
    /// async fn list(request: Request) -> Response {
    ///     Response::json_bytes("[1,2,3]".repeat(1000)).compressed(&request)
    /// }
    /// ```
    #[must_use]
    pub fn compressed(mut self, request: &Request) -> Self {
        let is_short = matches!(&self.body, Payload::Whole(body) if body.len() < BODY_BYTES_MIN);
        let is_coded =
            self.headers().any(|(name, _)| name.eq_ignore_ascii_case("content-encoding"));
        if is_coded || (is_short && self.status != Status::NOT_MODIFIED) {
            return self;
        }
        self.put("Vary", "Accept-Encoding");
        let header = request.header_text("accept-encoding").unwrap_or_default();
        let coding = if is_short { None } else { Coding::accepted(header) };
        let Some(coding) = coding else { return self };
        // Without memory for an encoder the plain body is as good.
        let Ok(encoder) = Encoder::new(coding) else { return self };
        self.body = match self.body {
            Payload::Whole(body) => match whole(&body, encoder) {
                Ok(coded) => Payload::Whole(coded),
                Err(_) => {
                    self.body = Payload::Whole(body);
                    return self;
                }
            },
            Payload::Stream(body) => {
                let coded = Coded { body, encoder: Some(encoder), piece: Vec::new() };
                Payload::Stream(BodyStream::new(coded))
            }
            Payload::Successor(_) => return self,
        };
        self.put("Content-Encoding", coding.name());
        for (name, tag) in &mut self.headers {
            if name.eq_ignore_ascii_case("etag") && tag.starts_with(b"\"") {
                *tag = [b"W/", &**tag].concat().into();
            }
        }
        self
    }

    fn put(&mut self, name: &'static str, value: &'static str) {
        self.headers.push((name.into(), value.as_bytes().into()));
    }
}

fn whole(body: &Body, mut encoder: Encoder) -> io::Result<Body> {
    let mut coded = Vec::new();
    encoder.writer().write_all(body.as_bytes())?;
    encoder.finish(&mut coded)?;
    Ok(coded.into())
}
