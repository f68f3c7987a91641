//! The output of a [`ResponseWriter`](super::ResponseWriter), taken apart again: for functions that
//! wrap handlers and see answers as values, and for in-process calls.

use std::borrow::Cow;

use memchr::memmem;

use super::Tail;
use crate::body::Body;
use crate::message::response::{Payload, Response};
use crate::proto::status::Status;

/// The parts of an answer that was written.
pub(crate) struct Written<'a> {
    /// The status.
    pub(crate) status: Status,
    /// The lines of the head after the first.
    lines: &'a [u8],
    /// The bytes after the head.
    pub(crate) body: &'a [u8],
}

impl<'a> Written<'a> {
    /// Parses the output for one answer. `None` if its handler has overwritten the head.
    pub(crate) fn of(output: &'a [u8]) -> Option<Self> {
        let end = memmem::find(output, b"\r\n\r\n")?;
        let code = std::str::from_utf8(output.get(9..12)?).ok()?.parse().ok()?;
        let status = match code {
            101 => Status::SWITCHING_PROTOCOLS,
            code => Status::new(code)?,
        };
        let start = memmem::find(output, b"\r\n")? + 2;
        let lines = output.get(start..end).unwrap_or_default();
        Some(Self { status, lines, body: &output[end + 4..] })
    }

    /// Returns the headers, in the order in which they were written.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.lines.split(|&byte| byte == b'\n').filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            Some((std::str::from_utf8(&line[..colon]).ok()?, line[colon + 1..].trim_ascii()))
        })
    }

    /// Returns the answer as a value, whose body continues with `tail`. The headers that each writer
    /// adds by itself are left out.
    pub(crate) fn into_response(self, tail: Option<Tail>) -> Response {
        let mut content_type = Cow::Borrowed("");
        let mut headers = Vec::new();
        for (name, value) in self.headers() {
            let has_name = |known: &str| name.eq_ignore_ascii_case(known);
            if has_name("content-type") {
                content_type = Cow::Owned(String::from_utf8_lossy(value).into_owned());
            } else if !["content-length", "transfer-encoding", "connection"]
                .into_iter()
                .any(has_name)
            {
                headers.push((Cow::Owned(name.to_owned()), Cow::Owned(value.to_owned())));
            }
        }
        let body = match tail {
            None => Payload::Whole(Body::from(self.body.to_owned())),
            Some(Tail::Body(body)) => Payload::Whole(body),
            Some(Tail::Stream(stream)) => Payload::Stream(stream.0),
            Some(Tail::UpgradedProtocol(protocol)) => Payload::UpgradedProtocol(protocol),
        };
        Response::of_parts(self.status, content_type, headers, body)
    }
}
