//! Sign-in with accounts of other providers, and tokens that other issuers have signed.
//!
//! | file | what it has |
//! |---|---|
//! | `provider.rs` | the interfaces of what talks to providers and verifies tokens, and their data |
//! | `sign_in.rs` | the sign-in: its beginning, its answer, and the user for it |
//! | `identities.rs` | the accounts of providers that belong to a user |
//! | `bearer.rs` | tokens of other issuers as credentials |
//!
//! This crate makes no connections: `marmota_providers` implements the interfaces.

mod bearer;
mod identities;
mod provider;
mod sign_in;

pub use identities::LinkedAccount;
pub use provider::{
    ExternalIdentity, IdentityProviders, ProviderCode, ProviderInfo, ProviderRequest, TokenIssuers,
    TokenUser,
};
pub use sign_in::{ProviderAnswer, ProviderSignIn, SignInStart};
