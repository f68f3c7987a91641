//! Unit tests of the head parser.

use super::*;
use proptest::prelude::*;

const LIMITS: HeadLimits = HeadLimits { bytes_max: 1024, headers_max: 8, target_bytes_max: 64 };

fn parse(text: &[u8]) -> Result<Option<Head>, HeadError> {
    let mut head = Head::default();
    head.parse(text, 0, &LIMITS).map(|done| done.then_some(head))
}

#[test]
fn a_head_gives_its_parts() {
    let text = b"POST /a/b?c=d&e HTTP/1.1\r\nHost:h:80\r\nX-A: \t v w \t\r\ncontent-LENGTH: 12\r\nEmpty:\r\n\r\nrest";
    let head = parse(text).unwrap().unwrap();
    assert_eq!(head.method, Method::Post);
    assert_eq!(head.target.of(text), b"/a/b?c=d&e");
    assert_eq!(head.path.of(text), b"/a/b");
    assert_eq!(head.query.unwrap().of(text), b"c=d&e");
    let headers: Vec<_> =
        head.headers.iter().map(|h| (h.name.of(text), h.value.of(text))).collect();
    assert_eq!(headers[1], (&b"X-A"[..], &b"v w"[..]));
    assert_eq!(headers[3], (&b"Empty"[..], &b""[..]));
    assert_eq!(head.body, BodyLength::Exact(12));
    assert_eq!(&text[head.end..], b"rest");
    assert!(head.keep_alive);
}

#[test]
fn persistence_follows_version_and_connection() {
    let keep = |text: &str| parse(text.as_bytes()).unwrap().unwrap().keep_alive;
    assert!(keep("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(!keep("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n"));
    assert!(!keep("GET / HTTP/1.0\r\n\r\n"));
    assert!(keep("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    assert!(keep("GET / HTTP/1.7\r\nHost: a\r\n\r\n"));
}

#[test]
fn other_target_forms() {
    let path = |text: &str| {
        let head = parse(text.as_bytes()).unwrap().unwrap();
        String::from_utf8(head.path.of(text.as_bytes()).to_vec()).unwrap()
    };
    assert_eq!(path("GET http://a:1/b?c HTTP/1.1\r\nHost: a\r\n\r\n"), "/b");
    assert_eq!(path("GET HTTP://a?c/d HTTP/1.1\r\nHost: a\r\n\r\n"), "");
    assert_eq!(path("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), "");
    assert_eq!(path("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"), "");
    for bad in ["GET *", "GET a/b", "GET http:///b", "GET ftp://a/b", "GET /a#b", "GET /\u{e4}"] {
        assert_eq!(
            parse(format!("{bad} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).err(),
            Some(HeadError::Target),
            "{bad}"
        );
    }
}

#[test]
fn malformed_heads_are_refused() {
    use HeadError as E;
    for (text, error) in [
        ("G@T / HTTP/1.1\r\n", E::Method),
        (" GET / HTTP/1.1\r\n", E::Method),
        ("\nGET / HTTP/1.1\r\n", E::Method),
        ("\r\n\r\nGET / HTTP/1.1\r\n", E::Method),
        ("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", E::Method),
        ("GET  HTTP/1.1\r\n", E::Target),
        ("GET /\r\n", E::Target),
        ("GET / HTTP/1.1 \r\n", E::VersionMalformed),
        ("GET / http/1.1\r\n", E::VersionMalformed),
        ("GET / HTTP/11\r\n\r\n", E::VersionMalformed),
        ("GET / HTTP/2.0\r\n", E::VersionUnsupported),
        ("GET / HTTP/1.1\n", E::LineEnd),
        ("GET / HTTP/1.1\rX", E::LineEnd),
        ("GET / HTTP/1.1\r\n Host: a\r\n", E::Folded),
        ("GET / HTTP/1.1\r\nHost: a\r\n b\r\n", E::Folded),
        ("GET / HTTP/1.1\r\nHost : a\r\n", E::HeaderName),
        ("GET / HTTP/1.1\r\n: a\r\n", E::HeaderName),
        ("GET / HTTP/1.1\r\nHost\r\n", E::HeaderName),
        ("GET / HTTP/1.1\r\nH\0st: a\r\n", E::HeaderName),
        ("GET / HTTP/1.1\r\nHost: a\0b\r\n", E::HeaderValue),
        ("GET / HTTP/1.1\r\nX: 1234567\x7f\r\n", E::HeaderValue),
        ("GET / HTTP/1.1\r\nHost: a\n", E::LineEnd),
        ("GET / HTTP/1.1\r\nHost: a\rb\r\n", E::LineEnd),
        ("GET / HTTP/1.1\r\n\r\n", E::Host),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", E::Host),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", E::Host),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", E::Host),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", E::ContentLength),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", E::ContentLength),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", E::ContentLength),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            E::ContentLength,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
            E::ContentLength,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            E::TransferEncoding,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            E::TransferEncoding,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
            E::TransferEncoding,
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ,chunked\r\n\r\n", E::TransferEncoding),
        ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", E::TransferEncoding),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            E::TransferCoding,
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", E::TransferCoding),
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n", E::Expectation),
    ] {
        assert_eq!(parse(text.as_bytes()).err(), Some(error), "{}", text.escape_debug());
    }
}

#[test]
fn limits_hold() {
    let long = "a".repeat(2000);
    assert_eq!(parse(format!("GET /{long}").as_bytes()).err(), Some(HeadError::TargetTooLong));
    assert_eq!(
        parse(format!("GET /{}\\ HTTP/1.1\r\n", &long[..64]).as_bytes()).err(),
        Some(HeadError::TargetTooLong)
    );
    assert_eq!(
        parse(format!("GET /{}\x01", &long[..64]).as_bytes()).err(),
        Some(HeadError::TargetTooLong)
    );
    assert_eq!(
        parse(format!("GET /{} HTTP/1.1\r\n", &long[..64]).as_bytes()).err(),
        Some(HeadError::TargetTooLong)
    );
    assert_eq!(
        parse(format!("GET / HTTP/1.1\r\nX: {long}").as_bytes()).err(),
        Some(HeadError::TooLarge)
    );
    assert_eq!(
        parse(format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(9)).as_bytes()).err(),
        Some(HeadError::TooLarge)
    );
}

proptest! {
    /// Any part of a head that arrives first leads to the same verdict as if the whole had
    /// come at once: a part is either incomplete or already refused for the same reason.
    #[test]
    fn a_part_never_contradicts_the_whole(text in "(\r\n)?[A-Z@]{1,5} /[a-z?%#]{0,8} HTTP/[12]\\.[01]\r?\n?(Host: a\r\n)?([A-Za-z ]{0,4}:[ a-z\t\x00\r]{0,12}\r?\n){0,3}\r\n(body)?",
                                          cut in any::<proptest::sample::Index>()) {
        let bytes = text.as_bytes();
        let whole = parse(bytes);
        let cut = cut.index(bytes.len() + 1);
        match parse(&bytes[..cut]) {
            Ok(None) => {}
            Ok(Some(part)) => prop_assert_eq!(part.end, whole.unwrap().unwrap().end),
            Err(error) => prop_assert_eq!(whole.err(), Some(error)),
        }
    }

    /// The second request of a pipeline gives the same, whether its header lines repeat those
    /// of the first or not.
    #[test]
    fn a_pipeline_gives_what_each_gives(first in "GET /[a-z]{0,4} HTTP/1\\.[01]\r\n(Host: a\r\n)?(A: b\r\n){0,2}(Connection: close\r\n)?\r\n",
                                        line in "POST /[a-z?]{0,8} HTTP/1\\.[01]\r\n",
                                        other in "(Host: a\r\n)?(A: b\r\n){0,3}\r\n", same in any::<bool>(), cut in 0usize..3) {
        let lines = if same { first.split_once("\r\n").map_or("", |(_, lines)| lines) } else { &other };
        let both = format!("{first}{line}{lines}");
        let both = &both.as_bytes()[..both.len() - cut];
        let mut head = Head::default();
        prop_assume!(head.parse(both, 0, &LIMITS) == Ok(true));
        let (mut fresh, from) = (Head::default(), head.end);
        let verdict = head.parse(both, from, &LIMITS);
        prop_assert_eq!(verdict, fresh.parse(both, from, &LIMITS));
        if verdict == Ok(true) {
            prop_assert_eq!(format!("{head:?}"), format!("{fresh:?}"));
        }
    }

    /// No bytes at all make the parser panic or read outside of them.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
    }
}

#[test]
fn words_and_tables_agree_on_every_byte() {
    for byte in 0..=255u8 {
        for place in 0..8 {
            let mut word = *b"Abcd-xyZ";
            word[place] = byte;
            let hit = super::scan::not_letter_or_dash(u64::from_le_bytes(word));
            let expected = !(byte.is_ascii_alphabetic() || byte == b'-');
            assert_eq!(hit, u64::from(expected) << (place * 8 + 7), "{byte} at {place}");
            let mut text = *b"a value of more than 32 bytes, with this one: .";
            for place in [0, 7, 31, 32, 46] {
                text[place] = byte;
                let control = byte < 0x20 || byte == 0x7f;
                assert_eq!(
                    super::scan::control(&text, 0),
                    if control { place } else { text.len() }
                );
                text[place] = b'.';
            }
        }
    }
}
