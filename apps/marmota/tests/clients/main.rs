//! Generated clients against the program: node, Chromium and CPython write, read and follow rows of
//! every kind.
//! `tsc --strict` and `mypy --strict` accept the clients, and refuse calls that do not fit the tables.
#![allow(clippy::unwrap_used, reason = "tests panic")]

#[cfg(feature = "admin")]
mod chromium;
mod guide;
mod patches;
mod python;
mod running_server;
mod server;
mod typescript;
mod workshop;
