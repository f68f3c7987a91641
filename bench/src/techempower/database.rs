//! The database server of the suite: one that it starts, and its CPU time.

use crate::http::usage::{ProcessUsage, cpu_of_children_of};
use anyhow::{Context, Result};
use marmota_mariadb::TemporaryMariadb;
use marmota_postgres::TemporaryPostgres;
use std::path::Path;

/// The settings of the public benchmark's server, without those that depend on the hardware.
const POSTGRES_SETTINGS: [&str; 3] =
    ["synchronous_commit=off", "shared_buffers=256MB", "checkpoint_timeout=30min"];

/// A kind of database server.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Database {
    Postgres,
    Mariadb,
}

impl Database {
    /// The name in the table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Mariadb => "MariaDB",
        }
    }
}

/// A running server.
pub(crate) enum DatabaseServer {
    /// PostgreSQL, and its main process, whose children serve the connections.
    Postgres(TemporaryPostgres, u32),
    Mariadb(TemporaryMariadb),
}

impl DatabaseServer {
    /// Starts a server that does not wait for the disk.
    pub(crate) fn start(kind: Database) -> Result<Self> {
        Ok(match kind {
            Database::Postgres => {
                let server =
                    TemporaryPostgres::start(&POSTGRES_SETTINGS).context("starting PostgreSQL")?;
                let process = main_process(&server.data())?;
                Self::Postgres(server, process)
            }
            Database::Mariadb => {
                Self::Mariadb(TemporaryMariadb::start().context("starting MariaDB")?)
            }
        })
    }

    /// Creates a database; returns its URL.
    pub(crate) fn make_database(&self) -> Result<String> {
        Ok(match self {
            Self::Postgres(server, _) => server.make_database()?,
            Self::Mariadb(server) => server.make_database()?,
        })
    }

    /// CPU seconds of the server since it started; of PostgreSQL without its main process.
    pub(crate) fn cpu_s(&self) -> Result<f64> {
        match self {
            Self::Postgres(_, process) => cpu_of_children_of(*process),
            Self::Mariadb(server) => {
                let process = server.process().context("MariaDB has ended")?;
                Ok(ProcessUsage::of(process)?.cpu_s)
            }
        }
    }
}

/// Reads the process id from `postmaster.pid` in the data folder.
fn main_process(data: &Path) -> Result<u32> {
    let path = data.join("postmaster.pid");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let process = text.lines().next().and_then(|line| line.trim().parse().ok());
    process.context("no process id in postmaster.pid")
}
