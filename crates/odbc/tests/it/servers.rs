//! The servers that tests and the benchmark share, and the URLs of new databases on them.
#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::sync::OnceLock;

use marmota_mariadb::TemporaryMariadb;
use marmota_postgres::TemporaryPostgres;

/// Returns the path of a driver's library, which needs no entry in `odbcinst.ini`.
pub(crate) fn library(name: &str) -> String {
    let folder = format!("/usr/lib/{}-linux-gnu/odbc", std::env::consts::ARCH);
    let path = format!("{folder}/{name}");
    assert!(std::path::Path::new(&path).exists(), "{path} is missing: run `cargo xtask packages`");
    path
}

pub(crate) fn mariadb_server() -> &'static TemporaryMariadb {
    static SERVER: OnceLock<TemporaryMariadb> = OnceLock::new();
    SERVER.get_or_init(|| TemporaryMariadb::start().unwrap())
}

/// Returns the URL of a new database on a server that all tests share.
pub(crate) fn mariadb_url() -> String {
    let server = mariadb_server();
    let url = server.make_database().unwrap();
    let name = url.rsplit('/').next().unwrap();
    format!(
        "odbc:Driver={};Server=127.0.0.1;Port={};Database={name};{}",
        library("libmaodbc.so"),
        server.port(),
        credential_of(&url)
    )
}

/// Returns the user and the password in a URL, as attributes.
pub(crate) fn credential_of(url: &str) -> String {
    let credential = url.split_once("//").unwrap().1.split_once('@').unwrap().0;
    let (user, password) = credential.split_once(':').unwrap();
    let password = password.replace("%3A", ":").replace("%20", " ").replace("%40", "@");
    format!("UID={user};PWD={{{password}}}")
}

pub(crate) fn postgres_server() -> &'static TemporaryPostgres {
    static SERVER: OnceLock<TemporaryPostgres> = OnceLock::new();
    SERVER.get_or_init(|| TemporaryPostgres::start(&["fsync=off"]).unwrap())
}

/// Returns the URL of a new database on a server that all tests share.
pub(crate) fn postgres_url() -> String {
    let server = postgres_server();
    let url = server.make_database().unwrap();
    let (place, name) = url.split_once('@').unwrap().1.split_once('/').unwrap();
    let (host, port) = place.split_once(':').unwrap();
    format!(
        "odbc:Driver={};Server={host};Port={port};Database={name};{}",
        library("psqlodbcw.so"),
        credential_of(&url)
    )
}
