//! A workload: a route, the number of requests that a connection sends before it waits for the answers,
//! and the number of connections.

use std::fmt;

/// Requests that a pipelining connection sends at once.
const PIPELINE_DEPTH: u32 = 16;

/// A route and the form of its requests.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// `/plaintext`, 16 requests at once.
    Pipelined,
    /// `/plaintext`, one request at a time.
    Plaintext,
    /// `/json`, one request at a time.
    Json,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Pipelined, Kind::Plaintext, Kind::Json];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Kind::Pipelined | Kind::Plaintext => "/plaintext",
            Kind::Json => "/json",
        }
    }

    /// Requests in flight on one connection.
    pub(crate) fn depth(self) -> u32 {
        match self {
            Kind::Pipelined => PIPELINE_DEPTH,
            Kind::Plaintext | Kind::Json => 1,
        }
    }
}

/// One group of rows of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Workload {
    pub(crate) kind: Kind,
    pub(crate) connections: u32,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            Kind::Pipelined => "plaintext ×16",
            Kind::Plaintext => "plaintext",
            Kind::Json => "json",
        };
        write!(f, "{name}, {} connections", self.connections)
    }
}
