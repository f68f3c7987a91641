//! The measuring loop of suites that compare servers by the same requests. In each round the servers
//! take turns at a test, so that a drift in the machine's speed affects all servers equally.

use super::database::DatabaseServer;
use super::table::{Figure, Figures};
use crate::http::roster::{Role, ServerSpec};
use crate::http::server::Server;
use crate::http::usage::ProcessUsage;
use crate::http::wrk::Wrk;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Sends several requests at once.
const BATCH_SCRIPT: &str = "local batch\n\
     init = function(args) batch = string.rep(wrk.format(\"GET\"), tonumber(args[1])) end\n\
     request = function() return batch end\n";

const WARM_UP: Duration = Duration::from_secs(1);

/// What is measured, and for how long.
#[derive(clap::Args)]
pub(crate) struct LoadArgs {
    /// Rounds; the table shows medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Seconds of load in each measured run
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_values_t = [64, 512], value_name = "N,…")]
    connections: Vec<u32>,
    /// Run only these tests: db, queries, …
    #[arg(long, value_delimiter = ',', value_name = "TEST,…")]
    only: Vec<String>,
}

/// A test of a suite.
pub(crate) trait LoadTest {
    /// Returns the name in the table.
    fn name(&self) -> &'static str;

    /// Returns the number of requests in flight on one connection.
    fn depth(&self) -> u32;
}

impl LoadArgs {
    /// Returns the tests to run.
    ///
    /// # Errors
    /// An error with the known names if none has one of the names that were given.
    pub(crate) fn select<'t, T: LoadTest>(&self, tests: &'t [T]) -> Result<Vec<&'t T>> {
        let is_selected =
            |test: &&T| self.only.is_empty() || self.only.iter().any(|only| only == test.name());
        let selected: Vec<&T> = tests.iter().filter(is_selected).collect();
        let names: Vec<&str> = tests.iter().map(LoadTest::name).collect();
        ensure!(!selected.is_empty(), "unknown test; known: {}", names.join(", "));
        Ok(selected)
    }

    /// Starts the programs in each round, and measures each with each test. `lines` returns the lines
    /// of the table for a program and a test: the name, and the path that is requested. `database` is
    /// the server that all programs use, if there is one.
    ///
    /// # Errors
    /// An error if a program does not start, ends, or answers no request.
    pub(crate) fn measure<T: LoadTest>(
        &self,
        programs: &[(ServerSpec, PathBuf)],
        tests: &[&T],
        database: Option<&DatabaseServer>,
        lines: impl Fn(&ServerSpec, &T) -> Vec<(String, &'static str)>,
    ) -> Result<Figures> {
        let wrk = Wrk::find_or_install(2)?;
        let single = wrk.add_script("line.lua", "")?;
        let batch = wrk.add_script("lines.lua", BATCH_SCRIPT)?;
        let mut figures = Figures::default();
        for &connections in &self.connections {
            for round in 1..=self.rounds {
                let mut servers = Vec::new();
                for (spec, program) in programs {
                    servers.push((spec, Server::start(spec, program)?));
                }
                for &test in tests {
                    eprintln!("  {connections} connections, round {round}: {}", test.name());
                    let load = LoadRun {
                        wrk: &wrk,
                        script: if test.depth() > 1 { &batch } else { &single },
                        connections,
                        depth: test.depth(),
                        seconds: self.seconds,
                        database,
                    };
                    for (spec, server) in &mut servers {
                        for (name, path) in lines(spec, test) {
                            let figure = load.run(server, path)?;
                            let is_peer = spec.role == Role::Peer;
                            figures.add(test.name(), connections, &name, is_peer, figure);
                        }
                    }
                }
            }
        }
        Ok(figures)
    }
}

/// The load of one line.
pub(crate) struct LoadRun<'l> {
    pub(crate) wrk: &'l Wrk,
    pub(crate) script: &'l Path,
    pub(crate) connections: u32,
    /// Requests in flight on one connection.
    pub(crate) depth: u32,
    pub(crate) seconds: u32,
    pub(crate) database: Option<&'l DatabaseServer>,
}

impl LoadRun<'_> {
    /// Warms a server up, and measures it.
    pub(crate) fn run(&self, server: &mut Server, path: &str) -> Result<Figure> {
        let url = format!("http://127.0.0.1:{}{path}", server.port());
        let load =
            |time| self.wrk.run(self.script, self.connections, &url, &self.depth.to_string(), time);
        load(WARM_UP)?;
        let before: ProcessUsage = server.usage()?;
        let database_before_s = self.database_cpu_s()?;
        let loaded = load(Duration::from_secs(self.seconds.into()))?;
        let cpu_s = server.usage().context("the server ended under load")?.cpu_s - before.cpu_s;
        let database_cpu_s = self.database_cpu_s()? - database_before_s;
        ensure!(loaded.requests > 0, "{path}: no request was answered");
        Ok(Figure {
            requests_per_s: loaded.requests as f64 / loaded.seconds,
            requests_per_cpu_s: loaded.requests as f64 / cpu_s.max(0.01),
            requests_per_all_cpu_s: loaded.requests as f64 / (cpu_s + database_cpu_s).max(0.01),
            p99_ms: loaded.p99_us.filter(|_| self.depth == 1).map(|us| us / 1000.0),
            errors: loaded.socket_errors + loaded.bad_statuses,
        })
    }

    fn database_cpu_s(&self) -> Result<f64> {
        self.database.map_or(Ok(0.0), DatabaseServer::cpu_s)
    }
}
