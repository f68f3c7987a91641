//! The program as a user starts it.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod backup;
mod bench;
mod command;
mod migrations;
mod program;
