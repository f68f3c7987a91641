//! The head parser: no panic, ranges inside the buffer, and prefixes that agree with the whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use marmota_http::head::{Head, HeadLimits};

const LIMITS: HeadLimits = HeadLimits { bytes_max: 4096, headers_max: 32, target_bytes_max: 1024 };

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let mut head = Head::default();
    let whole = head.parse(bytes, 0, &LIMITS);
    if whole == Ok(true) {
        assert!(head.end <= bytes.len());
        let spans = head.headers.iter().flat_map(|header| [header.name, header.value]);
        for span in spans.chain([head.target, head.path, head.method_span]).chain(head.query) {
            assert!(span.start <= span.end && span.end as usize <= head.end);
            assert!(!span.of(bytes).iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        }
    }
    // A parser that has parsed the first head parses the rest in the same way as a new one.
    if whole == Ok(true) {
        let (mut next, mut fresh) = (head.clone(), Head::default());
        let verdict = next.parse(bytes, head.end, &LIMITS);
        assert_eq!(verdict, fresh.parse(bytes, head.end, &LIMITS));
        assert!(verdict != Ok(true) || (next.headers == fresh.headers && next.body == fresh.body));
    }
    let cut = usize::from(cut) % (bytes.len() + 1);
    let mut part = Head::default();
    match part.parse(&bytes[..cut], 0, &LIMITS) {
        Ok(false) => {}
        Ok(true) => {
            assert!(whole == Ok(true) && part.end == head.end && part.headers == head.headers)
        }
        Err(error) => assert_eq!(whole, Err(error)),
    }
});
