//! Content codings: answers sent as gzip (RFC 1952) or zstd (RFC 8878) to those
//! who take them, coded piece by piece while they are made.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::task::{Context, Poll};

use flate2::Compression;
use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use crate::body::Body;
use crate::producer::{BodyStream, BoxError, Producer};
use crate::request::Request;
use crate::response::{Payload, Response};
use crate::status::Status;

/// A shorter body would hardly get shorter.
const BODY_BYTES_MIN: usize = 1024;
/// Answers are coded while their client waits: the quickest levels.
const ZSTD_LEVEL: i32 = 1;
/// Pieces that are made in one go when they vanish in the encoder.
const PIECES_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Gzip,
    Zstd,
}

impl Coding {
    const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// What `Accept-Encoding` likes best (RFC 9110, 12.5.3); zstd if it likes
    /// both, nothing if it likes neither, or what is not coded more.
    fn accepted(header: &str) -> Option<Self> {
        let (mut gzip, mut zstd, mut identity, mut any) = (None, None, None, None);
        for item in header.split(',') {
            let mut parts = item.split(';');
            let name = parts.next().unwrap_or_default().trim();
            let weight = parts.find_map(|part| {
                let (name, value) = part.split_once('=')?;
                name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse::<f32>().ok())
            });
            // A weight that is none says nothing.
            let Some(weight) = weight.unwrap_or(Some(1.0)) else { continue };
            let place = match name {
                "*" => &mut any,
                _ if name.eq_ignore_ascii_case("gzip") => &mut gzip,
                _ if name.eq_ignore_ascii_case("x-gzip") => &mut gzip,
                _ if name.eq_ignore_ascii_case("zstd") => &mut zstd,
                _ if name.eq_ignore_ascii_case("identity") => &mut identity,
                _ => continue,
            };
            *place = Some(weight);
        }
        let [gzip, zstd] = [gzip, zstd].map(|weight| weight.or(any).unwrap_or(0.0));
        let (best, weight) = if zstd >= gzip { (Self::Zstd, zstd) } else { (Self::Gzip, gzip) };
        (weight > 0.0 && weight >= identity.unwrap_or(0.0)).then_some(best)
    }
}

enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(ZstdEncoder<'static, Vec<u8>>),
}

impl Encoder {
    fn new(coding: Coding) -> io::Result<Self> {
        Ok(match coding {
            Coding::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
            Coding::Zstd => Self::Zstd(ZstdEncoder::new(Vec::new(), ZSTD_LEVEL)?),
        })
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Gzip(encoder) => encoder,
            Self::Zstd(encoder) => encoder,
        }
    }

    /// Moves what is coded so far.
    fn move_to(&mut self, out: &mut Vec<u8>) {
        out.append(match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        });
    }

    fn finish(self, out: &mut Vec<u8>) -> io::Result<()> {
        out.append(&mut match self {
            Self::Gzip(encoder) => encoder.finish()?,
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
    /// Has the body sent as zstd or gzip if the request's `Accept-Encoding`
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_accepted_coding_is_chosen() {
        use Coding::{Gzip, Zstd};
        for (header, expected) in [
            ("", None),
            ("identity", None),
            ("br, deflate", None),
            ("gzip", Some(Gzip)),
            ("GZIP;q=0.5, br", Some(Gzip)),
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("zstd;q=0.3, gzip;q=0.8", Some(Gzip)),
            ("gzip;q=0", None),
            ("*", Some(Zstd)),
            ("zstd;q=0, *", Some(Gzip)),
            ("gzip;q=0.2, identity;q=0.9", None),
            ("gzip;q=x", None),
            ("gzip ; q = 1.0", Some(Gzip)),
        ] {
            assert_eq!(Coding::accepted(header), expected, "{header}");
        }
    }
}
