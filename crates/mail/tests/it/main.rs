//! Mails of accounts over a real SMTP connection, and attempts to misuse their links.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../../auth/tests/it/databases.rs"]
mod databases;
mod links;
mod templates;
