//! Application files: the tables, groups and rights of an application as text, in TOML or JSON, and
//! the settings of a program as text.
//!
//! An application file does for a program without Rust code what `#[derive(Model)]` does for a Rust
//! program: both result in [`Schema`](marmota_model::Schema) values, and everything after that is
//! the same.
//!
//! ```
//! use marmota_app::AppFile;
//! use marmota_memory::Memory;
//! use marmota_store::Store;
//!
//! let app = AppFile::parse_toml(r#"
//!     [tables.person.fields]
//!     id = { kind = "integer", role = "key" }
//!     name = { kind = "text", max = 80, not_empty = true }
//!     born = { kind = "date", nullable = true }
//! "#)?;
//! let store = app.add_to(Store::builder(Memory::new())).open()?;
//! assert_eq!(store.table("person")?.schema().fields.len(), 3);
//! # Ok::<(), marmota_model::Error>(())
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "adopt")]
mod adopt;
mod app_file;
mod document;
mod fault;
mod from_schema;
mod into_schema;
mod scalar;
#[cfg(feature = "settings")]
pub mod settings;
mod toml_text;
mod webhook;

#[cfg(feature = "adopt")]
pub use adopt::{AdoptRemark, AdoptedDatabase};
pub use app_file::{AppFile, AppFormat, AppGroup};
pub use webhook::AppWebhook;
