//! The ODBC engine on real servers, by the drivers that Debian has.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod faults;
mod sqlite;

use std::sync::OnceLock;

use marmota_mariadb::TemporaryMariadb;
use marmota_odbc::Odbc;
use marmota_postgres::TemporaryPostgres;
use marmota_store::Store;
use marmota_testkit::conformance;
use marmota_testkit::conformance::Subject;

/// Returns the path of a driver's library, which needs no entry in `odbcinst.ini`.
fn library(name: &str) -> String {
    let folder = format!("/usr/lib/{}-linux-gnu/odbc", std::env::consts::ARCH);
    let path = format!("{folder}/{name}");
    assert!(std::path::Path::new(&path).exists(), "{path} is missing: run `cargo xtask packages`");
    path
}

fn mariadb_server() -> &'static TemporaryMariadb {
    static SERVER: OnceLock<TemporaryMariadb> = OnceLock::new();
    SERVER.get_or_init(|| TemporaryMariadb::start().unwrap())
}

/// Returns the URL of a new database on a server that all tests share.
fn mariadb_url() -> String {
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
fn credential_of(url: &str) -> String {
    let credential = url.split_once("//").unwrap().1.split_once('@').unwrap().0;
    let (user, password) = credential.split_once(':').unwrap();
    let password = password.replace("%3A", ":").replace("%20", " ").replace("%40", "@");
    format!("UID={user};PWD={{{password}}}")
}

fn postgres_url() -> String {
    static SERVER: OnceLock<TemporaryPostgres> = OnceLock::new();
    let server = SERVER.get_or_init(|| TemporaryPostgres::start(&["fsync=off"]).unwrap());
    let url = server.make_database().unwrap();
    let (place, name) = url.split_once('@').unwrap().1.split_once('/').unwrap();
    let (host, port) = place.split_once(':').unwrap();
    format!(
        "odbc:Driver={};Server={host};Port={port};Database={name};{}",
        library("psqlodbcw.so"),
        credential_of(&url)
    )
}

fn subject(name: &'static str, url: String) -> Subject {
    Subject::new(name, move || Store::builder(Odbc::from_url(&url).unwrap()))
}

conformance!(mariadb, || crate::subject("MariaDB over ODBC", mariadb_url()));
conformance!(postgres, || crate::subject("PostgreSQL over ODBC", postgres_url()));
