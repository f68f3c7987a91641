//! Conversion of HTTP/2 requests to HTTP/1.1, and of HTTP/1.1 answers to HTTP/2. So one parser
//! decides what a head may be, and there is one router and one writer of answers.
//!
//! A request is written out as text and parsed again. So handlers get the same [`Request`] as on
//! HTTP/1.1, whose headers are ranges of one buffer.

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Method, request};

use crate::message::request::Request;
use crate::proto::head::{BodyLength, HeadError, HeadLimits, Version};
use crate::proto::paths::Found;

/// Checks whether a head opens another protocol on its stream (RFC 8441, 4). Returns `None` if it
/// is not a CONNECT, and the reason if the protocol is not supported.
pub(super) fn opening(head: &request::Parts) -> Option<Result<(), &'static str>> {
    if head.method != Method::CONNECT {
        return None;
    }
    Some(match head.extensions.get::<h2::ext::Protocol>() {
        Some(name) if name.as_str().eq_ignore_ascii_case("websocket") => Ok(()),
        Some(_) => Err("the only supported :protocol is websocket"),
        None => {
            Err("this server is not a proxy: CONNECT can only open a WebSocket, with :protocol")
        }
    })
}

/// Parses a head into a request, and returns its endpoint. With `bodiless` the request has no body;
/// else its length is unknown.
///
/// # Errors
/// Those of an HTTP/1.1 head.
pub(super) fn read(
    head: &request::Parts,
    bodiless: bool,
    request: &mut Request,
    limits: &HeadLimits,
) -> Result<Found, HeadError> {
    let exchange = std::rc::Rc::make_mut(&mut request.0);
    let text = &mut exchange.buffer;
    text.clear();
    put_head(head, text);
    let length = text.len();
    // HTTP/2 has limited the text already (SETTINGS_MAX_HEADER_LIST_SIZE); writing it out adds a
    // little.
    let limits = HeadLimits { bytes_max: limits.bytes_max + 1_024, ..*limits };
    if !exchange.head.parse(&exchange.buffer, 0, &limits)? || exchange.head.end != length {
        return Err(HeadError::TooLarge);
    }
    exchange.consumed = length;
    exchange.body_buffer = None;
    exchange.body = crate::proto::head::Span::default();
    let head = &mut exchange.head;
    head.version = Version::Http2;
    head.keep_alive = true;
    head.expect_continue = false;
    head.body = if bodiless { BodyLength::None } else { BodyLength::Chunked };
    let found =
        exchange.context.paths.find(head.method, &exchange.buffer, head.path, &mut exchange.params);
    exchange.endpoint = match found {
        Found::Endpoint(index) => Some(index),
        _ => None,
    };
    Ok(found)
}

/// Writes a head as one of HTTP/1.1. `:authority` becomes `Host` (RFC 9113, 8.3.1); a CONNECT for a
/// WebSocket becomes a GET with `Upgrade`.
fn put_head(head: &request::Parts, text: &mut Vec<u8>) {
    let authority = head.uri.authority().map(|authority| authority.as_str());
    let opens = matches!(opening(head), Some(Ok(())));
    let method = if opens { Method::GET.as_str() } else { head.method.as_str() };
    text.extend_from_slice(method.as_bytes());
    text.push(b' ');
    let target = match head.uri.path_and_query() {
        _ if head.method == Method::CONNECT && !opens => authority.unwrap_or_default(),
        Some(target) => target.as_str(),
        None => "/",
    };
    text.extend_from_slice(target.as_bytes());
    text.extend_from_slice(b" HTTP/1.1\r\n");
    if let Some(authority) = authority {
        put_line(b"host", authority.as_bytes(), text);
    }
    if opens {
        // `h2` accepts no such lines from a client.
        put_line(b"upgrade", b"websocket", text);
        put_line(b"connection", b"Upgrade", text);
    }
    let mut crumbs = head.headers.get_all(http::header::COOKIE).iter().peekable();
    if crumbs.peek().is_some() {
        // HTTP/2 may send the pairs of a cookie in separate lines, HTTP/1.1 sends them in one.
        text.extend_from_slice(b"cookie: ");
        while let Some(crumb) = crumbs.next() {
            text.extend_from_slice(crumb.as_bytes());
            text.extend_from_slice(if crumbs.peek().is_some() { b"; " } else { b"\r\n" });
        }
    }
    for (name, value) in &head.headers {
        let is_written =
            name == http::header::COOKIE || name == http::header::HOST && authority.is_some();
        // No client waits for a 100 here: its window holds back the frames of a body.
        if !is_written && name != http::header::EXPECT {
            put_line(name.as_str().as_bytes(), value.as_bytes(), text);
        }
    }
    text.extend_from_slice(b"\r\n");
}

/// Writes a header.
fn put_line(name: &[u8], value: &[u8], text: &mut Vec<u8>) {
    text.extend_from_slice(name);
    text.extend_from_slice(b": ");
    text.extend_from_slice(value);
    text.extend_from_slice(b"\r\n");
}

/// Returns the head of an answer, and the bytes after it. Headers of the connection are left out
/// (RFC 9113, 8.2.2). `None` if the head is malformed, which only a handler that writes over it can
/// cause.
pub(super) fn answer(text: &[u8]) -> Option<(http::Response<()>, Bytes)> {
    let text = Bytes::copy_from_slice(text);
    let mut head = http::Response::new(());
    let mut line_at = 0;
    loop {
        let line_end = line_at + text[line_at..].iter().position(|&byte| byte == b'\r')?;
        let line = &text[line_at..line_end];
        if line.is_empty() {
            return Some((head, text.slice(line_end + 2..)));
        }
        if line_at == 0 {
            *head.status_mut() = http::StatusCode::from_bytes(line.get(9..12)?).ok()?;
        } else {
            let colon = line.iter().position(|&byte| byte == b':')?;
            let name = HeaderName::from_bytes(&line[..colon]).ok()?;
            if !is_of_connection(&name) {
                let value = text.slice(line_at + colon + 2..line_end);
                head.headers_mut().append(name, HeaderValue::from_maybe_shared(value).ok()?);
            }
        }
        line_at = line_end + 2;
    }
}

/// Returns true if an HTTP/1.1 answer is a 2xx.
pub(super) fn is_success(text: &[u8]) -> bool {
    text.get(9) == Some(&b'2')
}

/// Returns true if an HTTP/1.1 answer hands the connection to a WebSocket: a 101 becomes a 200 on
/// its stream (RFC 8441, 5).
pub(super) fn opens(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'\n').any(|line| line == b"Upgrade: websocket\r")
}

/// Returns true if a header describes an HTTP/1.1 connection, which HTTP/2 does not allow.
fn is_of_connection(name: &HeaderName) -> bool {
    use http::header::{CONNECTION, TRANSFER_ENCODING, UPGRADE};
    *name == CONNECTION
        || *name == TRANSFER_ENCODING
        || *name == UPGRADE
        || name == "keep-alive"
        || name == "proxy-connection"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_loses_what_is_the_connections() {
        let text = b"HTTP/1.1 201 Created\r\nServer: x\r\nConnection: close\r\nSet-Cookie: a=1\r\n\
            Set-Cookie: b=2\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nhi";
        let (head, body) = answer(text).unwrap();
        assert_eq!((head.status().as_u16(), &body[..]), (201, &b"hi"[..]));
        let names: Vec<&str> = head.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["server", "set-cookie", "content-length"]);
        assert_eq!(head.headers().get_all("set-cookie").iter().count(), 2);
        assert!(answer(b"HTTP/1.1 200 OK\r\nno end").is_none());
    }

    #[test]
    fn a_request_is_written_as_of_http_1() {
        let (mut head, ()) = http::Request::builder()
            .uri("https://x.test/a?b=1")
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .header("host", "other")
            .header("x", "y")
            .body(())
            .unwrap()
            .into_parts();
        let mut text = Vec::new();
        put_head(&head, &mut text);
        let expected = "GET /a?b=1 HTTP/1.1\r\nhost: x.test\r\ncookie: a=1; b=2\r\nx: y\r\n\r\n";
        assert_eq!(std::str::from_utf8(&text).unwrap(), expected);

        head.method = Method::CONNECT;
        head.extensions.insert(h2::ext::Protocol::from_static("websocket"));
        text.clear();
        put_head(&head, &mut text);
        let upgrade = "x.test\r\nupgrade: websocket\r\nconnection: Upgrade\r\n";
        assert_eq!(std::str::from_utf8(&text).unwrap(), expected.replace("x.test\r\n", upgrade));
    }
}
