//! The MariaDB engine on a real server.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod faults;

use std::sync::OnceLock;

use marmota_mariadb::TemporaryMariadb;

/// A server that all tests share.
fn server() -> &'static TemporaryMariadb {
    static SERVER: OnceLock<TemporaryMariadb> = OnceLock::new();
    SERVER.get_or_init(|| TemporaryMariadb::start().unwrap())
}
