//! The secret of a webhook, and the signature of a request (Standard Webhooks 1.0).

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use marmota_model::{Error, ErrorKind, Result};
use sha2::Sha256;

/// The text before the base64 of a secret.
const PREFIX: &str = "whsec_";
/// The permitted lengths of a key in bytes.
const BYTES_MIN: usize = 24;
const BYTES_MAX: usize = 64;

/// The secret of a webhook: 24 to 64 random bytes, as text `whsec_` and their base64. The receiver
/// has the same one, and verifies signatures with it. `Debug` does not show it.
///
/// ```
/// use marmota_webhooks::WebhookSecret;
/// let secret = WebhookSecret::generate()?;
/// assert_eq!(secret.to_text().parse::<WebhookSecret>()?, secret);
/// assert!("whsec_c2hvcnQ=".parse::<WebhookSecret>().is_err());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    /// Creates a secret of 32 random bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the system has no random bytes.
    pub fn generate() -> Result<Self> {
        let mut bytes = vec![0; 32];
        getrandom::fill(&mut bytes).map_err(|error| {
            Error::new(ErrorKind::Io, format!("the system has no random bytes: {error}"))
        })?;
        Ok(Self(bytes))
    }

    /// Returns the text, which the receiver gets.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// Returns the value of the header `webhook-signature` for a request: of its id, its time in
    /// seconds since 1970, and its body.
    ///
    /// ```
    /// let secret: marmota_webhooks::WebhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?;
    /// let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
    /// assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            unreachable!("HMAC takes keys of all lengths")
        };
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl FromStr for WebhookSecret {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bytes = text.strip_prefix(PREFIX).and_then(|base64| STANDARD.decode(base64).ok());
        match bytes {
            Some(bytes) if (BYTES_MIN..=BYTES_MAX).contains(&bytes.len()) => Ok(Self(bytes)),
            // The text is not in the message: it may be a secret with a typing error.
            _ => {
                let message = format!(
                    "the secret of a webhook must be `{PREFIX}` and the base64 of {BYTES_MIN} to \
                     {BYTES_MAX} bytes; leave it out to have one generated"
                );
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}
