//! Providers with OAuth2 without OpenID Connect, such as GitHub: the person is read from the provider's
//! API, with the access token.

use marmota_auth::{ExternalIdentity, ProviderCode};
use marmota_model::Result;
use serde_json::Value;

use crate::http_client::{HttpClient, failed};
use crate::open_id::exchange;

/// A provider with OAuth2.
pub(crate) struct PlainOauth {
    pub(crate) authorize_url: String,
    pub(crate) token_url: String,
    /// Where the person is read.
    pub(crate) user_url: String,
    /// Where the mail addresses are read, as a list of objects with `email`, `primary` and `verified`.
    pub(crate) emails_url: Option<String>,
    /// The member of the person that has the id.
    pub(crate) subject: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<String>,
}

impl PlainOauth {
    /// Exchanges a code, and reads the person.
    pub(crate) fn identity(
        &self,
        client: &HttpClient,
        code: &ProviderCode<'_>,
    ) -> Result<ExternalIdentity> {
        let (id, secret) = (self.client_id.as_str(), self.client_secret.as_deref());
        let answer = exchange(client, &self.token_url, id, secret, true, code)?;
        let token = answer.get("access_token").and_then(Value::as_str);
        let token = token.ok_or_else(|| failed(&self.token_url, "it answered without a token"))?;
        let person = client.get(&self.user_url, Some(token))?;
        let subject = match person.get(&self.subject) {
            Some(Value::String(subject)) if !subject.is_empty() => subject.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => {
                let why = format!("its answer has no member `{}`", self.subject);
                return Err(failed(&self.user_url, &why));
            }
        };
        let (email, email_is_verified) = match &self.emails_url {
            Some(url) => primary(&client.get(url, Some(token))?),
            None => {
                let email = person.get("email").and_then(Value::as_str);
                let is_verified = person.get("email_verified") == Some(&Value::Bool(true));
                (email.map(str::to_owned), is_verified)
            }
        };
        let issuer = self.authorize_url.clone();
        Ok(ExternalIdentity { issuer, subject, email, email_is_verified })
    }
}

/// Returns the primary address of a list, and whether it is verified.
fn primary(emails: &Value) -> (Option<String>, bool) {
    let is = |one: &Value, name: &str| one.get(name) == Some(&Value::Bool(true));
    let one = emails.as_array().and_then(|all| all.iter().find(|one| is(one, "primary")));
    let email = one.and_then(|one| one.get("email")?.as_str()).map(str::to_owned);
    (email, one.is_some_and(|one| is(one, "verified")))
}
