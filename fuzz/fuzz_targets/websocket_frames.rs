//! The WebSocket decoder: no panic, no message above the limit, and the same result for any
//! division into pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use marmota_http::websocket::{Decoder, FrameError, Incoming};

const MESSAGE_MAX: usize = 4096;

fn in_pieces(bytes: &[u8], step: usize, compression: bool) -> (Vec<Incoming>, Option<FrameError>) {
    let mut decoder = Decoder::new(MESSAGE_MAX, compression);
    let (mut buffer, mut found) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(step) {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.decode(&buffer) {
                Ok((used, incoming)) => {
                    buffer.drain(..used);
                    let Some(incoming) = incoming else { break };
                    if let Incoming::Message(message) = &incoming {
                        assert!(message.as_bytes().len() <= MESSAGE_MAX);
                    }
                    found.push(incoming);
                }
                Err(fault) => return (found, Some(fault)),
            }
        }
    }
    (found, None)
}

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (step, compression, bytes) = input;
    let whole = in_pieces(bytes, bytes.len().max(1), compression);
    assert_eq!(whole, in_pieces(bytes, usize::from(step).max(1), compression));
});
