//! Sign-in with accounts of other providers (OpenID Connect, OAuth2), and tokens that other issuers have
//! signed as credentials.
//!
//! ```
//! use marmota_providers::ProviderFile;
//!
//! let file = r#"
//! [provider.google]
//! title = "Google"
//! issuer = "https://accounts.google.com"
//! client_id = "123"
//!
//! [tokens.build]
//! issuer = "https://token.actions.githubusercontent.com"
//! audience = "https://shop.example.org"
//! "#;
//! // Secrets are not in the file: this function returns them by name.
//! let secrets = |name: &str| (name == "MARMOTA_PROVIDER_GOOGLE_SECRET").then(|| "hush".to_owned());
//! let file = ProviderFile::parse(file, secrets)?;
//! // Settings::default().providers(file.providers()).token_issuers(file.token_issuers())
//! # Ok::<(), marmota_model::Error>(())
//! ```
//!
//! | file | what it has |
//! |---|---|
//! | `http_client.rs` | requests to providers: deadlines, limits, https |
//! | `config.rs` | the file of providers and issuers |
//! | `key_set.rs` | the public keys of an issuer: the cache and its rotation |
//! | `verify.rs` | the verification of a signed token |
//! | `open_id.rs`, `plain_oauth.rs` | the two kinds of providers |
//! | `sign_in_providers.rs`, `issuers.rs` | the interfaces of `marmota_auth` |
//!
//! All functions that connect block; `marmota_auth` and the routes call them on threads for it.
#![forbid(unsafe_code)]

mod config;
mod http_client;
mod issuers;
mod key_set;
mod open_id;
mod plain_oauth;
mod sign_in_providers;
mod verify;

pub use config::ProviderFile;
pub use issuers::SignedTokens;
pub use sign_in_providers::SignInProviders;
