//! The guide: the pages of `docs/guide`, whose examples are compiled and run.

#[doc = include_str!("../../../docs/guide/02-models.md")]
pub mod models {}

#[doc = include_str!("../../../docs/guide/03-crud.md")]
pub mod store {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../../../docs/guide/05-raw-sql.md")]
pub mod sql {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../../../docs/guide/25-several-databases.md")]
pub mod databases {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../../../docs/guide/04-queries.md")]
pub mod filters {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../../../docs/guide/36-durability.md")]
pub mod durability {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../../../docs/guide/07-history.md")]
pub mod history {}

#[cfg(feature = "server")]
#[doc = include_str!("../../../docs/guide/35-metrics-and-logs.md")]
pub mod state {}

#[cfg(all(feature = "sqlite", feature = "auth"))]
#[doc = include_str!("../../../docs/guide/09-auth-and-rights.md")]
pub mod auth {}

#[cfg(feature = "postgres")]
#[doc = include_str!("../../../docs/guide/22-postgresql.md")]
pub mod postgres {}

#[cfg(feature = "server")]
#[doc = include_str!("../../../docs/guide/08-rest.md")]
pub mod rest {}

#[cfg(feature = "compression")]
#[doc = include_str!("../../../docs/guide/10-server.md")]
pub mod server {}

#[cfg(feature = "server")]
#[doc = include_str!("../../../docs/guide/12-middleware.md")]
pub mod layers {}

#[cfg(feature = "server")]
#[doc = include_str!("../../../docs/guide/13-files-and-forms.md")]
pub mod files {}

#[cfg(feature = "compression")]
#[doc = include_str!("../../../docs/guide/14-websockets.md")]
pub mod websockets {}

#[cfg(all(feature = "remote", feature = "auth"))]
#[doc = include_str!("../../../docs/guide/24-remote-stores.md")]
pub mod remote {}

#[cfg(feature = "services")]
#[doc = include_str!("../../../docs/guide/15-services.md")]
pub mod services {}

#[cfg(feature = "encryption")]
#[doc = include_str!("../../../docs/guide/37-encryption.md")]
pub mod encryption {}

#[doc = include_str!("../../../docs/guide/17-collections.md")]
pub mod collections {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../../../docs/guide/33-migrations.md")]
pub mod schema_change {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../../../docs/guide/34-backup.md")]
pub mod backup {}

#[cfg(feature = "command")]
#[doc = include_str!("../../../docs/guide/32-command-line.md")]
pub mod command {}

#[doc = include_str!("../../../docs/guide/16-csv.md")]
pub mod csv {}
