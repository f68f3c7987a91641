//! The encryption of the memory engine's files: ChaCha20-Poly1305 with a separate key for each
//! file, and the numbers of its messages as nonces. `file_encryption.rs` determines the encrypted
//! files and their keys.

use argon2::Argon2;
use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce, Tag};
use hkdf::Hkdf;
use marmota_model::{Error, ErrorKind, Result};
use marmota_store::key::KeyBytes;
use sha2::Sha256;

use crate::encryption::seal::{SEAL_BYTES, TAG_BYTES, Use};

pub(crate) const SALT_BYTES: usize = 16;
const SEGMENT_BYTES: usize = SEAL_BYTES - SALT_BYTES - TAG_BYTES;

/// The cipher for the messages of one file.
pub(crate) struct Cipher {
    aead: ChaCha20Poly1305,
    salt: [u8; SALT_BYTES],
    segment: [u8; SEGMENT_BYTES],
}

impl Cipher {
    pub(crate) fn new(
        master: &KeyBytes,
        for_use: Use,
        salt: [u8; SALT_BYTES],
        segment: [u8; SEGMENT_BYTES],
    ) -> Self {
        let info: &[u8] = match for_use {
            Use::Snapshot => b"marmota memory engine, snapshot, 1",
            Use::Log => b"marmota memory engine, log, 1",
        };
        let mut key = KeyBytes::default();
        let expanded = Hkdf::<Sha256>::new(Some(&segment), &master[..]).expand(info, &mut key[..]);
        // It can derive up to 8,160 bytes.
        debug_assert!(expanded.is_ok());
        Self { aead: ChaCha20Poly1305::new((&*key).into()), salt, segment }
    }

    /// Returns the seal after the head of a file, which is message 0.
    pub(crate) fn seal_head(&self, head: &[u8]) -> [u8; SEAL_BYTES] {
        let mut seal = [0; SEAL_BYTES];
        seal[..SALT_BYTES].copy_from_slice(&self.salt);
        seal[SALT_BYTES..][..SEGMENT_BYTES].copy_from_slice(&self.segment);
        let bound = [head, &self.salt].concat();
        seal[SALT_BYTES + SEGMENT_BYTES..].copy_from_slice(&self.seal(0, &bound, &mut []));
        seal
    }

    /// Encrypts a message in place. No two messages of a file may have the same number.
    pub(crate) fn seal(&self, number: u64, bound: &[u8], message: &mut [u8]) -> [u8; TAG_BYTES] {
        let sealed = self.aead.encrypt_inout_detached(&nonce(number), bound, message.into());
        // It fails for a message of 256 GiB, and all messages here are at most 1 GiB.
        debug_assert!(sealed.is_ok());
        sealed.unwrap_or_default().into()
    }

    /// Decrypts a message in place; its tag follows the message. Returns its length, or `None` if
    /// the message, its number or the bytes that it is bound to were changed.
    pub(crate) fn unseal(&self, number: u64, bound: &[u8], sealed: &mut [u8]) -> Option<usize> {
        let (message, tag) = sealed.split_last_chunk_mut::<TAG_BYTES>()?;
        let tag = Tag::from(*tag);
        let bytes = message.len();
        self.aead.decrypt_inout_detached(&nonce(number), bound, message.into(), &tag).ok()?;
        Some(bytes)
    }
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = Nonce::default();
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    nonce
}

/// Returns cryptographically secure random bytes.
///
/// # Errors
/// [`ErrorKind::Io`] if the system cannot provide them.
pub(crate) fn random<const BYTES: usize>() -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(ErrorKind::Io, format!("the system returned no random bytes: {error}"))
    })?;
    Ok(bytes)
}

/// Derives a key from a passphrase with Argon2id, which takes some 20 ms and 19 MiB.
pub(crate) fn derive(passphrase: &str, salt: &[u8; SALT_BYTES]) -> Result<KeyBytes> {
    let mut key = KeyBytes::default();
    let derived = Argon2::default().hash_password_into(passphrase.as_bytes(), salt, &mut key[..]);
    derived.map_err(|error| {
        Error::new(ErrorKind::Io, format!("no key can be derived from the passphrase: {error}"))
    })?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cipher(for_use: Use, segment: u8) -> Cipher {
        Cipher::new(&KeyBytes::new([7; 32]), for_use, [1; SALT_BYTES], [segment; SEGMENT_BYTES])
    }

    #[test]
    fn a_message_opens_only_where_it_was_sealed() {
        let own = cipher(Use::Log, 1);
        let mut sealed = b"a message".to_vec();
        let tag = own.seal(3, b"here", &mut sealed);
        assert_ne!(sealed, b"a message");
        sealed.extend_from_slice(&tag);
        let open = |by: &Cipher, number, bound: &[u8], sealed: &[u8]| {
            let mut bytes = sealed.to_vec();
            let length = by.unseal(number, bound, &mut bytes)?;
            Some(bytes[..length].to_vec())
        };
        assert_eq!(open(&own, 3, b"here", &sealed).unwrap(), b"a message");
        assert!(open(&own, 4, b"here", &sealed).is_none());
        assert!(open(&own, 3, b"there", &sealed).is_none());
        assert!(open(&cipher(Use::Log, 2), 3, b"here", &sealed).is_none());
        assert!(open(&cipher(Use::Snapshot, 1), 3, b"here", &sealed).is_none());
        for at in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[at] ^= 0x40;
            assert!(open(&own, 3, b"here", &flipped).is_none(), "{at}");
            assert!(open(&own, 3, b"here", &sealed[..at]).is_none(), "{at}");
        }
    }
}
