//! `healthcheck`: checks whether a server on this machine answers, for images without curl.
//!
//! | answer | exit code |
//! |---|---|
//! | any status below 500: a 404 or 401 of `/healthz` shows that requests are handled | 0 |
//! | a status from 500 on, no answer, no connection | 1 |

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use marmota_http::{Address, ToAddresses};
use serde_json::json;

use crate::command::{Command, Done, JsonOutput};

/// The bytes of an answer that are read: the status is in the first line.
const ANSWER_BYTES_MAX: usize = 64;

/// Checks whether a server on this machine answers; exits with 1 if it does not
///
/// An answer with a status below 500 is a success, with or without --diagnostics. On a port with TLS
/// only the connection is checked.
#[derive(Args)]
pub(in crate::command) struct HealthCheck {
    /// The address of the server; that of `serve` if not given
    #[arg(long, value_name = "ADDRESS", env = "MARMOTA_LISTEN")]
    listen: Vec<String>,
    /// The port has TLS
    #[arg(long)]
    tls: bool,
    /// How long to wait for the connection and for the answer
    #[arg(long, value_name = "MS", default_value_t = 2_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
    #[command(flatten)]
    output: JsonOutput,
}

/// A connection to the server.
trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

impl HealthCheck {
    /// Sends a request, and prints the status.
    pub(in crate::command) fn run(&self, command: &Command) -> Done {
        let listen = self.listen.first().map_or(command.listen, String::as_str);
        let failed = |error: std::io::Error| format!("{listen} does not answer: {error}");
        let mut connection = self.connect(listen).map_err(failed)?;
        if self.tls {
            self.output.report(
                || json!({ "address": listen, "status": null }),
                || format!("{listen} accepts connections"),
            )?;
            return Ok(ExitCode::SUCCESS);
        }
        let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        connection.write_all(request).map_err(failed)?;
        let mut answer = Vec::new();
        let mut buffer = [0; ANSWER_BYTES_MAX];
        while answer.len() < ANSWER_BYTES_MAX && !answer.contains(&b'\n') {
            match connection.read(&mut buffer).map_err(failed)? {
                0 => break,
                count => answer.extend_from_slice(&buffer[..count]),
            }
        }
        let line = String::from_utf8_lossy(&answer);
        let line = line.lines().next().unwrap_or_default();
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        match status.and_then(|status| status.parse::<u16>().ok()) {
            Some(status) if status < 500 => {
                self.output.report(
                    || json!({ "address": listen, "status": status }),
                    || format!("{listen} answers ({status})"),
                )?;
                Ok(ExitCode::SUCCESS)
            }
            Some(status) => Err(format!("{listen} is not healthy: status {status}").into()),
            None => Err(format!("{listen} sends no HTTP answer: {line:?}").into()),
        }
    }

    fn connect(&self, listen: &str) -> std::io::Result<Box<dyn Connection>> {
        let timeout = Some(Duration::from_millis(self.timeout_ms));
        if let Some(path) = listen.strip_prefix("unix:").filter(|path| !path.starts_with('@')) {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(timeout)?;
            return Ok(Box::new(stream));
        }
        let addresses = listen.to_addresses()?;
        let address = addresses.into_iter().find_map(|address| match address {
            Address::Net(address) => Some(reachable(address)),
            _ => None,
        });
        let Some(address) = address else {
            let message = "only TCP ports and Unix sockets with a file can be checked";
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, message));
        };
        let stream = TcpStream::connect_timeout(&address, Duration::from_millis(self.timeout_ms))?;
        stream.set_read_timeout(timeout)?;
        Ok(Box::new(stream))
    }
}

/// Returns the address for a client: the loopback address for all addresses of the machine.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}
