//! The TechEmpower benchmark's rules, checked on the running program with a SQLite file, and
//! with servers of PostgreSQL and MariaDB.

#![allow(clippy::unwrap_used, reason = "a test ends where its set-up fails")]

mod mariadb;
mod postgres;
mod program;
mod routes;
