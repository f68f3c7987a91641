//! The credentials of callers: passwords, random tokens, JWTs, codes of authenticator apps, passkeys,
//! identities of providers, and the counts of wrong ones. They know no store.

pub(crate) mod attempts;
pub(crate) mod external;
pub(crate) mod jwt;
pub(crate) mod passkey;
pub(crate) mod password;
#[cfg(feature = "signatures")]
pub(crate) mod signatures;
pub(crate) mod token;
pub(crate) mod totp;
#[cfg(feature = "passkeys")]
pub(crate) mod web_authn;
