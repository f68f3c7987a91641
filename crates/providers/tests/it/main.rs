//! Sign-in with providers, and tokens of other issuers, against an issuer that may lie.

mod issuer;
mod plain;
mod sign_in;
mod tokens;
