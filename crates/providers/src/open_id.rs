//! Providers with OpenID Connect: the document of the issuer, and the exchange of a code for a signed
//! identity.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::Algorithm;
use marmota_auth::{ExternalIdentity, ProviderCode};
use marmota_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::http_client::{HttpClient, failed};
use crate::key_set::KeySet;
use crate::verify::{Expected, refused, verify};

/// The time for which the document of an issuer is kept.
const AGE_MAX: Duration = Duration::from_secs(3600);

/// What the document of an issuer states (`/.well-known/openid-configuration`).
#[derive(Clone)]
pub(crate) struct Discovery {
    pub(crate) authorize_url: String,
    pub(crate) token_url: String,
    pub(crate) keys_url: String,
    /// True if the secret is sent in the form instead of a header.
    secret_in_form: bool,
    at: Instant,
}

impl Discovery {
    /// Returns the document; reads it if it is missing or old. An old one is kept if that fails.
    pub(crate) fn current<'f>(
        found: &'f mut Option<Self>,
        client: &HttpClient,
        issuer: &str,
    ) -> Result<&'f Self> {
        if found.as_ref().is_none_or(|found| found.at.elapsed() >= AGE_MAX) {
            match (Self::read(client, issuer), found.as_mut()) {
                (Ok(read), _) => *found = Some(read),
                (Err(_), Some(old)) => old.at = Instant::now(),
                (Err(error), None) => return Err(error),
            }
        }
        found.as_ref().ok_or_else(|| failed(issuer, "it has no document"))
    }

    fn read(client: &HttpClient, issuer: &str) -> Result<Self> {
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let document = client.get(&url, None)?;
        let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("issuer") != issuer {
            let why = format!("its document is of the issuer {}", text("issuer"));
            return Err(failed(issuer, &why));
        }
        let methods = document.get("token_endpoint_auth_methods_supported");
        let methods = methods.and_then(Value::as_array);
        let has = |name: &str| methods.is_some_and(|all| all.iter().any(|one| one == name));
        Ok(Self {
            authorize_url: text("authorization_endpoint").to_owned(),
            token_url: text("token_endpoint").to_owned(),
            keys_url: text("jwks_uri").to_owned(),
            secret_in_form: has("client_secret_post") && !has("client_secret_basic"),
            at: Instant::now(),
        })
    }
}

/// A provider with OpenID Connect.
pub(crate) struct OpenId {
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<String>,
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) discovery: Mutex<Option<Discovery>>,
    pub(crate) keys: KeySet,
}

impl OpenId {
    pub(crate) fn discovery(&self, client: &HttpClient) -> Result<Discovery> {
        Discovery::current(&mut self.discovery.lock(), client, &self.issuer).cloned()
    }

    /// Exchanges a code, and verifies the token that the issuer returns for it.
    pub(crate) fn identity(
        &self,
        client: &HttpClient,
        code: &ProviderCode<'_>,
    ) -> Result<ExternalIdentity> {
        if code.issuer.is_some_and(|issuer| issuer != self.issuer) {
            return Err(refused("has another issuer"));
        }
        let found = self.discovery(client)?;
        let answer = exchange(
            client,
            &found.token_url,
            &self.client_id,
            self.client_secret.as_deref(),
            found.secret_in_form,
            code,
        )?;
        let token = answer.get("id_token").and_then(Value::as_str);
        let token =
            token.ok_or_else(|| failed(&found.token_url, "its answer has no `id_token`"))?;
        let claims = self.claims(client, &found, token, code)?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_owned);
        if text("nonce").as_deref() != Some(code.request.nonce) {
            return Err(refused("was made for another sign-in"));
        }
        // A token for several clients names the one that it was made for.
        let party = text("azp");
        let is_shared =
            claims.get("aud").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
        let is_other = party.as_ref().is_some_and(|party| *party != self.client_id);
        if is_other || (is_shared && party.is_none()) {
            return Err(refused("is for another audience"));
        }
        let subject = text("sub").filter(|subject| !subject.is_empty());
        Ok(ExternalIdentity {
            issuer: self.issuer.clone(),
            subject: subject.ok_or_else(|| refused("has no subject"))?,
            email: text("email"),
            email_is_verified: claims.get("email_verified") == Some(&Value::Bool(true)),
        })
    }

    fn claims(
        &self,
        client: &HttpClient,
        found: &Discovery,
        token: &str,
        code: &ProviderCode<'_>,
    ) -> Result<Map<String, Value>> {
        let Self { issuer, client_id: audience, algorithms, keys, .. } = self;
        let expected = Expected { issuer, audience, algorithms };
        if let Some(claims) = verify(token, &expected, keys, code.now) {
            return claims;
        }
        keys.fetch(client, &found.keys_url)?;
        let unknown = || Err(refused("has a key that its issuer does not have"));
        verify(token, &expected, keys, code.now).unwrap_or_else(unknown)
    }
}

/// Exchanges a code for tokens (RFC 6749, 4.1.3), with the verifier of PKCE (RFC 7636).
///
/// # Errors
/// [`ErrorKind::Unauthenticated`] if the provider refuses the code, and those of the connection.
pub(crate) fn exchange(
    client: &HttpClient,
    url: &str,
    client_id: &str,
    secret: Option<&str>,
    secret_in_form: bool,
    code: &ProviderCode<'_>,
) -> Result<Value> {
    let mut form = vec![
        ("grant_type", "authorization_code"),
        ("code", code.code),
        ("redirect_uri", code.request.redirect_url),
        ("code_verifier", code.request.verifier),
    ];
    let mut authorization = None;
    match secret {
        Some(secret) if !secret_in_form => {
            let encoded = |text: &str| -> String {
                form_urlencoded::byte_serialize(text.as_bytes()).collect()
            };
            let pair = format!("{}:{}", encoded(client_id), encoded(secret));
            authorization = Some(format!("Basic {}", STANDARD.encode(pair)));
        }
        secret => {
            form.push(("client_id", client_id));
            form.extend(secret.map(|secret| ("client_secret", secret)));
        }
    }
    let (status, answer) = client.post(url, &form, authorization.as_deref())?;
    // GitHub answers 200 with an error.
    match (answer.get("error").and_then(Value::as_str), status) {
        (None, 200..300) => Ok(answer),
        (Some("invalid_grant" | "bad_verification_code"), _) => {
            let message = "the provider has refused the code: it was used, or has expired";
            Err(Error::new(ErrorKind::Unauthenticated, message))
        }
        (error, status) => {
            let error = error.map(marmota_model::text::excerpt).unwrap_or_default();
            Err(failed(url, &format!("it answered the code with {status} {error}")))
        }
    }
}
