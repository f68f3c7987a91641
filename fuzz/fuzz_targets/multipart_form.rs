//! The multipart parser: no panic, and the same parts for any division into pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use marmota_http::multipart::{Parser, PartHead, Piece};

type Parts = Vec<(PartHead, Vec<u8>, bool)>;

fn in_pieces(body: &[u8], step: usize) -> Result<(Parts, bool), &'static str> {
    let mut parser = Parser::new("b")?;
    let (mut buffer, mut parts) = (Vec::new(), Parts::new());
    for piece in body.chunks(step) {
        buffer.extend_from_slice(piece);
        loop {
            let (used, piece) = parser.parse(&buffer)?;
            let more = piece == Piece::More;
            match piece {
                Piece::Head(head) => parts.push((head, Vec::new(), false)),
                Piece::Data(data) => {
                    assert!(!data.is_empty());
                    if let Some(part) = parts.last_mut() {
                        part.1.extend_from_slice(data);
                    }
                }
                Piece::PartEnd => {
                    if let Some(part) = parts.last_mut() {
                        part.2 = true;
                    }
                }
                Piece::End => return Ok((parts, true)),
                Piece::More => {}
            }
            buffer.drain(..used);
            if more {
                break;
            }
        }
    }
    Ok((parts, false))
}

fuzz_target!(|input: (u8, &[u8])| {
    let (step, body) = input;
    // The position at which a limit is exceeded may depend on the pieces.
    if body.len() < 4096 {
        let whole = in_pieces(body, body.len().max(1));
        assert_eq!(whole, in_pieces(body, usize::from(step).max(1)));
    }
});
