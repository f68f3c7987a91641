//! The interfaces of what talks to providers and verifies the tokens of other issuers, and their data.

use marmota_model::{Result, Timestamp};

/// A provider, as pages show it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ProviderInfo {
    /// The name in paths and settings.
    pub name: String,
    /// The words on its button.
    pub title: String,
}

/// What a provider needs to begin a sign-in.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, reason = "it has secrets")]
pub struct ProviderRequest<'r> {
    /// The name of the provider.
    pub provider: &'r str,
    /// The page to which the provider sends the browser back.
    pub redirect_url: &'r str,
    /// The value that the provider returns with its answer.
    pub state: &'r str,
    /// The value that the provider signs into its token.
    pub nonce: &'r str,
    /// The secret whose hash the provider gets first (PKCE, RFC 7636).
    pub verifier: &'r str,
}

/// A code that a provider has sent, to be exchanged for the identity of the person.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, reason = "it has secrets")]
pub struct ProviderCode<'c> {
    /// What the sign-in began with.
    pub request: ProviderRequest<'c>,
    /// The code.
    pub code: &'c str,
    /// The issuer that the answer names (RFC 9207).
    pub issuer: Option<&'c str>,
    /// The current time.
    pub now: Timestamp,
}

/// A person, as a provider has identified them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalIdentity {
    /// The provider, as a URL.
    pub issuer: String,
    /// The person's id at the provider, which never changes.
    pub subject: String,
    /// The mail address.
    pub email: Option<String>,
    /// True if the provider states that the address belongs to the person.
    pub email_is_verified: bool,
}

/// Talks to providers ([`crate::Settings::providers`]).
///
/// `marmota_providers` has one for OpenID Connect and OAuth2. Both functions may block: they are called
/// on threads for it.
pub trait IdentityProviders: Send + Sync {
    /// Returns the providers that pages offer.
    fn offered(&self) -> Vec<ProviderInfo>;

    /// Returns the URL at the provider where the person signs in.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::NotFound`] for an unknown provider, and errors of the connection.
    fn authorization_url(&self, request: &ProviderRequest<'_>) -> Result<String>;

    /// Exchanges a code for the person's identity, and verifies what the provider answers.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Unauthenticated`] for an answer that is not valid, and errors of the
    /// connection.
    fn identity(&self, code: &ProviderCode<'_>) -> Result<ExternalIdentity>;
}

/// The user that a token of another issuer stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenUser {
    /// The user who has signed in with this account of the issuer.
    Identity {
        /// The issuer.
        issuer: String,
        /// The id of the account.
        subject: String,
    },
    /// The user with this login name or mail address.
    Name(String),
}

/// Verifies tokens that other issuers have signed ([`crate::Settings::token_issuers`]).
pub trait TokenIssuers: Send + Sync {
    /// Verifies a token. Returns its user and its end; `None` if the keys of its issuer have to be
    /// fetched first. Does not block.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Unauthenticated`] for a token that is not valid.
    fn verify(&self, token: &str, now: Timestamp) -> Option<Result<(TokenUser, Timestamp)>>;

    /// Fetches the keys of a token's issuer. May block.
    ///
    /// # Errors
    /// Errors of the connection.
    fn fetch_keys(&self, token: &str) -> Result<()>;
}
