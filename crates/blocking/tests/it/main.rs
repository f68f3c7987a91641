//! The SQL of dialects that are not run against a server, as text.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod recorder;
mod snapshots;
