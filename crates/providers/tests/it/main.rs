//! Sign-in with providers, and tokens of other issuers, against an issuer that may lie.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../../auth/tests/it/databases.rs"]
mod databases;
mod issuer;
mod plain;
mod sign_in;
mod tokens;
