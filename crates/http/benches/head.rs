//! The head parser beside httparse, the usual choice, on the request that servers are compared
//! by. Both do what a server needs: here framing and persistence come with the parse, there a
//! pass over the headers follows it.
//!
//! `cargo bench -p marmota-http` prints times; on a busy machine count instructions instead:
//! `valgrind --tool=callgrind <binary> ours 100000` and the same with `httparse`.

use std::hint::black_box;
use std::time::Instant;

use marmota_http::head::{Head, HeadLimits};

const REQUEST: &[u8] = b"GET /plaintext HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\
Accept: text/plain,text/html;q=0.9,application/xhtml+xml;q=0.9,application/xml;q=0.8,*/*;q=0.7\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
Connection: keep-alive\r\n\r\n";

const LIMITS: HeadLimits =
    HeadLimits { bytes_max: 16_384, headers_max: 32, target_bytes_max: 8_192 };

fn ours(head: &mut Head) -> bool {
    head.parse(black_box(REQUEST), 0, &LIMITS) == Ok(true) && head.keep_alive
}

fn theirs() -> bool {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    if !request.parse(black_box(REQUEST)).is_ok_and(|status| status.is_complete()) {
        return false;
    }
    let (mut hosts, mut keep_alive, mut framed) = (0, true, false);
    for header in request.headers.iter() {
        match header.name.len() {
            4 if header.name.eq_ignore_ascii_case("host") => hosts += 1,
            10 if header.name.eq_ignore_ascii_case("connection") => {
                keep_alive = !header.value.eq_ignore_ascii_case(b"close");
            }
            14 => framed |= header.name.eq_ignore_ascii_case("content-length"),
            17 => framed |= header.name.eq_ignore_ascii_case("transfer-encoding"),
            _ => {}
        }
    }
    hosts == 1 && keep_alive && !framed
}

fn time(name: &str, count: u32, mut parse: impl FnMut() -> bool) {
    let begun = Instant::now();
    let good = (0..count).filter(|_| parse()).count();
    let each = begun.elapsed().as_nanos() / u128::from(count.max(1));
    println!("{name:10} {each:5} ns a head of {} bytes ({good} parsed)", REQUEST.len());
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let only = arguments.first().map_or("", String::as_str);
    let count = arguments.get(1).and_then(|count| count.parse().ok()).unwrap_or(2_000_000);
    let mut head = Head::default();
    if only != "httparse" {
        time("ours", count, || ours(&mut head));
    }
    if only != "ours" {
        time("httparse", count, theirs);
    }
}
