//! The pages in a browser: Chromium works with them as people do, over rows of all kinds and with
//! the program itself. axe-core finds no fault of accessibility on any page.
#![cfg(feature = "admin")]
#![allow(clippy::unwrap_used, reason = "tests panic")]

#[cfg(feature = "mail")]
mod accounts;
mod browser;
mod docs;
mod existing;
#[path = "../existing/databases.rs"]
mod existing_databases;
mod grid;
mod operations;
#[cfg(feature = "passkeys")]
mod passkeys;
mod program;
mod rows;
mod samples;
mod schema;
#[cfg(feature = "providers")]
mod sign_in;
mod sql;
mod story;
mod users;
mod video;
mod webhooks;
