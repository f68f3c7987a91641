//! The MariaDB and MySQL engine.
//!
//! Models are tables with columns of their own types; names are quoted as in standard SQL. The crate
//! `marmota-blocking` executes each operation on a thread of a pool, with a connection of the driver
//! `mysql`, which waits for the server (`docs/design/064`).
//!
//! ```no_run
//! use marmota_mariadb::Mariadb;
//! use marmota_store::Store;
//! let store = Store::builder(Mariadb::from_url("mariadb://ada@localhost/app")?).open()?;
//! # Ok::<(), marmota_model::Error>(())
//! ```
#![deny(unsafe_code)]

mod answer;
mod connection;
mod engine;
mod fault;
mod options;
mod packets;
mod pipeline;
mod request;
mod row;
#[allow(unsafe_code, reason = "the driver gives the number of its socket only")]
mod socket;
mod statements;
mod stepped;
#[cfg(feature = "temporary-server")]
mod temporary;
mod value;

pub use engine::Mariadb;
pub use marmota_sql::TargetServer;
pub use options::MariadbOptions;
#[cfg(feature = "temporary-server")]
pub use temporary::TemporaryMariadb;
