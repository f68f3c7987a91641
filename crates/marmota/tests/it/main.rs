//! The library's parts put together.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod backup_of_several;
mod jobs;
mod operations;
mod remote_rights;
mod routes;
