//! The verification of a signed token: its algorithm, key, issuer, audience and times.

use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header};
use marmota_model::{Error, ErrorKind, Result, Timestamp};
use serde_json::{Map, Value};

use crate::key_set::{KeyFor, KeySet};

/// The maximum length of a token in bytes.
const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// The difference of clocks that is permitted, in seconds.
const LEEWAY: i64 = 60;

/// What a token must have.
pub(crate) struct Expected<'e> {
    pub(crate) issuer: &'e str,
    pub(crate) audience: &'e str,
    pub(crate) algorithms: &'e [Algorithm],
}

/// Returns the head of a token, before it is verified.
///
/// # Errors
/// [`ErrorKind::Unauthenticated`] for a text that is not a token, or is too long.
pub(crate) fn head_of(token: &str) -> Result<Header> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(refused("is longer than 8 KiB"));
    }
    decode_header(token).map_err(|_| refused("is not valid"))
}

/// Verifies a token, and returns its claims; `None` if the keys have to be fetched first.
///
/// # Errors
/// [`ErrorKind::Unauthenticated`] for a token that is not valid.
pub(crate) fn verify(
    token: &str,
    expected: &Expected<'_>,
    keys: &KeySet,
    now: Timestamp,
) -> Option<Result<Map<String, Value>>> {
    let head = match head_of(token) {
        Ok(head) => head,
        Err(error) => return Some(Err(error)),
    };
    // Before a key is selected: neither `none` nor a secret of HMAC is ever compared with a public key.
    if !expected.algorithms.contains(&head.alg) {
        return Some(Err(refused("has an algorithm that is not permitted")));
    }
    let key = match keys.key(&head) {
        KeyFor::Known(key) => key,
        KeyFor::Fetch => return None,
        KeyFor::Unknown => return Some(Err(refused("has a key that its issuer does not have"))),
    };
    let mut validation = Validation::new(head.alg);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    validation.set_issuer(&[expected.issuer]);
    validation.set_audience(&[expected.audience]);
    // Checked below, with the clock of the settings.
    validation.validate_exp = false;
    let decoded = decode::<Map<String, Value>>(token, &key, &validation);
    Some(match decoded {
        Ok(decoded) => check_times(&decoded.claims, now).map(|()| decoded.claims),
        Err(error) => {
            use jsonwebtoken::errors::ErrorKind as Kind;
            Err(match error.kind() {
                Kind::InvalidIssuer => refused("has another issuer"),
                Kind::InvalidAudience => refused("is for another audience"),
                Kind::InvalidSignature => refused("has a wrong signature"),
                _ => refused("is not valid"),
            })
        }
    })
}

fn check_times(claims: &Map<String, Value>, now: Timestamp) -> Result<()> {
    let now = now.micros() / 1_000_000;
    let second = |name: &str| claims.get(name).and_then(Value::as_f64);
    #[allow(clippy::cast_precision_loss, reason = "seconds have 53 bits")]
    let (early, late) = ((now - LEEWAY) as f64, (now + LEEWAY) as f64);
    if second("exp").is_none_or(|end| end <= early) {
        return Err(refused("has expired"));
    }
    if ["nbf", "iat"].into_iter().filter_map(second).any(|begin| begin > late) {
        return Err(refused("is not valid yet"));
    }
    Ok(())
}

/// The error of a token.
#[cold]
pub(crate) fn refused(why: &str) -> Error {
    Error::new(ErrorKind::Unauthenticated, format!("the token of the issuer {why}"))
}
