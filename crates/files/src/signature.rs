//! Signatures of URLs: an HMAC over the path and the time of expiry.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;

/// Returns the signature of a path until a time (seconds since 1970), in hexadecimal digits.
pub(crate) fn sign(key: &[u8; KEY_BYTES], path: &str, expires: u64) -> String {
    hex(&mac(key, path, expires).finalize().into_bytes())
}

/// Returns true if the signature belongs to the path and the time. The comparison takes the same
/// time for each signature of this length.
pub(crate) fn verify(key: &[u8; KEY_BYTES], path: &str, expires: u64, signature: &str) -> bool {
    from_hex(signature).is_some_and(|bytes| mac(key, path, expires).verify_slice(&bytes).is_ok())
}

fn mac(key: &[u8; KEY_BYTES], path: &str, expires: u64) -> Hmac<Sha256> {
    // Each length of a key is valid.
    let mut mac = match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC accepts keys of any length"),
    };
    mac.update(b"marmota-file-url-1\n");
    mac.update(&expires.to_be_bytes());
    mac.update(path.as_bytes());
    mac
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the bytes of hexadecimal digits; `None` for other texts.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_for_one_path_and_time() {
        let key = [7; KEY_BYTES];
        let signature = sign(&key, "/api/issue/1/attachment", 100);
        assert!(verify(&key, "/api/issue/1/attachment", 100, &signature));
        assert!(!verify(&key, "/api/issue/2/attachment", 100, &signature));
        assert!(!verify(&key, "/api/issue/1/attachment", 101, &signature));
        assert!(!verify(&[8; KEY_BYTES], "/api/issue/1/attachment", 100, &signature));
        for wrong in ["", "0", "zz", "é", &signature[2..]] {
            assert!(!verify(&key, "/api/issue/1/attachment", 100, wrong), "{wrong}");
        }
    }
}
