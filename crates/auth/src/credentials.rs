//! The credentials of callers: passwords, random tokens, JWTs, codes of authenticator apps, identities of
//! providers, and the counts of wrong ones. They know no store.

pub(crate) mod attempts;
pub(crate) mod external;
pub(crate) mod jwt;
pub(crate) mod password;
#[cfg(feature = "signatures")]
pub(crate) mod signatures;
pub(crate) mod token;
pub(crate) mod totp;
