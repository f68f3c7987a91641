//! The TechEmpower benchmark's rules, one by one, on the program itself: over a
//! SQLite file and over a PostgreSQL server of its own.

#![allow(clippy::unwrap_used, reason = "a test ends where its set-up fails")]

mod postgres;
mod program;
mod routes;
