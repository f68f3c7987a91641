//! The guide: the pages of `docs/guide`, whose examples are compiled and run.

#[doc = include_str!("../../../docs/guide/models.md")]
pub mod models {}

#[doc = include_str!("../../../docs/guide/store.md")]
pub mod store {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../../../docs/guide/sql.md")]
pub mod sql {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../../../docs/guide/databases.md")]
pub mod databases {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../../../docs/guide/filters.md")]
pub mod filters {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../../../docs/guide/durability.md")]
pub mod durability {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../../../docs/guide/history.md")]
pub mod history {}

#[cfg(feature = "server")]
#[doc = include_str!("../../../docs/guide/state.md")]
pub mod state {}

#[cfg(all(feature = "sqlite", feature = "auth"))]
#[doc = include_str!("../../../docs/guide/auth.md")]
pub mod auth {}

#[cfg(feature = "postgres")]
#[doc = include_str!("../../../docs/guide/postgres.md")]
pub mod postgres {}

#[cfg(feature = "server")]
#[doc = include_str!("../../../docs/guide/rest.md")]
pub mod rest {}

#[cfg(feature = "compression")]
#[doc = include_str!("../../../docs/guide/server.md")]
pub mod server {}

#[cfg(feature = "server")]
#[doc = include_str!("../../../docs/guide/layers.md")]
pub mod layers {}

#[cfg(feature = "server")]
#[doc = include_str!("../../../docs/guide/files.md")]
pub mod files {}

#[cfg(feature = "compression")]
#[doc = include_str!("../../../docs/guide/websockets.md")]
pub mod websockets {}

#[cfg(all(feature = "remote", feature = "auth"))]
#[doc = include_str!("../../../docs/guide/remote.md")]
pub mod remote {}

#[cfg(feature = "services")]
#[doc = include_str!("../../../docs/guide/services.md")]
pub mod services {}

#[cfg(feature = "encryption")]
#[doc = include_str!("../../../docs/guide/encryption.md")]
pub mod encryption {}

#[doc = include_str!("../../../docs/guide/collections.md")]
pub mod collections {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../../../docs/guide/schema-change.md")]
pub mod schema_change {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../../../docs/guide/backup.md")]
pub mod backup {}

#[cfg(feature = "command")]
#[doc = include_str!("../../../docs/guide/command.md")]
pub mod command {}

#[doc = include_str!("../../../docs/guide/csv.md")]
pub mod csv {}
