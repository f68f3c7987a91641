//! The program as a user starts it.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod backup;
mod backup_of_several;
mod batch_scheduling;
mod bench;
mod command;
mod differential;
mod documents;
#[cfg(unix)]
mod ending;
mod migrations;
mod moving;
mod output;
mod postgres;
mod program;
mod prove;
mod remote_rights;
mod routes;
mod serve;
mod stress;
#[cfg(feature = "otel")]
mod telemetry;
