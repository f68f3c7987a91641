//! Sign-in with accounts of other providers, and tokens that other issuers have signed.
//!
//! | file | what it has |
//! |---|---|
//! | `sign_in.rs` | the sign-in: its beginning, its answer, and the user for it |
//! | `identities.rs` | the accounts of providers that belong to a user |
//! | `bearer.rs` | tokens of other issuers as credentials |
//!
//! This crate makes no connections: `marmota_providers` implements the interfaces of
//! `credentials/external.rs`.

mod bearer;
mod identities;
mod sign_in;

pub use identities::LinkedAccount;
pub use sign_in::{ProviderAnswer, ProviderSignIn, SignInStart};
