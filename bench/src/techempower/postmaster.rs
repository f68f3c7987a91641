//! The CPU time of PostgreSQL's processes.

use crate::http::usage::cpu_of_children_of;
use anyhow::{Context, Result};
use std::path::Path;

/// PostgreSQL's main process, whose children serve the connections.
pub(crate) struct Postmaster {
    process: u32,
}

impl Postmaster {
    /// Reads the process id from `postmaster.pid` in the data folder.
    pub(crate) fn of(data: &Path) -> Result<Self> {
        let path = data.join("postmaster.pid");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        let process = text.lines().next().and_then(|line| line.trim().parse().ok());
        Ok(Self { process: process.context("no process id in postmaster.pid")? })
    }

    /// CPU seconds of its children since they started.
    pub(crate) fn cpu_s(&self) -> Result<f64> {
        cpu_of_children_of(self.process)
    }
}
