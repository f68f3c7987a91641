//! Requests of which two servers could have two opinions: where a body ends, what a header is,
//! which request comes next. Each is refused and its connection closed, or taken in the one way
//! that the standard knows; what an attacker hides in a body is never a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use marmota_http::{Request, Router};

use super::client::{Client, serve};

/// What follows each case: answered only where the one before was taken, and as the next request.
const NEXT: &str = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n";
/// A request that must not be seen as one.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: a\r\nX: ";

/// Heads behind `POST / HTTP/1.1\r\nHost: a\r\n`, with what follows them.
const REFUSED: &[(&str, &str)] = &[
    ("length and coding", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"),
    ("coding and length", "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\nG"),
    ("two lengths", "Content-Length: 0\r\nContent-Length: 44\r\n\r\n"),
    ("the same length twice", "Content-Length: 0\r\nContent-Length: 0\r\n\r\n"),
    ("a list of lengths", "Content-Length: 0, 0\r\n\r\n"),
    ("a list's comma", "Content-Length: 0,\r\n\r\n"),
    ("signed length", "Content-Length: +0\r\n\r\n"),
    ("negative length", "Content-Length: -0\r\n\r\n"),
    ("hexadecimal length", "Content-Length: 0x0\r\n\r\n"),
    ("empty length", "Content-Length: \r\n\r\n"),
    ("length with a blank", "Content-Length: 0 0\r\n\r\n"),
    ("length with a vertical tab", "Content-Length: \x0b0\r\n\r\n"),
    ("fractional length", "Content-Length: 0.0\r\n\r\n"),
    ("length too long for numbers", "Content-Length: 18446744073709551617\r\n\r\n"),
    ("coding twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (
        "coding and none",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    ),
    ("chunked is not the last", "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
    ("chunked and identity", "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    ("identity", "Transfer-Encoding: identity\r\n\r\n"),
    ("no coding", "Transfer-Encoding: \r\n\r\n"),
    ("comma for a coding", "Transfer-Encoding: ,\r\n\r\n"),
    ("quoted coding", "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
    ("coding with a weight", "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
    ("unknown coding", "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ("coding with a vertical tab", "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
    ("coding with a form feed", "Transfer-Encoding: chunked\x0c\r\n\r\n0\r\n\r\n"),
    ("blank before the colon", "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    ("tab before the colon", "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"),
    ("folded coding", "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    ("folded with a tab", "X: a\r\n\tTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("folded to nothing", "X: a\r\n \r\n\r\n"),
    ("bare LF before a coding", "X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("bare CR before a coding", "X: a\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("bare LF ends the head", "X: a\r\n\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("two CRs", "X: a\r\r\n\r\n"),
    ("NUL in a name", "Transfer-Encoding\0: chunked\r\n\r\n0\r\n\r\n"),
    ("NUL in a value", "Transfer-Encoding: chunked\0\r\n\r\n0\r\n\r\n"),
    ("no name", ": chunked\r\n\r\n"),
    ("a name in brackets", "[Transfer-Encoding]: chunked\r\n\r\n0\r\n\r\n"),
    ("a name that is not ASCII", "Transf\u{e9}r-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("a second host", "Host: b\r\n\r\n"),
    ("a second host alike", "host: a\r\n\r\n"),
    ("empty chunk size", "Transfer-Encoding: chunked\r\n\r\n\r\n0\r\n\r\n"),
    ("signed chunk size", "Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n"),
    ("negative chunk size", "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n"),
    ("prefixed chunk size", "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n"),
    ("blank before a chunk size", "Transfer-Encoding: chunked\r\n\r\n 0\r\n\r\n"),
    ("chunk size that wraps", "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n\r\n"),
    ("underscore in a chunk size", "Transfer-Encoding: chunked\r\n\r\n1_0\r\n"),
    ("bare LF behind a chunk size", "Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n"),
    ("bare CR behind a chunk size", "Transfer-Encoding: chunked\r\n\r\n1\ra\r\n0\r\n\r\n"),
    ("bare LF in a chunk extension", "Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\na\r\n0\r\n\r\n"),
    ("bare CR in a chunk extension", "Transfer-Encoding: chunked\r\n\r\n1;a\rb\r\na\r\n0\r\n\r\n"),
    ("NUL in a chunk extension", "Transfer-Encoding: chunked\r\n\r\n1;a\0b\r\na\r\n0\r\n\r\n"),
    ("no end of a chunk", "Transfer-Encoding: chunked\r\n\r\n1\r\na0\r\n\r\n"),
    ("LF ends a chunk", "Transfer-Encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n"),
    ("other bytes end a chunk", "Transfer-Encoding: chunked\r\n\r\n1\r\naXX0\r\n\r\n"),
    ("LF ends the last chunk", "Transfer-Encoding: chunked\r\n\r\n0\n\r\n"),
    ("LF ends the trailers", "Transfer-Encoding: chunked\r\n\r\n0\r\n\n"),
    ("LF in the trailers", "Transfer-Encoding: chunked\r\n\r\n0\r\nX: a\nY: b\r\n\r\n"),
];

/// First lines, with their heads.
const REFUSED_LINES: &[(&str, &str)] = &[
    ("lower-case version", "GET /hidden http/1.1\r\nHost: a\r\n\r\n"),
    ("blank behind the version", "GET /hidden HTTP/1.1 \r\nHost: a\r\n\r\n"),
    ("version of three digits", "GET /hidden HTTP/1.01\r\nHost: a\r\n\r\n"),
    ("version without a point", "GET /hidden HTTP/11\r\nHost: a\r\n\r\n"),
    ("tab for a blank", "GET\t/hidden HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("blank before the method", " GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("blank in the target", "GET /hid den HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("CR in the target", "GET /hid\rden HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("first header begins with a blank", "GET /hidden HTTP/1.1\r\n Host: a\r\n\r\n"),
    (
        "coding of HTTP/1.0",
        "POST /hidden HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    ("no host", "GET /hidden HTTP/1.1\r\n\r\n"),
    ("two hosts in one", "GET /hidden HTTP/1.1\r\nHost: a, b\r\n\r\n"),
    ("host with a path", "GET /hidden HTTP/1.1\r\nHost: a/b\r\n\r\n"),
];

/// Heads that are taken, with the body's length.
const TAKEN: &[(&str, &str, usize)] = &[
    ("no body", "\r\n", 0),
    ("zeros before a length", "Content-Length: 0005\r\n\r\nhello", 5),
    ("blanks around a length", "Content-Length: \t5 \r\n\r\nhello", 5),
    ("a length in capitals", "CONTENT-LENGTH: 5\r\n\r\nhello", 5),
    ("another header's name", "Content_Length: 5\r\n\r\n", 0),
    ("a coding in capitals", "TRANSFER-ENCODING: CHUNKED\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 5),
    (
        "a chunk extension",
        "Transfer-Encoding: chunked\r\n\r\n5;a=\"b;c\";d\r\nhello\r\n0\r\n\r\n",
        5,
    ),
    (
        "zeros before a chunk size",
        "Transfer-Encoding: chunked\r\n\r\n0005\r\nhello\r\n000\r\n\r\n",
        5,
    ),
    ("a capital chunk size", "Transfer-Encoding: chunked\r\n\r\nA\r\nhellohello\r\n0\r\n\r\n", 10),
    (
        "trailers that say another length",
        "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nContent-Length: 99\r\nTransfer-Encoding: gzip\r\n\r\n",
        1,
    ),
    (
        "another connection's header",
        "Connection: Content-Length\r\nContent-Length: 5\r\n\r\nhello",
        5,
    ),
    (
        "an upgrade that is not made",
        "Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 5\r\n\r\nhello",
        5,
    ),
];

#[test]
fn no_request_hides_in_another() {
    let hidden = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&hidden);
    let router = Router::new()
        .post("/", |request: Request| async move { request.body().len().to_string() })
        .get("/next", |_| async { "next" })
        .any(
            "/hidden",
            marmota_http::Endpoint::direct(move |_, _| {
                seen.fetch_add(1, Ordering::SeqCst);
                marmota_http::Flow::Done
            }),
        );
    let server = serve(router);
    let refused = REFUSED
        .iter()
        .map(|(name, rest)| (*name, format!("POST / HTTP/1.1\r\nHost: a\r\n{rest}{HIDDEN}{NEXT}")));
    let lines = REFUSED_LINES.iter().map(|(name, head)| (*name, format!("{head}{NEXT}")));
    for (name, bytes) in refused.chain(lines) {
        let mut client = Client::new(server.local_addr());
        let answer = client.send(&bytes).answer().unwrap_or_else(|| panic!("{name}: no answer"));
        assert!(matches!(answer.status, 400 | 413 | 501 | 505), "{name}: {answer:?}");
        assert!(client.is_closed(), "{name}: more is answered");
    }
    for &(name, rest, length) in TAKEN {
        let mut client = Client::new(server.local_addr());
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{rest}{NEXT}"));
        let answer = client.answer().unwrap();
        assert_eq!((answer.status, answer.text()), (200, &*length.to_string()), "{name}");
        assert_eq!(client.answer().unwrap().text(), "next", "{name}");
    }
    assert_eq!(hidden.load(Ordering::SeqCst), 0);
}
