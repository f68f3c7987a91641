//! The REST contract over real sockets and every engine.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accept;
#[cfg(feature = "auth")]
mod any_references;
mod auth;
#[cfg(feature = "auth")]
mod authentication;
mod batch;
mod batch_lines;
#[cfg(feature = "auth")]
mod before_body;
mod before_hooks;
mod blob;
mod bounds;
mod changes;
mod client;
mod composite_keys;
mod compression;
#[cfg(feature = "auth")]
#[path = "../../../auth/tests/it/databases.rs"]
mod databases;
mod expand;
mod expressions;
#[cfg(feature = "auth")]
mod extractors;
mod failing;
mod faulty;
mod field_rights;
#[cfg(feature = "files")]
mod files;
mod groups;
mod guide;
mod history;
#[cfg(feature = "auth")]
mod internal_tables;
mod lines;
#[cfg(feature = "auth")]
mod links;
mod list;
mod live;
mod live_events;
#[cfg(feature = "auth")]
mod live_rights;
mod live_socket;
mod long_reads;
mod nested;
mod once;
#[cfg(feature = "auth")]
mod open_api;
mod overload;
mod partial_indexes;
mod random;
mod ranking;
mod relations;
mod resource;
mod row;
mod service;
#[cfg(feature = "auth")]
mod sign_in;
mod slow;
#[cfg(feature = "auth")]
mod state;
mod tenants;
#[cfg(feature = "auth")]
mod well_formed;
mod wrapped;
