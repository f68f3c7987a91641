//! Connections over each transport, WebSockets of another implementation, and attempts to connect.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod attempts;
mod foreign_web_socket;
mod served;

use std::time::Duration;

use marmota_rpc::{Connector, ServerAddress};

/// No test waits for longer.
const WITHIN: Duration = Duration::from_secs(60);

fn echo_at(url: &str) -> Connector {
    Connector::new(ServerAddress::parse(url).unwrap(), "/-/echo", "echo", "no echo is served")
}
