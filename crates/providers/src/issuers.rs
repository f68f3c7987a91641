//! [`SignedTokens`]: tokens that other issuers have signed, as credentials.

use std::sync::Arc;

use jsonwebtoken::Algorithm;
use jsonwebtoken::dangerous::insecure_decode;
use marmota_auth::{TokenIssuers, TokenUser};
use marmota_model::{Result, Timestamp};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::http_client::{HttpClient, failed};
use crate::key_set::KeySet;
use crate::open_id::Discovery;
use crate::verify::{Expected, head_of, refused, verify};

/// Verifies tokens of the issuers of a [`ProviderFile`](crate::ProviderFile).
#[derive(Clone)]
pub struct SignedTokens(pub(crate) Arc<Vec<TokenIssuer>>);

impl std::fmt::Debug for SignedTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|one| &one.issuer)).finish()
    }
}

/// An issuer whose tokens are accepted.
pub(crate) struct TokenIssuer {
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) algorithms: Vec<Algorithm>,
    /// The address of the keys; `None` to read it from the issuer's document.
    pub(crate) keys_url: Option<String>,
    /// The claim with the name or the mail address of the user; `None` for the account of the issuer
    /// with which the user signs in.
    pub(crate) user_claim: Option<String>,
    pub(crate) keys: KeySet,
    pub(crate) discovery: Mutex<Option<Discovery>>,
    pub(crate) client: HttpClient,
}

impl SignedTokens {
    /// Returns the issuer that a token names, before it is verified.
    fn issuer_of(&self, token: &str) -> Result<&TokenIssuer> {
        head_of(token)?;
        let claims = insecure_decode::<Map<String, Value>>(token);
        let claims = claims.map_err(|_| refused("is not valid"))?.claims;
        let issuer = claims.get("iss").and_then(Value::as_str).unwrap_or_default();
        let known = self.0.iter().find(|one| one.issuer == issuer);
        known.ok_or_else(|| refused("has another issuer"))
    }
}

impl TokenIssuers for SignedTokens {
    fn verify(&self, token: &str, now: Timestamp) -> Option<Result<(TokenUser, Timestamp)>> {
        let of = match self.issuer_of(token) {
            Ok(of) => of,
            Err(error) => return Some(Err(error)),
        };
        let TokenIssuer { issuer, audience, algorithms, .. } = of;
        let claims = verify(token, &Expected { issuer, audience, algorithms }, &of.keys, now)?;
        Some(claims.and_then(|claims| of.user_of(&claims)))
    }

    fn fetch_keys(&self, token: &str) -> Result<()> {
        let of = self.issuer_of(token)?;
        let url = match &of.keys_url {
            Some(url) => url.clone(),
            None => {
                let mut found = of.discovery.lock();
                Discovery::current(&mut found, &of.client, &of.issuer)?.keys_url.clone()
            }
        };
        if url.is_empty() {
            return Err(failed(&of.issuer, "its document has no `jwks_uri`"));
        }
        of.keys.fetch(&of.client, &url)
    }
}

impl TokenIssuer {
    /// Returns the user of a verified token, and its end.
    fn user_of(&self, claims: &Map<String, Value>) -> Result<(TokenUser, Timestamp)> {
        let text =
            |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        #[allow(clippy::cast_possible_truncation, reason = "`as` saturates")]
        let end = claims.get("exp").and_then(Value::as_f64).map_or(0, |end| end as i64);
        let end = Timestamp::from_micros(end.saturating_mul(1_000_000)).unwrap_or_default();
        let user = match &self.user_claim {
            None => {
                let subject = text("sub").ok_or_else(|| refused("has no subject"))?.to_owned();
                TokenUser::Identity { issuer: self.issuer.clone(), subject }
            }
            Some(claim) => {
                let name = text(claim).ok_or_else(|| refused("does not name its user"))?;
                let is_verified = claims.get("email_verified") == Some(&Value::Bool(true));
                if name.contains('@') && !is_verified {
                    return Err(refused("has a mail address that its issuer has not verified"));
                }
                TokenUser::Name(name.to_owned())
            }
        };
        Ok((user, end))
    }
}
