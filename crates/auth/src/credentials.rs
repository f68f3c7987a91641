//! The credentials of callers: passwords, random tokens, JWTs, and codes of authenticator apps. They know
//! no store.

pub(crate) mod jwt;
pub(crate) mod password;
pub(crate) mod token;
pub(crate) mod totp;
