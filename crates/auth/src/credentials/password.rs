//! Passwords as Argon2id hashes. Checking an unknown name takes the same time as a wrong password.
//!
//! The algorithm is Argon2id, version 1.3 (RFC 9106), with a random salt of 16 bytes; a hash is
//! stored as a PHC string, which has the parameters. So a changed cost applies to new hashes, and
//! old ones stay valid.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use marmota_model::{Error, ErrorKind, Result, Violation};

use crate::credentials::token::random;

/// The minimum length of a password in characters.
const CHARS_MIN: usize = 8;
/// The maximum length of a password in bytes.
const BYTES_MAX: usize = 1024;

/// Hashes and verifies passwords.
pub(crate) struct Passwords {
    /// The algorithm with the cost of the settings.
    argon2: Argon2<'static>,
    /// The hash to compare with if the user has none.
    nobodys: String,
}

impl Passwords {
    /// Creates the hasher; `memory_kib` is in KiB.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a cost that Argon2 does not permit.
    pub(crate) fn new(memory_kib: u32, passes: u32) -> Result<Self> {
        let params = Params::new(memory_kib, passes, 1, None).map_err(|error| {
            let message =
                format!("invalid cost of passwords: {memory_kib} KiB and {passes} passes");
            Error::new(ErrorKind::Invalid, message).with_source(error.to_string())
        })?;
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        // No password has this hash, and to compare with it costs as much as with any other. To
        // compute one would take time and memory at each start.
        let [salt, hash] = [encode(&random::<16>()?), encode(&random::<32>()?)];
        let nobodys = format!("$argon2id$v=19$m={memory_kib},t={passes},p=1${salt}${hash}");
        Ok(Self { argon2, nobodys })
    }

    /// Returns the hash of a new password.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it is too short or too long.
    pub(crate) fn hash(&self, password: &str) -> Result<String> {
        let fits = password.chars().count() >= CHARS_MIN && password.len() <= BYTES_MAX;
        if !fits {
            return Err(Error::invalid(vec![Violation {
                field: "password".to_owned(),
                value: "\"…\"".to_owned(),
                rule: "length".to_owned(),
                message: format!(
                    "must have at least {CHARS_MIN} characters and at most {BYTES_MAX} bytes"
                ),
            }]));
        }
        self.hash_of(password.as_bytes())
    }

    /// Hashes bytes of any length.
    fn hash_of(&self, password: &[u8]) -> Result<String> {
        let hash = self.argon2.hash_password_with_salt(password, &random::<16>()?);
        let hash = hash.map_err(|error| {
            Error::new(ErrorKind::Bug, "a password could not be hashed")
                .with_source(error.to_string())
        })?;
        Ok(hash.to_string())
    }

    /// Returns true if the password matches the hash; takes the same time without a hash.
    ///
    /// A longer password than permitted is compared as an empty one, so that its length does not
    /// cost time.
    pub(crate) fn suits(&self, password: &str, hash: Option<&str>) -> bool {
        let is_there = hash.is_some();
        let Ok(hash) = PasswordHash::new(hash.unwrap_or(&self.nobodys)) else { return false };
        let password = if password.len() <= BYTES_MAX { password.as_bytes() } else { b"" };
        self.argon2.verify_password(password, &hash).is_ok() && is_there
    }
}

/// Encodes bytes as PHC strings contain them.
fn encode(bytes: &[u8]) -> String {
    STANDARD_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_suits_its_hash_only() {
        let passwords = Passwords::new(64, 1).unwrap();
        let hash = passwords.hash("correct horse").unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=64,t=1,p=1$"), "{hash}");
        assert!(passwords.suits("correct horse", Some(&hash)));
        assert!(!passwords.suits("correct house", Some(&hash)));
        assert!(!passwords.suits("correct horse", None));
        // The comparison without a hash has the same cost.
        assert!(PasswordHash::new(&passwords.nobodys).is_ok(), "{}", passwords.nobodys);
        assert!(passwords.nobodys.starts_with("$argon2id$v=19$m=64,t=1,p=1$"));
        assert_eq!(passwords.nobodys.len(), hash.len());
        assert!(!passwords.suits("correct horse", Some("no hash")));
        assert_ne!(hash, passwords.hash("correct horse").unwrap());
        assert!(passwords.hash("short").is_err());
        assert!(passwords.hash(&"x".repeat(2000)).is_err());
    }
}
