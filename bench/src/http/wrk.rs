//! wrk, the load generator. It is found or installed, and runs a script from a temporary folder
//! that sends pipelined batches and prints its counts in a line that this module parses.

use super::workload::Workload;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The time in seconds that wrk waits for an answer before it counts a timeout. With many thousand
/// connections, some are answered last.
const ANSWER_TIME_MAX_S: u32 = 8;

/// Every run reports through `done`. `request` is defined only for batches, because wrk calls it
/// before every write, which costs time.
const REPORT_SCRIPT: &str = r#"
done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format("FIGURES %d %d %d %d %d %d %d %d %d\n",
    summary.requests, summary.duration, errors.connect, errors.read,
    errors.write, errors.timeout, errors.status, latency:percentile(99),
    latency.max))
end
"#;
const BATCH_SCRIPT: &str = r#"
local batch
init = function(args)
  local one = wrk.format("GET")
  batch = string.rep(one, tonumber(args[1]))
end
request = function() return batch end
"#;

/// The headers of TechEmpower's load generator.
const ACCEPT_PLAIN: &str = "Accept: text/plain,text/html;q=0.9,application/xhtml+xml;q=0.9,\
                            application/xml;q=0.8,*/*;q=0.7";

/// The counts of one run of wrk.
#[derive(Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    pub(crate) socket_errors: u64,
    pub(crate) bad_statuses: u64,
    /// Only for requests without pipelining: wrk distributes the wait of a batch over waits that it
    /// assumes were missed, and reports 0 for short ones.
    pub(crate) p99_us: Option<f64>,
    /// The longest response time.
    pub(crate) longest_us: f64,
}

pub(crate) struct Wrk {
    threads: u32,
    scripts: tempfile::TempDir,
}

impl Wrk {
    /// Finds wrk in `PATH`, or installs Debian's package with apt-get.
    pub(crate) fn find_or_install(threads: u32) -> Result<Wrk> {
        if !is_installed() {
            eprintln!("wrk is not installed: installing it with apt-get");
            let installed = Command::new("apt-get")
                .args(["install", "--yes", "--quiet", "wrk"])
                .stdout(Stdio::null())
                .status();
            if !installed.is_ok_and(|status| status.success()) || !is_installed() {
                bail!(
                    "wrk, the load generator, could not be installed; install it \
                     (as root: apt-get update && apt-get install wrk) and try again"
                );
            }
        }
        let scripts = tempfile::tempdir().context("making a folder for wrk's scripts")?;
        std::fs::write(scripts.path().join("single.lua"), REPORT_SCRIPT)?;
        let batch = [REPORT_SCRIPT, BATCH_SCRIPT].concat();
        std::fs::write(scripts.path().join("batch.lua"), batch)?;
        Ok(Wrk { threads, scripts })
    }

    fn script(&self, workload: &Workload) -> PathBuf {
        let name = if workload.kind.depth() > 1 { "batch.lua" } else { "single.lua" };
        self.scripts.path().join(name)
    }

    /// Loads the server on `port` for `time`, rounded down to seconds.
    pub(crate) fn load(&self, port: u16, workload: &Workload, time: Duration) -> Result<Load> {
        let depth = workload.kind.depth().to_string();
        let url = format!("http://127.0.0.1:{port}{}", workload.kind.path());
        let mut load =
            self.run(&self.script(workload), workload.connections, &url, &depth, time)?;
        if workload.kind.depth() > 1 {
            load.p99_us = None;
        }
        Ok(load)
    }

    /// Adds a script that makes requests, for [`Wrk::run`].
    pub(crate) fn add_script(&self, name: &str, requests: &str) -> Result<PathBuf> {
        let path = self.scripts.path().join(name);
        std::fs::write(&path, [REPORT_SCRIPT, requests].concat())?;
        Ok(path)
    }

    /// Runs a script for `time`, rounded down to seconds.
    pub(crate) fn run(
        &self,
        script: &Path,
        connections: u32,
        url: &str,
        argument: &str,
        time: Duration,
    ) -> Result<Load> {
        let threads = self.threads.min(connections);
        let output = Command::new("wrk")
            .args(["-t", &threads.to_string()])
            .args(["-c", &connections.to_string()])
            .args(["-d", &format!("{}s", time.as_secs().max(1))])
            .args(["--timeout", &format!("{ANSWER_TIME_MAX_S}s")])
            .args(["-H", ACCEPT_PLAIN, "-H", "Connection: keep-alive"])
            .arg("-s")
            .arg(script)
            .arg(url)
            .args(["--", argument])
            .output()
            .context("running wrk")?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("wrk failed, {}: {text}{errors}", output.status);
        }
        parse(&text)
    }
}

fn is_installed() -> bool {
    // `wrk -v` exits with code 1 although it is installed.
    Command::new("wrk").arg("-v").output().is_ok()
}

fn parse(output: &str) -> Result<Load> {
    let line = output
        .lines()
        .find_map(|line| line.strip_prefix("FIGURES "))
        .with_context(|| format!("wrk printed no figures: {output}"))?;
    let figures: Vec<u64> = line
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| format!("wrk's figures: {line}"))?;
    let &[requests, duration_us, connect, read, write, timeout, status, p99_us, longest_us] =
        &figures[..]
    else {
        bail!("wrk's figures: {line}");
    };
    Ok(Load {
        requests,
        seconds: duration_us as f64 / 1e6,
        socket_errors: connect + read + write + timeout,
        bad_statuses: status,
        p99_us: (p99_us > 0).then_some(p99_us as f64),
        longest_us: longest_us as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_among_what_wrk_prints() {
        let output = "Running 4s test\n  99%  1ms\nFIGURES 1000 2000000 1 2 3 4 5 950 7000\n";
        let load = parse(output).unwrap();
        assert_eq!(
            load,
            Load {
                requests: 1000,
                seconds: 2.0,
                socket_errors: 10,
                bad_statuses: 5,
                p99_us: Some(950.0),
                longest_us: 7000.0
            }
        );
    }

    #[test]
    fn output_without_figures_is_an_error() {
        assert!(parse("unable to connect").is_err());
        assert!(parse("FIGURES 1 2").is_err());
    }
}
