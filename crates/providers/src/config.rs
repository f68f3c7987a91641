//! The file of providers and issuers ([`ProviderFile`]). It has no secrets.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jsonwebtoken::Algorithm;
use marmota_auth::ProviderInfo;
use marmota_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde::Deserialize;

use crate::http_client::{HttpClient, check_url};
use crate::issuers::{SignedTokens, TokenIssuer};
use crate::key_set::{KeySet, name as algorithm_name};
use crate::open_id::OpenId;
use crate::plain_oauth::PlainOauth;
use crate::sign_in_providers::{Provider, ProviderKind, SignInProviders};

/// The maximum number of providers, and of issuers.
const ENTRIES_MAX: usize = 50;
/// The algorithms that are accepted by default.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

/// A file of providers and issuers, in TOML.
///
/// `[provider.NAME]` is a provider, with an `issuer` of OpenID Connect, or with the addresses of OAuth2, or
/// with `kind = "github"`. `[tokens.NAME]` is an issuer whose tokens are accepted as credentials. The
/// secret of a provider is the environment variable `MARMOTA_PROVIDER_NAME_SECRET`.
#[derive(Clone, Debug)]
pub struct ProviderFile {
    providers: SignInProviders,
    tokens: SignedTokens,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    provider: BTreeMap<String, ProviderEntry>,
    #[serde(default)]
    tokens: BTreeMap<String, TokenEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderEntry {
    title: Option<String>,
    kind: Option<String>,
    client_id: String,
    issuer: Option<String>,
    authorize_url: Option<String>,
    token_url: Option<String>,
    user_url: Option<String>,
    emails_url: Option<String>,
    subject: Option<String>,
    scopes: Option<Vec<String>>,
    algorithms: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    issuer: String,
    audience: String,
    algorithms: Option<Vec<String>>,
    keys_url: Option<String>,
    user_claim: Option<String>,
}

impl ProviderFile {
    /// Parses the text of a file. `secret` returns the value of an environment variable.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a file that is not valid, with the key at fault.
    pub fn parse(text: &str, secret: impl Fn(&str) -> Option<String>) -> Result<Self> {
        marmota_auth::install_algorithms();
        let document: Document = toml_edit::de::from_str(text)
            .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        if document.provider.len().max(document.tokens.len()) > ENTRIES_MAX {
            return Err(invalid("the file", &format!("may have {ENTRIES_MAX} entries of a kind")));
        }
        let client = HttpClient::new();
        let all = document.provider.into_iter();
        let all = all.map(|(name, entry)| entry.provider(name, &secret)).collect::<Result<_>>()?;
        let tokens = document.tokens.into_iter();
        let tokens =
            tokens.map(|(name, entry)| entry.issuer(&name, &client)).collect::<Result<_>>()?;
        let providers = SignInProviders { all: Arc::new(all), client };
        Ok(Self { providers, tokens: SignedTokens(Arc::new(tokens)) })
    }

    /// Reads a file, and the secrets from the environment.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if it cannot be read, otherwise as [`ProviderFile::parse`].
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let message = format!("cannot read the providers in {}: {error}", path.display());
            Error::new(ErrorKind::Io, message)
        })?;
        let secret = |name: &str| std::env::var(name).ok().filter(|secret| !secret.is_empty());
        Self::parse(&text, secret).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("{}: {}", path.display(), error.message()))
        })
    }

    /// Returns the providers, for [`marmota_auth::Settings::providers`].
    #[must_use]
    pub fn providers(&self) -> SignInProviders {
        self.providers.clone()
    }

    /// Returns the issuers, for [`marmota_auth::Settings::token_issuers`].
    #[must_use]
    pub fn token_issuers(&self) -> SignedTokens {
        self.tokens.clone()
    }

    /// Returns true if the file has providers.
    #[must_use]
    pub fn has_providers(&self) -> bool {
        !self.providers.all.is_empty()
    }

    /// Returns true if the file has issuers.
    #[must_use]
    pub fn has_token_issuers(&self) -> bool {
        !self.tokens.0.is_empty()
    }
}

impl ProviderEntry {
    fn provider(self, name: String, secret: &impl Fn(&str) -> Option<String>) -> Result<Provider> {
        let at = format!("provider.{name}");
        let is_name = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        if name.is_empty() || name.len() > 40 || !name.chars().all(is_name) {
            return Err(invalid(&at, "must have a name of 1 to 40 lower-case letters and digits"));
        }
        let variable = format!("MARMOTA_PROVIDER_{}_SECRET", name.to_uppercase());
        let (client_id, client_secret) = (self.client_id, secret(&variable));
        let github = match self.kind.as_deref() {
            None => false,
            Some("github") => true,
            Some(_) => return Err(invalid(&format!("{at}.kind"), "must be \"github\" or missing")),
        };
        let preset = |url: &str| github.then(|| url.to_owned());
        let authorize = self.authorize_url.or(preset("https://github.com/login/oauth/authorize"));
        let (kind, scopes) = match (self.issuer, authorize) {
            (Some(issuer), None) => {
                check(&format!("{at}.issuer"), &issuer)?;
                let algorithms = algorithms(&at, self.algorithms)?;
                let (keys, discovery) = (KeySet::new(), Mutex::new(None));
                let one = OpenId { issuer, client_id, client_secret, algorithms, discovery, keys };
                (ProviderKind::OpenId(one), "openid email")
            }
            (None, Some(authorize_url)) => {
                let needed = |key: &str, url: Option<String>| {
                    let missing = || invalid(&at, &format!("needs `{key}`"));
                    let url = url.ok_or_else(missing)?;
                    check(&format!("{at}.{key}"), &url)?;
                    Ok::<_, Error>(url)
                };
                let token_url =
                    self.token_url.or(preset("https://github.com/login/oauth/access_token"));
                let user_url = self.user_url.or(preset("https://api.github.com/user"));
                let emails_url = self.emails_url.or(preset("https://api.github.com/user/emails"));
                let one = PlainOauth {
                    authorize_url: needed("authorize_url", Some(authorize_url))?,
                    token_url: needed("token_url", token_url)?,
                    user_url: needed("user_url", user_url)?,
                    emails_url: emails_url
                        .map(|url| needed("emails_url", Some(url)))
                        .transpose()?,
                    subject: self.subject.unwrap_or_else(|| "id".to_owned()),
                    client_id,
                    client_secret,
                };
                (ProviderKind::Plain(one), if github { "read:user user:email" } else { "" })
            }
            _ => {
                let message = "needs either `issuer`, or `authorize_url`, `token_url` and `user_url`, \
                               or `kind = \"github\"`";
                return Err(invalid(&at, message));
            }
        };
        let scopes = self.scopes.map_or_else(|| scopes.to_owned(), |scopes| scopes.join(" "));
        let title = self.title.unwrap_or_else(|| name.clone());
        Ok(Provider { info: ProviderInfo { name, title }, scopes, kind })
    }
}

impl TokenEntry {
    fn issuer(self, name: &str, client: &HttpClient) -> Result<TokenIssuer> {
        let at = format!("tokens.{name}");
        let Self { issuer, audience, keys_url, user_claim, .. } = self;
        check(&format!("{at}.issuer"), &issuer)?;
        if let Some(url) = &keys_url {
            check(&format!("{at}.keys_url"), url)?;
        }
        if audience.is_empty() {
            return Err(invalid(&format!("{at}.audience"), "must not be empty"));
        }
        let algorithms = algorithms(&at, self.algorithms)?;
        let (keys, discovery, client) = (KeySet::new(), Mutex::new(None), client.clone());
        Ok(TokenIssuer {
            issuer,
            audience,
            algorithms,
            keys_url,
            user_claim,
            keys,
            discovery,
            client,
        })
    }
}

/// Returns the algorithms of these names; all without any.
fn algorithms(at: &str, names: Option<Vec<String>>) -> Result<Vec<Algorithm>> {
    let Some(names) = names else { return Ok(ALGORITHMS.to_vec()) };
    let named = |name: &String| ALGORITHMS.into_iter().find(|one| algorithm_name(*one) == name);
    let known: Option<Vec<_>> = names.iter().map(named).collect();
    known.filter(|known| !known.is_empty()).ok_or_else(|| {
        invalid(&format!("{at}.algorithms"), "must be a list of RS256, ES256 and EdDSA")
    })
}

fn check(at: &str, url: &str) -> Result<()> {
    check_url(url).map(drop).map_err(|error| invalid(at, error.message()))
}

fn invalid(at: &str, message: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("{at}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_file_is_refused_with_the_key() {
        for (text, part) in [
            ("[provider.x]\nclient_id = '1'", "needs either `issuer`"),
            ("[provider.x]\nclient_id = '1'\nclient_secret = '2'", "client_secret"),
            ("[provider.x]\nclient_id = '1'\nissuer = 'http://a.example'", "provider.x.issuer"),
            ("[provider.X]\nclient_id = '1'\nissuer = 'https://a.example'", "lower-case"),
            ("[provider.x]\nclient_id = '1'\nkind = 'y'", "provider.x.kind"),
            ("[provider.x]\nclient_id = '1'\nauthorize_url = 'https://a.example'", "token_url"),
            ("[tokens.x]\nissuer = 'https://a.example'", "audience"),
            (
                "[tokens.x]\nissuer = 'https://a.example'\naudience = 'b'\nalgorithms = ['HS256']",
                "tokens.x.algorithms",
            ),
        ] {
            let error = ProviderFile::parse(text, |_| None).unwrap_err();
            assert!(error.message().contains(part), "{text}: {error}");
        }
        let github =
            ProviderFile::parse("[provider.github]\nkind='github'\nclient_id='1'", |_| None);
        assert!(github.unwrap().has_providers());
    }
}
