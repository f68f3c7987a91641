//! The program as its users start it.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod accounts;
mod adopt;
#[cfg(feature = "mcp")]
mod agents;
mod application;
mod backup;
mod batch_scheduling;
mod bench;
mod change_feed;
mod command;
#[cfg(unix)]
mod deployment;
mod differential;
mod documents;
mod ending;
#[path = "../existing/databases.rs"]
mod existing_databases;
mod json_output;
mod live_moves;
mod live_tables;
mod migrations;
mod moving;
#[path = "../../../../crates/odbc/tests/it/servers.rs"]
mod odbc_servers;
mod output;
mod postgres;
mod program;
mod prove;
mod replicas;
mod rows;
mod serve;
#[cfg(unix)]
mod settings;
mod sql_console;
mod stress;
#[cfg(feature = "otel")]
mod telemetry;
mod webhooks;
