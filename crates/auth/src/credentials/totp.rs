//! Codes of authenticator apps (TOTP, RFC 6238): six digits, SHA-1, 30 seconds, which is what all apps
//! support.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use marmota_model::{Error, ErrorKind, Result};
use totp_rs::{Builder, Secret, Totp};

use crate::credentials::token::random;

/// The number of recovery codes of a user.
const RECOVERY_CODES: usize = 10;

/// Returns a new secret of 160 bits, as base32.
pub(crate) fn new_secret() -> Result<String> {
    Ok(Secret::new_stack(random::<20>()?).to_base32())
}

/// Returns the generator of codes of a secret. One step before and after the current one is accepted,
/// for clocks that differ.
fn totp(secret: &str, issuer: &str, name: &str) -> Result<Totp> {
    let damaged = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Bug, "a stored secret of an authenticator app is damaged")
            .with_source(error.to_string())
    };
    let secret = Secret::try_from_base32(secret).map_err(|error| damaged(&error))?;
    let builder = Builder::new().with_secret(secret).with_skew(1);
    // The URL separates both by a colon.
    let builder = builder.with_account_name(name.replace(':', " "));
    let builder = builder.with_issuer(Some(issuer.replace(':', " ")));
    builder.build().map_err(|error| damaged(&error))
}

/// Returns the URL that an app reads as a QR code.
pub(crate) fn url(secret: &str, issuer: &str, name: &str) -> Result<String> {
    totp(secret, issuer, name)?.to_url().map_err(|error| {
        Error::new(ErrorKind::Invalid, "the name is not possible in an authenticator app")
            .with_source(error.to_string())
    })
}

/// Returns a URL as a QR code: an image in SVG.
///
/// # Errors
/// [`ErrorKind::Bug`] for a URL that is too long for a code.
pub(crate) fn qr_code(url: &str) -> Result<String> {
    let code = qrcode::QrCode::new(url).map_err(|error| {
        Error::new(ErrorKind::Bug, "a QR code could not be made").with_source(error.to_string())
    })?;
    Ok(code.render::<qrcode::render::svg::Color<'_>>().min_dimensions(200, 200).build())
}

/// Returns the time step of a code; `None` if it is wrong.
pub(crate) fn step_of(secret: &str, code: &str, seconds: u64) -> Result<Option<i64>> {
    let code: String = code.chars().filter(|char| !char.is_whitespace()).take(7).collect();
    let step = totp(secret, "-", "-")?.check(&code, seconds);
    Ok(step.and_then(|step| i64::try_from(step).ok()))
}

/// Returns new recovery codes: 90 random bits each, as three groups of five characters.
pub(crate) fn recovery_codes() -> Result<Vec<String>> {
    let code = |_| {
        let bytes = random::<12>()?;
        let text = URL_SAFE_NO_PAD.encode(bytes);
        // Letters and digits are easier to type than signs, and cost less than a bit each.
        let text = text.replace(['-', '_'], "x");
        Ok(format!("{}-{}-{}", &text[..5], &text[5..10], &text[10..15]))
    };
    (0..RECOVERY_CODES).map(code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of the test vectors of RFC 6238, `12345678901234567890`.
    const SECRET: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

    #[test]
    fn codes_are_those_of_the_standard() {
        // The last six digits of the vectors in appendix B.
        for (seconds, code) in
            [(59, "287082"), (1_111_111_109, "081804"), (20_000_000_000, "353130")]
        {
            let step = i64::try_from(seconds / 30).unwrap();
            assert_eq!(step_of(SECRET, code, seconds).unwrap(), Some(step));
            assert_eq!(step_of(SECRET, code, seconds + 30).unwrap(), Some(step));
            assert_eq!(step_of(SECRET, code, seconds + 60).unwrap(), None);
        }
        for wrong in ["", "28708", "2870820", "287 083", "abcdef", "２８７０８２"] {
            assert_eq!(step_of(SECRET, wrong, 59).unwrap(), None, "{wrong}");
        }
        assert!(step_of(SECRET, "287 082", 59).unwrap().is_some());
    }

    #[test]
    fn a_url_names_the_program_and_the_user() {
        let url = url(SECRET, "Shop: test", "ann@example.org").unwrap();
        assert!(url.starts_with("otpauth://totp/"), "{url}");
        assert!(url.contains(SECRET) && url.contains("issuer=Shop"), "{url}");
    }

    #[test]
    fn recovery_codes_differ() {
        let mut codes = recovery_codes().unwrap();
        assert_eq!((codes.len(), codes[0].len()), (RECOVERY_CODES, 17));
        codes.sort();
        codes.dedup();
        assert_eq!(codes.len(), RECOVERY_CODES);
    }
}
