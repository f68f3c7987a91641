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
//! This crate only gathers the others and gives them their names:
//! [`model`] (schemas, values, rows), [`store`] (operations, engines),
//! [`http`] (the server), [`rest`] (REST over models), [`collections`] (lists
//! and maps for a program's own data), [`columns`] and [`csv`] (files of rows,
//! loaded to be read).
#![forbid(unsafe_code)]

#[cfg(feature = "command")]
pub mod command;
pub mod guide;

pub use marmota_collections as collections;
pub use marmota_columns as columns;
pub use marmota_columns::csv;
pub use marmota_derive::{Model, ModelEnum};
pub use marmota_model as model;
pub use marmota_model::{Error, ErrorKind, Result};
pub use marmota_store as store;

#[cfg(feature = "server")]
pub use marmota_http as http;
#[cfg(feature = "server")]
pub use marmota_rest as rest;
#[cfg(feature = "sqlite")]
pub use marmota_sqlite as sqlite;

use marmota_store::StoreBuilder;

/// What most programs use, to be imported whole.
pub mod prelude {
    #[cfg(feature = "server")]
    pub use marmota_http::{Flow, Method, Request, Response, Router, Server, Status};
    pub use marmota_model::Model as _;
    pub use marmota_model::{
        Blob, Currency, Date, Error, ErrorKind, Filter, Json, Query, Record, Ref, Result, Time,
        Timestamp, Uuid, Value,
    };
    #[cfg(feature = "server")]
    pub use marmota_rest::{self as rest, ApiError};
    pub use marmota_store::operation::Effect;
    pub use marmota_store::{Store, Transaction};

    pub use crate::{Model, ModelEnum};
}

/// Begins to open a store by the URL of its engine; the same program runs on
/// any of them.
///
/// | URL | engine |
/// |---|---|
/// | `sqlite:data/app.db` | a SQLite file, durable by default |
/// | `sqlite::memory:` | SQLite in memory |
/// | `memory:` | the memory engine |
/// | `memory:data/app.mem` | the memory engine, loaded at the start and saved at the end |
/// | `memory:data/app.mem?durability=full` | the memory engine with a log: durable as SQLite is |
///
/// With the feature `encryption` a file is encrypted (SQLite's, or a binary one
/// of the memory engine) if the environment has `MARMOTA_KEY`, or the variable
/// that `?key_env=NAME` names.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL of no engine, naming those there are.
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
/// # Ok::<(), Error>(())
/// ```
pub fn open(url: &str) -> Result<StoreBuilder> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => Ok(marmota_store::Store::builder(marmota_sqlite::Sqlite::from_url(url)?)),
        Some("memory") => {
            Ok(marmota_store::Store::builder(marmota_store::memory::Memory::from_url(url)?))
        }
        _ => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "{:?} is the URL of no engine here; use sqlite:FILE, sqlite::memory: or memory:",
                // What stands behind the `?` may be no one else's business.
                model::text::excerpt(url.split('?').next().unwrap_or_default())
            ),
        )),
    }
}

/// Makes a database what a backup has: compares the backup with its manifest,
/// checks it, and puts it in the place that the URL names. What is there is
/// replaced only if `replaces` says so, and nobody may have it open.
/// Whenever this is interrupted, the database is the old one or the new one,
/// whole.
///
/// # Errors
/// - [`ErrorKind::NotFound`] if there is no finished backup of this name.
/// - [`ErrorKind::Engine`] if it is damaged.
/// - [`ErrorKind::Invalid`] if it is of another engine than the URL.
/// - [`ErrorKind::Conflict`] if there is a database and it is not to be
///   replaced, [`ErrorKind::Busy`] if it is open elsewhere.
/// - [`ErrorKind::Io`] if the disk fails or is full.
pub fn restore(
    backup: impl AsRef<std::path::Path>,
    url: &str,
    replaces: bool,
) -> Result<store::backup::Manifest> {
    let backup = backup.as_ref();
    let manifest = store::backup::Manifest::of(backup)?;
    let scheme = url.split(':').next().unwrap_or_default();
    if scheme != manifest.engine {
        let message = format!(
            "{} is a backup of a database of the engine `{}`: restore it to a URL that begins so",
            backup.display(),
            model::text::excerpt(&manifest.engine)
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    manifest.verify(backup)?;
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" => marmota_sqlite::Sqlite::restore(url, backup, &manifest, replaces)?,
        "memory" => marmota_store::memory::Memory::restore(url, backup, &manifest, replaces)?,
        _ => {
            let message = format!("this build has no engine `{}`", model::text::excerpt(scheme));
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    }
    Ok(manifest)
}
