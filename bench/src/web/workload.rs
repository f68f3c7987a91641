//! The workloads of the web suite: the requests, the program that sends them, and the target share of
//! the best peer.

use super::load::Load;
use super::roster::content;
use super::sockets;
use crate::http::server::Server;
use crate::http::wrk::Wrk;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Concurrent streams per HTTP/2 connection.
const STREAMS: &str = "16";

/// The program that loads a server.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Protocol {
    /// HTTP/1.1 with keep-alive, one request at a time.
    Http,
    /// The same over TLS 1.3.
    Tls,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// WebSocket: an echo of a message of this many bytes.
    Socket(usize),
}

/// A group of rows of the table.
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) protocol: Protocol,
    pub(super) path: &'static str,
    /// The target for the ratio to the best peer, in requests per CPU second.
    pub(super) target: Option<f64>,
    pub(super) servers: &'static [&'static str],
}

const WITH_NGINX: &[&str] = &["marmota", "nginx"];
const FRAMES: &[&str] = &["marmota", "axum", "tungstenite", "fastwebsockets"];

const fn line(
    name: &'static str,
    protocol: Protocol,
    path: &'static str,
    target: Option<f64>,
) -> Workload {
    let servers = match protocol {
        Protocol::Http | Protocol::Tls => WITH_NGINX,
        Protocol::Http2 => &["marmota", "nginx", "hyper"],
        Protocol::Socket(_) => FRAMES,
    };
    Workload { name, protocol, path, target, servers }
}

pub(super) const WORKLOADS: [Workload; 11] = [
    line("fixed", Protocol::Http, "/fixed", Some(1.1)),
    line("file 1 KB", Protocol::Http, "/files/1k", Some(1.1)),
    line("file 16 KB", Protocol::Http, "/files/16k", None),
    line("file 64 KB", Protocol::Http, "/files/64k", None),
    line("file 1 MB", Protocol::Http, "/files/1m", None),
    line("TLS fixed", Protocol::Tls, "/fixed", Some(1.0)),
    line("TLS file 1 KB", Protocol::Tls, "/files/1k", Some(1.0)),
    line("TLS file 64 KB", Protocol::Tls, "/files/64k", None),
    line("HTTP/2 json", Protocol::Http2, "/json", Some(1.0)),
    line("WebSocket 100 B", Protocol::Socket(100), "/echo", Some(1.0)),
    line("WebSocket 16 KB", Protocol::Socket(16 << 10), "/echo", Some(1.0)),
];

impl Workload {
    fn url(&self, port: u16) -> String {
        let scheme = if self.protocol == Protocol::Tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{port}{}", self.path)
    }

    /// Checks the response of a server, because a fast wrong response is not a result.
    pub(super) fn check(&self, server: &Server) -> Result<()> {
        if let Protocol::Socket(bytes) = self.protocol {
            return sockets::check(server.port(), self.path, bytes);
        }
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--insecure"]);
        if self.protocol == Protocol::Http2 {
            curl.arg("--http2-prior-knowledge");
        }
        let answer = curl.arg(self.url(server.port())).output().context("running curl")?;
        let error = String::from_utf8_lossy(&answer.stderr);
        ensure!(answer.status.success(), "{}: {error}", self.path);
        let right = match self.path {
            "/fixed" => b"Hello, World!".to_vec(),
            "/json" => br#"{"message":"Hello, World!"}"#.to_vec(),
            path => content(path.trim_start_matches("/files/")),
        };
        ensure!(answer.stdout == right, "{}: the answer is not the requested one", self.path);
        Ok(())
    }

    pub(super) fn load(
        &self,
        wrk: &Wrk,
        script: &Path,
        port: u16,
        connections: u32,
        time: Duration,
    ) -> Result<Load> {
        match self.protocol {
            Protocol::Http | Protocol::Tls => {
                let load = wrk.run(script, connections, &self.url(port), "", time)?;
                let failed = load.socket_errors + load.bad_statuses;
                Ok(Load { answered: load.requests, seconds: load.seconds, failed })
            }
            Protocol::Http2 => h2load(&self.url(port), connections, time),
            Protocol::Socket(bytes) => sockets::load(port, self.path, bytes, connections, time),
        }
    }
}

fn h2load(url: &str, connections: u32, time: Duration) -> Result<Load> {
    let output = Command::new("h2load")
        .args(["--threads", "2", "--clients", &connections.to_string()])
        .args(["--max-concurrent-streams", STREAMS])
        .args(["--duration", &time.as_secs().max(1).to_string(), url])
        .output()
        .context("running h2load")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "h2load failed: {text}");
    let counts = text.lines().find(|line| line.starts_with("requests:"));
    let counts = counts.with_context(|| format!("h2load printed no counts: {text}"))?;
    let answered = number_before(counts, "succeeded")?;
    let failed = number_before(counts, "failed")?;
    Ok(Load { answered, seconds: time.as_secs_f64(), failed })
}

/// Returns the number before a word, as in `12 succeeded, 3 failed`.
fn number_before(line: &str, word: &str) -> Result<u64> {
    let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let at = words.iter().position(|w| *w == word).context("the count is missing")?;
    let number = words.get(at.wrapping_sub(1)).context("the number is missing")?;
    number.parse().with_context(|| format!("h2load's {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_in_the_line_of_h2load() {
        let line = "requests: 160 total, 170 started, 160 done, 158 succeeded, 2 failed, 2 errored";
        assert_eq!(number_before(line, "succeeded").unwrap(), 158);
        assert_eq!(number_before(line, "failed").unwrap(), 2);
        assert!(number_before(line, "lost").is_err());
    }
}
