//! What is sent → which status, and is the connection closed after it.

use marmota_http::{Endpoint, Flow, Limits, Method, Response, Router};

use super::client::{Client, serve_with};

fn router() -> Router {
    let echo = |request: &marmota_http::Request, out: &mut marmota_http::ResponseWriter<'_>| {
        out.send("text/plain", request.body());
        Flow::Done
    };
    Router::new().get("/", |_| async { Response::text("ok") }).direct(Method::Post, "/", echo).on(
        Method::Post,
        "/big",
        Endpoint::direct(echo).body_bytes_max(1000),
    )
}

/// A name, the bytes, the status, whether it closes.
type Case = (&'static str, &'static str, u16, bool);

const CASES: &[Case] = &[
    ("plain get", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200, false),
    ("empty line first", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 200, false),
    ("two empty lines first", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, true),
    ("HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", 200, true),
    ("HTTP/1.0 kept", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, false),
    ("HTTP/1.1 closed", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200, true),
    ("absolute form", "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 200, false),
    ("absolute form without path", "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", 200, false),
    ("options of all", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 204, false),
    ("options of one", "OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\n", 204, false),
    ("no such path", "GET /no HTTP/1.1\r\nHost: a\r\n\r\n", 404, false),
    ("no such method here", "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", 405, false),
    ("no such method at all", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501, true),
    ("tunnel", "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 501, true),
    ("trace", "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405, false),
    ("no host", "GET / HTTP/1.1\r\n\r\n", 400, true),
    ("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, true),
    ("bad host", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, true),
    ("bare LF", "GET / HTTP/1.1\nHost: a\n\n", 400, true),
    ("bare LF in headers", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400, true),
    ("bare CR in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n", 400, true),
    ("NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", 400, true),
    ("NUL in the target", "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400, true),
    ("folded line", "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", 400, true),
    ("space before colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, true),
    ("no colon", "GET / HTTP/1.1\r\nHost\r\n\r\n", 400, true),
    ("no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n", 400, true),
    ("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400, true),
    ("fragment", "GET /#a HTTP/1.1\r\nHost: a\r\n\r\n", 400, true),
    ("relative target", "GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400, true),
    ("HTTP/0.9", "GET /\r\n", 400, true),
    ("HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, true),
    ("HTTP/2 preface that goes wrong", "PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n", 400, true),
    ("TLS", "\x16\x03\x01\x02\0\x01\0\x01", 400, true),
    ("length is no number", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: a\r\n\r\n", 400, true),
    ("negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400, true),
    (
        "length twice",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        400,
        true,
    ),
    ("length list", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1,1\r\n\r\nx", 400, true),
    (
        "length over u64",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n",
        400,
        true,
    ),
    (
        "length u64::MAX",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\n",
        413,
        true,
    ),
    (
        "length and chunked",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        true,
    ),
    ("chunked in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, true),
    (
        "gzip coding",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        501,
        true,
    ),
    (
        "unknown coding",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
        501,
        true,
    ),
    (
        "chunked twice",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
        400,
        true,
    ),
    (
        "chunked",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n1;x=y\r\na\r\n0\r\nT: u\r\n\r\n",
        200,
        false,
    ),
    (
        "bad chunk size",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
        400,
        true,
    ),
    (
        "chunk longer than its size",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        400,
        true,
    ),
    (
        "chunk ends in LF",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\na\n0\n\n",
        400,
        true,
    ),
    (
        "chunk too large",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n",
        413,
        true,
    ),
    ("body too large", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n", 413, true),
    (
        "body too large for the route too",
        "POST /big HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n",
        413,
        true,
    ),
    (
        "body too large, not sent",
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 101\r\n\r\n",
        413,
        true,
    ),
    (
        "unwanted body, not sent",
        "POST /no HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
        404,
        true,
    ),
    (
        "unknown expectation",
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n",
        417,
        true,
    ),
];

fn limits() -> Limits {
    Limits {
        body_bytes_max: 100,
        head_bytes_max: 2048,
        headers_max: 10,
        target_bytes_max: 200,
        ..Limits::default()
    }
}

#[test]
fn each_case_has_its_answer() {
    let server = serve_with(router(), limits());
    for &(name, bytes, status, closes) in CASES {
        let mut client = Client::new(server.local_addr());
        let answer = client.send(bytes).answer().unwrap_or_else(|| panic!("{name}: no answer"));
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        if status >= 400 {
            let detail = answer.detail().unwrap_or_default();
            assert!(!detail.is_empty(), "{name}: {answer:?}");
        }
        let says_so = answer.header("connection") == Some("close");
        assert_eq!(says_so, closes, "{name}: {answer:?}");
        if closes {
            assert!(client.is_closed(), "{name}: still open");
        } else {
            let next = client
                .send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                .answer()
                .map(|answer| answer.status);
            assert_eq!(next, Some(200), "{name}: the next request");
        }
    }
}

#[test]
fn each_case_is_the_same_byte_by_byte() {
    let server = serve_with(router(), limits());
    for &(name, bytes, status, _) in CASES {
        let mut client = Client::new(server.local_addr());
        for byte in bytes.as_bytes() {
            client.send([*byte]);
        }
        let answer = client.answer().unwrap_or_else(|| panic!("{name}: no answer"));
        assert_eq!(answer.status, status, "{name}: {answer:?}");
    }
}

#[test]
fn what_is_too_large_says_so() {
    let server = serve_with(router(), limits());
    let long = "a".repeat(5000);
    for (request, status) in [
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", &long[..300]), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(11)), 431),
        (long.clone(), 400),
    ] {
        let mut client = Client::new(server.local_addr());
        assert_eq!(client.send(&request).answer().unwrap().status, status, "{}", &request[..40]);
        assert!(client.is_closed());
    }
}

/// An answer to a large body that is refused must not be lost in a reset.
#[test]
fn a_refused_upload_reads_its_answer() {
    let server = serve_with(router(), limits());
    let mut client = Client::new(server.local_addr());
    client
        .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n")
        .send(vec![b'x'; 3_000_000]);
    assert_eq!(client.answer().unwrap().status, 413);
    assert!(client.is_closed());
}

#[test]
fn answers_before_an_error_are_sent() {
    let server = serve_with(router(), limits());
    let mut client = Client::new(server.local_addr());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nBAD\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let statuses: Vec<u16> =
        std::iter::from_fn(|| client.answer()).map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 400]);
}

/// Values of `Host`, and whether they are valid (RFC 9110 7.2, RFC 3986 3.2.2).
const HOSTS: &[(&str, bool)] = &[
    ("a.test", true),
    ("a.test:80", true),
    ("a.test:", true),
    ("127.0.0.1:8080", true),
    ("[::1]", true),
    ("[::1]:80", true),
    ("[v1.a:b]", true),
    ("a%2eb", true),
    ("a_b~!$&'()*+,;=", true),
    ("", true),
    ("x:80a", false),
    ("x:-1", false),
    ("x:80:80", false),
    (":80", false),
    ("::1", false),
    ("[::1", false),
    ("[::1]a", false),
    ("[::1]:x", false),
    ("]x[", false),
    ("[zz]", false),
    ("[]", false),
    ("[v.a]", false),
    ("[v1.]", false),
    ("a%zz", false),
    ("a%2", false),
    ("a@b", false),
    ("a b", false),
    ("a/b", false),
    ("\u{e4}", false),
];

#[test]
fn only_a_valid_host_is_one() {
    let server = serve_with(router(), limits());
    for &(host, valid) in HOSTS {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = Client::new(server.local_addr()).send(request).answer().unwrap();
        assert_eq!(answer.status, if valid { 200 } else { 400 }, "{host:?}: {answer:?}");
        if host.is_empty() {
            continue;
        }
        // In a target of absolute form too, beside a valid header.
        let request = format!("GET http://{host}/ HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = Client::new(server.local_addr()).send(request).answer().unwrap();
        // Behind a slash is the path.
        let valid = valid || host == "a/b";
        assert_eq!(answer.status == 400, !valid, "target {host:?}: {answer:?}");
    }
}

/// What stands behind a chunk's size, and in the trailers, and whether it is valid (RFC 9112 7.1).
const CHUNKS: &[(&str, &str, bool)] = &[
    ("", "", true),
    (";a", "A: b\r\n", true),
    (";a=b;c=\"d;\\\" e\"", "A:\r\nB: \tc \r\n", true),
    (" ; a\t= b", "A: \u{e4}\r\n", true),
    (" junk", "", false),
    (" ", "", false),
    ("\t", "", false),
    (";", "", false),
    ("; ", "", false),
    (";=b", "", false),
    (";a=", "", false),
    (";a=\"b", "", false),
    (";a=\"b\"c", "", false),
    (";a=b c", "", false),
    (";a\0", "", false),
    ("", "ABC\r\n", false),
    ("", "A B: c\r\n", false),
    ("", "A : c\r\n", false),
    ("", ": c\r\n", false),
    ("", " A: c\r\n", false),
    ("", "A: b\0\r\n", false),
    ("", "A: b\n", false),
];

#[test]
fn only_valid_extensions_and_trailers_are_taken() {
    let server = serve_with(router(), limits());
    for &(extension, trailers, valid) in CHUNKS {
        let text = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
             2{extension}\r\nab\r\n0{extension}\r\n{trailers}\r\n"
        );
        let mut client = Client::new(server.local_addr());
        let answer = client.send(&text).answer().unwrap();
        assert_eq!(answer.status, if valid { 200 } else { 400 }, "{text:?}");
        assert!(!valid || answer.body == b"ab", "{text:?}");
    }
}
