//! The chunked decoder: no panic, and the same result for any division into pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use marmota_http::chunked::{Chunked, ChunkedError};

const BODY_MAX: usize = 4096;
const OVERHEAD_MAX: usize = 256;

fn in_pieces(coded: &[u8], step: usize) -> Result<Option<(Vec<u8>, usize)>, ChunkedError> {
    let mut decoder = Chunked::new(BODY_MAX, OVERHEAD_MAX);
    let (mut buffer, mut taken) = (Vec::new(), 0);
    for piece in coded.chunks(step) {
        let mut at = buffer.len();
        buffer.extend_from_slice(piece);
        let before = at;
        let done = decoder.decode(&mut buffer, 0, &mut at)?;
        taken += at - before;
        buffer.truncate(decoder.decoded());
        assert!(decoder.decoded() <= BODY_MAX);
        if done {
            return Ok(Some((buffer, taken)));
        }
    }
    Ok(None)
}

fuzz_target!(|input: (u8, &[u8])| {
    let (step, coded) = input;
    let whole = in_pieces(coded, coded.len().max(1));
    assert_eq!(whole, in_pieces(coded, usize::from(step).max(1)));
});
