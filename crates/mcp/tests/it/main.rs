//! Tests of the server for agents, with the client of the official SDK.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod http;
mod rights;
mod tools;
mod world;
