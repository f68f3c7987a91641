//! permessage-deflate (RFC 7692) without contexts that outlive a message (`no_context_takeover` on
//! both sides).
//!
//! A context takes some 300 KB for each connection. Without them the coders belong to the thread,
//! and a message that is sent to many clients is compressed once. The price is a lower ratio for
//! short messages that resemble each other.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::frame::FrameError;

/// The end of every compressed message, which is not transmitted (RFC 7692, 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];
/// The window of a client that does not limit it, in bits.
pub(super) const WINDOW_BITS: u8 = 15;
/// The smallest window of zlib, in bits.
const WINDOW_BITS_MIN: u8 = 9;
/// A shorter message is not compressed: it would hardly get shorter.
const MESSAGE_BYTES_MIN: usize = 128;
/// The first capacity for a decompressed message.
const PIECE_BYTES: usize = 16 * 1024;

thread_local! {
    /// One for each window size.
    static COMPRESS: RefCell<[Option<Compress>; 7]> = const { RefCell::new([const { None }; 7]) };
    static DECOMPRESS: RefCell<Option<Decompress>> = const { RefCell::new(None) };
}

/// Returns the result for the first acceptable offer of the client (`Sec-WebSocket-Extensions`):
/// the window that it allows for messages of the server, and the answer to it. An offer with an
/// unknown, repeated or invalid parameter is not acceptable (RFC 7692, 7.1).
pub(super) fn agree(offers: &str) -> Option<(u8, String)> {
    offers.split(',').find_map(|offer| {
        let mut parts = offer.split(';').map(str::trim);
        if parts.next() != Some("permessage-deflate") {
            return None;
        }
        let (mut window, mut seen) = (None, Vec::new());
        for part in parts {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name.trim(), Some(value.trim().trim_matches('"'))),
                None => (part, None),
            };
            if seen.contains(&name) {
                return None;
            }
            seen.push(name);
            let bits = || value?.parse::<u8>().ok().filter(|bits| (8..=15).contains(bits));
            match name {
                "server_no_context_takeover" | "client_no_context_takeover" => {
                    value.is_none().then_some(())?;
                }
                "client_max_window_bits" if value.is_none() => {}
                "client_max_window_bits" => {
                    bits()?;
                }
                // zlib has no window of 8 bits.
                "server_max_window_bits" => {
                    window = Some(bits().filter(|&bits| bits >= WINDOW_BITS_MIN)?);
                }
                _ => return None,
            }
        }
        let mut answer =
            "permessage-deflate; server_no_context_takeover; client_no_context_takeover".to_owned();
        if let Some(bits) = window {
            answer.push_str(&format!("; server_max_window_bits={bits}"));
        }
        Some((window.unwrap_or(WINDOW_BITS), answer))
    })
}

/// Compresses a message. Returns `None` if that does not make it shorter.
pub(super) fn deflate(message: &[u8], window_bits: u8) -> Option<Vec<u8>> {
    if message.len() < MESSAGE_BYTES_MIN {
        return None;
    }
    COMPRESS.with_borrow_mut(|coders| {
        let slot = coders.get_mut(usize::from(window_bits - WINDOW_BITS_MIN))?;
        let coder = slot.get_or_insert_with(|| {
            Compress::new_with_window_bits(Compression::fast(), false, window_bits)
        });
        coder.reset();
        // Nine bits for each byte are the most that it takes. A coder that is stopped in the midst
        // of a message is not fit for another.
        let mut coded = Vec::with_capacity(message.len() + message.len() / 7 + 64);
        let compressed = coder.compress_vec(message, &mut coded, FlushCompress::Sync);
        let whole = coder.total_in() as usize == message.len() && coded.len() < coded.capacity();
        if compressed.is_err() || !whole {
            *slot = None;
            return None;
        }
        coded.truncate(coded.len().checked_sub(TAIL.len())?);
        (coded.len() < message.len()).then_some(coded)
    })
}

/// Decompresses a message. Memory grows with the output, up to the limit: a small message that
/// expands to gigabytes is refused early.
///
/// # Errors
/// 1007 if it is malformed, 1009 if the result is longer than `bytes_max`.
pub(super) fn inflate(coded: &[u8], bytes_max: usize) -> Result<Vec<u8>, FrameError> {
    const BROKEN: FrameError =
        FrameError { code: 1007, reason: "a compressed message is malformed" };
    DECOMPRESS.with_borrow_mut(|decoder| {
        let decoder = decoder.get_or_insert_with(|| Decompress::new(false));
        decoder.reset(false);
        let mut message = Vec::new();
        for part in [coded, &TAIL] {
            let begun = decoder.total_in();
            loop {
                let used = (decoder.total_in() - begun) as usize;
                if message.len() == message.capacity() {
                    message.reserve(message.len().clamp(PIECE_BYTES.min(bytes_max + 1), 1 << 20));
                }
                let before = message.len();
                let status = decoder
                    .decompress_vec(&part[used..], &mut message, FlushDecompress::Sync)
                    .map_err(|_| BROKEN)?;
                if message.len() > bytes_max {
                    return Err(FrameError::TOO_LARGE);
                }
                match status {
                    Status::StreamEnd => return Ok(message),
                    _ if message.len() == message.capacity() => {}
                    _ if (decoder.total_in() - begun) as usize == part.len() => break,
                    _ if message.len() == before => return Err(BROKEN),
                    _ => {}
                }
            }
        }
        Ok(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_offer_that_can_be_taken_is() {
        let plain = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        for (offers, bits) in [
            ("permessage-deflate", Some(15)),
            ("permessage-deflate; client_max_window_bits", Some(15)),
            ("x-other, permessage-deflate;server_max_window_bits=10", Some(10)),
            ("permessage-deflate; server_max_window_bits=8, permessage-deflate", Some(15)),
            ("permessage-deflate; server_max_window_bits", None),
            ("permessage-deflate; client_max_window_bits=16", None),
            ("permessage-deflate; mystery", None),
            ("permessage-deflate; client_max_window_bits; client_max_window_bits", None),
            ("", None),
        ] {
            let agreed = agree(offers);
            assert_eq!(agreed.as_ref().map(|(bits, _)| *bits), bits, "{offers}");
            assert!(agreed.is_none_or(|(_, answer)| answer.starts_with(plain)));
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(40))]

        #[test]
        fn what_is_deflated_comes_back(
            bytes in proptest::collection::vec(0_u8..4, 0..6_000),
            bits in 9_u8..16,
        ) {
            if let Some(coded) = deflate(&bytes, bits) {
                proptest::prop_assert!(coded.len() < bytes.len());
                proptest::prop_assert_eq!(inflate(&coded, bytes.len()), Ok(bytes.clone()));
                proptest::prop_assert_eq!(inflate(&coded, bytes.len() - 1), Err(FrameError::TOO_LARGE));
            }
        }

        #[test]
        fn anything_is_inflated_or_refused(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..2_000),
        ) {
            if let Ok(message) = inflate(&bytes, 10_000) {
                proptest::prop_assert!(message.len() <= 10_000);
            }
        }
    }

    #[test]
    fn what_does_not_get_shorter_spoils_no_coder() {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        };
        for round in 0..2_000 {
            let noise: Vec<u8> = (0..256).map(|_| random()).collect();
            assert_eq!(deflate(&noise, WINDOW_BITS), None, "{round}");
            let text = "some text ".repeat(20 + round % 50);
            let coded = deflate(text.as_bytes(), WINDOW_BITS).unwrap();
            assert_eq!(inflate(&coded, 10_000).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn a_bomb_is_refused_early() {
        let coded = deflate(&vec![0; 64 << 20], WINDOW_BITS).unwrap();
        assert!(coded.len() < 1 << 20);
        assert_eq!(inflate(&coded, 1 << 20), Err(FrameError::TOO_LARGE));
    }
}
