//! The ODBC engine: databases that have an ODBC driver.
//!
//! The crate needs the driver manager `libodbc` when it is linked. The SQL of a database is a
//! [`Dialect`](marmota_blocking::Dialect), which is chosen by the name that the driver reports. The
//! crate `marmota-blocking` executes each operation on a thread of a pool (`docs/design/070`).
//!
//! ```no_run
//! use marmota_odbc::Odbc;
//! use marmota_store::Store;
//! let url = "odbc:Driver={PostgreSQL Unicode};Server=localhost;Database=app;UID=ada;PWD=secret";
//! let store = Store::builder(Odbc::from_url(url)?).open()?;
//! # Ok::<(), marmota_model::Error>(())
//! ```
#![forbid(unsafe_code)]

mod connection;
mod engine;
mod fault;
mod options;

pub use engine::Odbc;
pub use options::OdbcOptions;
