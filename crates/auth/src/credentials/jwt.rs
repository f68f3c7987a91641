//! JWTs: signed references to sessions, valid for a short time and as long as the session.
//!
//! Only HS256 is accepted: a token with another algorithm is refused before a key is selected. The
//! library uses the cryptography of a process-wide provider; ours has this one algorithm, and is
//! installed only if the program has not installed another.
//!
//! The format is that of RFC 7519 in the compact form of RFC 7515:
//!
//! ```text
//!  {"typ":"JWT","alg":"HS256"} . {"iss":"marmota","sub":"7","sid":"…","iat":…,"exp":…} . HMAC-SHA-256
//! ```
//!
//! `sid` is the hash of the session's token, by which the session is found. So a JWT is no better
//! than its session: it is refused once that has ended.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error as JwtError, ErrorKind as JwtKind};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use marmota_model::{Error, ErrorKind, Result, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::credentials::token::TokenHash;

/// The claim `iss`, which has to match.
const ISSUER: &str = "marmota";
/// The minimum length of a secret: that of the hash (RFC 7518, 3.2).
const SECRET_BYTES_MIN: usize = 32;

/// The claims of a JWT; times are in seconds since 1970 (UTC).
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    /// [`ISSUER`].
    iss: String,
    /// The user's id.
    sub: String,
    /// The hash of the session's token.
    sid: String,
    /// The time of creation.
    iat: i64,
    /// The expiry.
    exp: i64,
}

/// Creates and verifies JWTs.
pub(crate) struct Jwts {
    encoding: EncodingKey,
    decoding: DecodingKey,
    validation: Validation,
    age: Duration,
}

impl Jwts {
    /// Creates the keys from a secret of at least 32 bytes. `age` is the time for which a JWT is
    /// valid.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a secret that is too short.
    pub(crate) fn new(secret: &[u8], age: Duration) -> Result<Self> {
        if secret.len() < SECRET_BYTES_MIN {
            let message =
                format!("the secret for JWTs must have at least {SECRET_BYTES_MIN} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        install_algorithms();
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_required_spec_claims(&["exp", "iss", "sub"]);
        validation.set_issuer(&[ISSUER]);
        // Checked in `read`, with the settings' clock.
        validation.validate_exp = false;
        let (encoding, decoding) =
            (EncodingKey::from_secret(secret), DecodingKey::from_secret(secret));
        Ok(Self { encoding, decoding, validation, age })
    }

    /// Returns a JWT for a session, and its expiry.
    pub(crate) fn make(
        &self,
        user: i64,
        session: TokenHash,
        now: Timestamp,
    ) -> Result<(String, Timestamp)> {
        let now_s = now.micros() / 1_000_000;
        let exp = now_s.saturating_add(i64::try_from(self.age.as_secs()).unwrap_or(i64::MAX));
        let claims = Claims {
            iss: ISSUER.to_owned(),
            sub: user.to_string(),
            sid: session.text(),
            iat: now_s,
            exp,
        };
        let jwt = encode(&Header::new(Algorithm::HS256), &claims, &self.encoding);
        let jwt = jwt.map_err(|error| {
            Error::new(ErrorKind::Bug, "a JWT could not be created").with_source(error.to_string())
        })?;
        Ok((jwt, Timestamp::from_micros(exp.saturating_mul(1_000_000)).unwrap_or_default()))
    }

    /// Returns the user and the session of a JWT, if it is valid.
    ///
    /// `None` for another algorithm, a wrong signature or issuer, and an expired one: callers learn
    /// no reason.
    pub(crate) fn read(&self, jwt: &str, now: Timestamp) -> Option<(i64, TokenHash)> {
        let claims = decode::<Claims>(jwt, &self.decoding, &self.validation).ok()?.claims;
        if claims.exp <= now.micros() / 1_000_000 {
            return None;
        }
        Some((claims.sub.parse().ok()?, TokenHash::from_text(&claims.sid)?))
    }
}

/// Installs the algorithms of this crate for the library `jsonwebtoken`, unless the program has installed
/// others: HS256, and with the feature `signatures` the verification of RS256, ES256 and EdDSA.
pub fn install_algorithms() {
    // Fails if another provider is installed; that one supports these algorithms, too.
    let _ = PROVIDER.install_default();
}

/// The provider of HS256 for the library `jsonwebtoken`.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| match algorithm {
        Algorithm::HS256 => Ok(Box::new(Hs256::new(key.as_bytes())?)),
        _ => Err(JwtError::from(JwtKind::InvalidAlgorithm)),
    },
    verifier_factory: |algorithm, key| match algorithm {
        Algorithm::HS256 => Ok(Box::new(Hs256::new(key.try_get_as_bytes()?)?)),
        #[cfg(feature = "signatures")]
        _ => crate::credentials::signatures::verifier(*algorithm, key),
        #[cfg(not(feature = "signatures"))]
        _ => Err(JwtError::from(JwtKind::InvalidAlgorithm)),
    },
    key_utils: KeyUtils::new_unimplemented(),
};

/// HMAC with SHA-256 (RFC 2104), as signer and verifier.
struct Hs256(Hmac<Sha256>);

impl Hs256 {
    /// Creates it from a secret of any length.
    fn new(secret: &[u8]) -> std::result::Result<Self, JwtError> {
        let hmac = Hmac::new_from_slice(secret);
        hmac.map(Self).map_err(|_| JwtError::from(JwtKind::InvalidKeyFormat))
    }
}

impl signature::Signer<Vec<u8>> for Hs256 {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, signature::Error> {
        Ok(self.0.clone().chain_update(message).finalize().into_bytes().to_vec())
    }
}

impl JwtSigner for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl signature::Verifier<Vec<u8>> for Hs256 {
    fn verify(
        &self,
        message: &[u8],
        signature: &Vec<u8>,
    ) -> std::result::Result<(), signature::Error> {
        let hmac = self.0.clone().chain_update(message);
        hmac.verify_slice(signature).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    #[test]
    fn only_what_was_signed_is_read() {
        let jwts = Jwts::new(&[7; 32], Duration::from_secs(60)).unwrap();
        let session = TokenHash::of("t");
        let (jwt, _) = jwts.make(5, session, Timestamp::now()).unwrap();
        assert_eq!(jwts.read(&jwt, Timestamp::now()), Some((5, session)));
        let parts: Vec<&str> = jwt.split('.').collect();
        let head = |json: &str| URL_SAFE_NO_PAD.encode(json);
        let other = Jwts::new(&[8; 32], Duration::from_secs(60)).unwrap();
        assert_eq!(other.read(&jwt, Timestamp::now()), None);
        for forged in [
            format!("{}.{}.", head(r#"{"alg":"none","typ":"JWT"}"#), parts[1]),
            format!("{}.{}.{}", head(r#"{"alg":"none","typ":"JWT"}"#), parts[1], parts[2]),
            format!("{}.{}.{}", head(r#"{"alg":"RS256","typ":"JWT"}"#), parts[1], parts[2]),
            format!("{}.{}.{}", head(r#"{"alg":"HS512","typ":"JWT"}"#), parts[1], parts[2]),
            format!("{}.{}.{}", parts[0], head(r#"{"iss":"marmota","sub":"1"}"#), parts[2]),
            format!("{}.{}", parts[0], parts[1]),
            String::new(),
            "..".to_owned(),
        ] {
            assert_eq!(jwts.read(&forged, Timestamp::now()), None, "{forged}");
        }
        // Changing any byte invalidates it.
        for at in 0..jwt.len() {
            let mut bytes = jwt.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let read = jwts.read(&String::from_utf8(bytes).unwrap(), Timestamp::now());
            // The last character of a signature has unused bits.
            assert!(read.is_none() || at == jwt.len() - 1, "at {at}");
        }
    }

    #[test]
    fn it_ends() {
        let jwts = Jwts::new(&[7; 32], Duration::ZERO).unwrap();
        let (jwt, _) = jwts.make(5, TokenHash::of("t"), Timestamp::now()).unwrap();
        std::thread::sleep(Duration::from_millis(1100));
        assert_eq!(jwts.read(&jwt, Timestamp::now()), None);
        assert!(Jwts::new(b"short", Duration::ZERO).is_err());
    }
}
