//! Generated clients against the program: node and CPython write, read and follow rows of every kind.
//! `tsc --strict` and `mypy --strict` accept the clients, and refuse calls that do not fit the tables.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod guide;
mod python;
mod server;
mod typescript;
mod workshop;
