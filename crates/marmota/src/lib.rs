//! Marmota: define a model once; get a typed ORM, a REST API and a server.
//!
//! ```no_run
//! use marmota::prelude::*;
//!
//! #[derive(Model)]
//! struct Person {
//!     id: i64,
//!     #[model(max = 40, not_empty)]
//!     first_name: String,
//!     #[model(max = 40, not_empty, index)]
//!     last_name: String,
//!     year_of_birth: i32,
//!     year_of_death: Option<i32>,
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let store = marmota::open("sqlite:people.db")?.model::<Person>().open()?;
//!     Server::bind("127.0.0.1:8080")?.run(rest::api(&store))?;
//!     Ok(store.close()?)
//! }
//! ```
//!
//! This crate re-exports the others: [`model`] (schemas, values, rows), [`store`]
//! (operations), [`memory`] (an engine), and by feature `http` (the server), `rest` (REST over
//! models), `auth` (accounts), `service` (traits as services), `jobs`
//! (durable jobs), `files` (fields for files), `collections` (lists and maps for a
//! program's own data), `columns` and `csv` (files of rows that are loaded for reading).
//!
//! | to | enable the feature |
//! |---|---|
//! | read tables from a file | `app` |
//! | keep files in a folder, or in S3 | `files`, `files-s3` |
//! | make smaller versions of images | `thumbnails` |
//! | copy a SQLite database continuously | `replication`, `replication-s3` |
//! | run durable jobs | `jobs` |
//! | send mails, and let people sign up | `mail` |
//! | sign in with passkeys | `passkeys` |
//! | sign in with providers, and accept tokens of other issuers | `providers` |
//! | send changes to other systems | `webhooks` |
//! | administer tables and users in a browser | `admin` |
//! | call traits in other processes | `services` |
//!
//! All features: `docs/guide/30-configuration.md`.
#![forbid(unsafe_code)]

#[cfg(feature = "command")]
pub mod command;
pub mod guide;
#[cfg(feature = "log")]
mod levels;
#[cfg(feature = "operations")]
pub mod operations;
#[cfg(feature = "replication")]
pub mod replication;
mod restore;
#[cfg(feature = "otel")]
mod telemetry;
mod tenants;

#[cfg(feature = "app")]
pub use marmota_app as app;
#[cfg(feature = "collections")]
pub use marmota_collections as collections;
#[cfg(feature = "columns")]
pub use marmota_columns::{self as columns, csv};
pub use marmota_derive::{Model, ModelEnum};
#[cfg(feature = "services")]
pub use marmota_derive::{method, service};
#[cfg(feature = "mcp")]
pub use marmota_mcp as mcp;
pub use marmota_memory as memory;
pub use marmota_model as model;
pub use marmota_model::{Error, ErrorKind, Result};
pub use marmota_store as store;
pub use marmota_store::{group, related};

#[cfg(feature = "admin")]
pub use marmota_admin as admin;
#[cfg(feature = "auth")]
pub use marmota_auth as auth;
#[cfg(feature = "files")]
pub use marmota_files as files;
#[cfg(feature = "server")]
pub use marmota_http as http;
#[cfg(feature = "jobs")]
pub use marmota_jobs as jobs;
#[cfg(feature = "mail")]
pub use marmota_mail as mail;
#[cfg(feature = "mariadb")]
pub use marmota_mariadb as mariadb;
#[cfg(feature = "mongodb")]
pub use marmota_mongo as mongo;
#[cfg(feature = "odbc")]
pub use marmota_odbc as odbc;
#[cfg(feature = "postgres")]
pub use marmota_postgres as postgres;
#[cfg(feature = "providers")]
pub use marmota_providers as providers;
#[cfg(feature = "remote")]
pub use marmota_remote as remote;
#[cfg(feature = "server")]
pub use marmota_rest as rest;
#[cfg(feature = "services")]
pub use marmota_service as service;
#[cfg(feature = "sqlite")]
pub use marmota_sqlite as sqlite;
#[cfg(feature = "webhooks")]
pub use marmota_webhooks as webhooks;

#[cfg(feature = "log")]
pub use levels::{Log, LogFormat};
pub use restore::{restore, restore_all};
#[cfg(feature = "otel")]
pub use telemetry::Telemetry;
pub use tenants::tenants;

use marmota_store::StoreBuilder;

/// The names that most programs use, for a glob import.
pub mod prelude {
    #[cfg(feature = "server")]
    pub use marmota_http::{Flow, Method, Request, Response, Router, Server, Status};
    pub use marmota_model::Model as _;
    pub use marmota_model::{
        Blob, Currency, Date, Error, ErrorKind, Filter, GeoBox, GeoCircle, GeoPoint, Json, Metric,
        Order, Record, Ref, Result, RowQuery, Time, Timestamp, Uuid, Value, Vector,
    };
    #[cfg(feature = "server")]
    pub use marmota_rest::{self as rest, ApiError};
    pub use marmota_store::operation::UpsertEffect;
    pub use marmota_store::{Store, Transaction};

    pub use crate::{Model, ModelEnum};
}

/// Returns the builder of a store, for the engine that the URL names. The same program runs on all
/// engines.
///
/// | URL | engine |
/// |---|---|
/// | `sqlite:data/app.db` | a SQLite file, durable by default |
/// | `sqlite::memory:` | SQLite in memory |
/// | `memory:` | the memory engine |
/// | `memory:data/app.mem` | the memory engine, loaded at the start and saved at the end |
/// | `memory:data/app.mem?durability=full` | the memory engine with a log: as durable as SQLite |
/// | `postgres://user:password@host/app` | a PostgreSQL database (feature `postgres`) |
/// | `postgres://user:password@db1,db2/app` | the primary of a cluster of PostgreSQL servers |
/// | `mariadb://user:password@host/app`, or `mysql:` | a MariaDB or MySQL database (feature `mariadb`) |
/// | `unix:/run/app.sock` | a store of another process, at a Unix socket (feature `remote`) |
/// | `http://host:8080/api` | a store that another process serves over HTTP |
/// | `ws://host:8080/api` | the same, over a WebSocket |
/// | `https://host/api`, `wss://host/api` | the same two, over TLS (feature `tls`) |
/// | `mongodb://host/database` | a MongoDB database (feature `mongodb`) |
/// | `odbc:DSN=app;UID=user;PWD=password` | a database with an ODBC driver (feature `odbc`) |
///
/// With the feature `encryption`, a file (of SQLite, or a binary one of the memory engine) is
/// encrypted if the environment has `MARMOTA_KEY`, or the variable that `?key_env=NAME` names.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL of an unknown engine, with the list of engines, and
/// [`ErrorKind::Unsupported`] for an engine whose cargo feature is disabled, with the feature.
///
/// ```
/// use marmota::prelude::*;
///
/// #[derive(Model)]
/// struct City {
///     id: i64,
///     #[model(unique)]
///     name: String,
/// }
///
/// let store = marmota::open("memory:")?.model::<City>().open()?;
/// let id = store.insert(&City { id: 0, name: "Bourges".to_owned() }).run()?;
/// assert_eq!(store.get::<City>(id).run()?.name, "Bourges");
///
/// let error = marmota::open("oracle://host/app").err().expect("an unknown engine");
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// assert!(error.message().contains("sqlite:"), "it lists the engines: {error}");
/// # Ok::<(), Error>(())
/// ```
pub fn open(url: &str) -> Result<StoreBuilder> {
    #[cfg(feature = "server")]
    marmota_rest::watch_engines();
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => Ok(marmota_store::Store::builder(marmota_sqlite::Sqlite::from_url(url)?)),
        #[cfg(feature = "mariadb")]
        Some("mariadb" | "mysql") => {
            Ok(marmota_store::Store::builder(marmota_mariadb::Mariadb::from_url(url)?))
        }
        #[cfg(feature = "mongodb")]
        Some("mongodb" | "mongodb+srv") => {
            Ok(marmota_store::Store::builder(marmota_mongo::Mongo::from_url(url)?))
        }
        #[cfg(feature = "odbc")]
        Some("odbc") => Ok(marmota_store::Store::builder(marmota_odbc::Odbc::from_url(url)?)),
        Some("memory") => Ok(marmota_store::Store::builder(marmota_memory::Memory::from_url(url)?)),
        #[cfg(feature = "remote")]
        Some("unix" | "http" | "https" | "ws" | "wss") => {
            Ok(marmota_store::Store::builder(marmota_remote::Remote::from_url(url)?))
        }
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => {
            Ok(marmota_store::Store::builder(marmota_postgres::Postgres::from_url(url)?))
        }
        _ => Err(unknown_engine(url)),
    }
}

/// Returns the error for a URL of an unknown engine, or of one that this build does not have.
#[cold]
fn unknown_engine(url: &str) -> Error {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    let feature = match scheme {
        "sqlite" => "sqlite",
        "postgres" | "postgresql" => "postgres",
        "mariadb" | "mysql" => "mariadb",
        "mongodb" | "mongodb+srv" => "mongodb",
        "odbc" => "odbc",
        "unix" | "http" | "https" | "ws" | "wss" => "remote",
        _ => {
            // The query may contain a password.
            let shown = model::text::excerpt(url.split('?').next().unwrap_or_default());
            let message = format!(
                "unknown database URL {shown:?}; use sqlite:FILE, sqlite::memory:, memory:, \
                 postgres://USER@HOST/DATABASE, mariadb://USER@HOST/DATABASE, \
                 mongodb://HOST/DATABASE, odbc:DSN=NAME, unix:PATH, http://HOST:PORT/api (or https:, ws:, wss:)"
            );
            return Error::new(ErrorKind::Invalid, message);
        }
    };
    let message = format!(
        "this build has no engine for `{scheme}:` URLs: enable the Cargo feature `{feature}` of \
         marmota"
    );
    Error::new(ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::{ErrorKind, unknown_engine};

    #[test]
    fn an_engine_that_is_not_built_in_names_its_feature() {
        for (url, feature) in [
            ("postgres://a@b/c", "`postgres`"),
            ("mongodb+srv://a/b", "`mongodb`"),
            ("mysql://a@b/c", "`mariadb`"),
            ("odbc:DSN=a;PWD=secret", "`odbc`"),
            ("http://a:1/api", "`remote`"),
        ] {
            let error = unknown_engine(url);
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{url}");
            assert!(error.message().contains(feature), "{}", error.message());
        }
        let error = unknown_engine("oracle:app?password=secret");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("\"oracle:app\"; use sqlite:FILE"), "{}", error.message());
    }
}
