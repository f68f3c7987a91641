//! The guide: the pages of `docs/guide`, whose examples are compiled and run.
//!
//! Each module below is private and has one page as its documentation, so that `cargo test --doc`
//! runs the page's examples. The folder `crates/marmota/guide` is a link to `docs/guide`, because a
//! package contains only files of its own folder. A page with examples for a feature that is off by
//! default is compiled only with that feature. `cargo xtask tidy` checks that no page is missing.
//!
//! The number of a page does not change. The README of the folder has the order of the pages, by
//! subject: page 26 belongs to the pages 18 and 19, which are about changes.

#[cfg(all(feature = "sqlite", feature = "server"))]
#[doc = include_str!("../guide/01-getting-started.md")]
pub mod getting_started {}

#[doc = include_str!("../guide/02-models.md")]
pub mod models {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../guide/03-crud.md")]
pub mod crud {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../guide/04-queries.md")]
pub mod queries {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../guide/29-relations.md")]
pub mod relations {}

/// Relevance, extracts, vectors.
#[cfg(feature = "sqlite")]
#[doc = include_str!("../guide/44-search.md")]
pub mod search {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../guide/05-raw-sql.md")]
pub mod raw_sql {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../guide/06-transactions-and-batches.md")]
pub mod transactions_and_batches {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../guide/07-history.md")]
pub mod history {}

#[cfg(feature = "server")]
#[doc = include_str!("../guide/08-rest.md")]
pub mod rest {}

#[cfg(all(feature = "sqlite", feature = "auth"))]
#[doc = include_str!("../guide/09-auth-and-rights.md")]
pub mod auth_and_rights {}

#[cfg(all(feature = "server", feature = "tls"))]
#[doc = include_str!("../guide/10-server.md")]
pub mod server {}

#[cfg(all(feature = "sqlite", feature = "compression"))]
#[doc = include_str!("../guide/11-handlers.md")]
pub mod handlers {}

#[cfg(feature = "server")]
#[doc = include_str!("../guide/12-middleware.md")]
pub mod middleware {}

#[cfg(feature = "server")]
#[doc = include_str!("../guide/13-files-and-forms.md")]
pub mod files_and_forms {}

#[cfg(feature = "schemars")]
#[doc = include_str!("../guide/58-custom-routes-in-openapi.md")]
pub mod custom_routes_in_openapi {}

#[cfg(feature = "compression")]
#[doc = include_str!("../guide/14-websockets.md")]
pub mod websockets {}

#[cfg(feature = "services")]
#[doc = include_str!("../guide/15-services.md")]
pub mod services {}

#[cfg(feature = "columns")]
#[doc = include_str!("../guide/16-csv.md")]
pub mod csv {}

#[cfg(feature = "collections")]
#[doc = include_str!("../guide/17-collections.md")]
pub mod collections {}

#[doc = include_str!("../guide/18-live-queries.md")]
pub mod live_queries {}

#[cfg(all(feature = "sqlite", feature = "server"))]
#[doc = include_str!("../guide/19-change-feed.md")]
pub mod change_feed {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../guide/20-sqlite.md")]
pub mod sqlite {}

#[doc = include_str!("../guide/21-memory.md")]
pub mod memory {}

#[cfg(feature = "postgres")]
#[doc = include_str!("../guide/22-postgresql.md")]
pub mod postgresql {}

#[cfg(feature = "mariadb")]
#[doc = include_str!("../guide/52-mariadb.md")]
pub mod mariadb {}

#[cfg(feature = "odbc")]
#[doc = include_str!("../guide/56-odbc.md")]
pub mod odbc {}

#[cfg(all(feature = "remote", feature = "auth"))]
#[doc = include_str!("../guide/24-remote-stores.md")]
pub mod remote_stores {}

#[cfg(all(feature = "sqlite", feature = "server"))]
#[doc = include_str!("../guide/25-several-databases.md")]
pub mod several_databases {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../guide/26-hooks.md")]
pub mod hooks {}

#[cfg(all(feature = "sqlite", feature = "jobs"))]
#[doc = include_str!("../guide/27-jobs.md")]
pub mod jobs {}

#[cfg(feature = "replication")]
#[doc = include_str!("../guide/28-replication.md")]
pub mod replication {}

#[cfg(all(feature = "sqlite", feature = "server"))]
#[doc = include_str!("../guide/30-configuration.md")]
pub mod configuration {}

#[cfg(feature = "command")]
#[doc = include_str!("../guide/31-deployment.md")]
pub mod deployment {}

#[cfg(feature = "command")]
#[doc = include_str!("../guide/32-command-line.md")]
pub mod command_line {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../guide/33-migrations.md")]
pub mod migrations {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../guide/34-backup.md")]
pub mod backup {}

#[cfg(feature = "server")]
#[doc = include_str!("../guide/35-metrics-and-logs.md")]
pub mod metrics_and_logs {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../guide/36-durability.md")]
pub mod durability {}

#[cfg(feature = "encryption")]
#[doc = include_str!("../guide/37-encryption.md")]
pub mod encryption {}

#[cfg(feature = "sqlite")]
#[doc = include_str!("../guide/38-cache.md")]
pub mod cache {}

#[doc = include_str!("../guide/39-stress-tests.md")]
pub mod stress_tests {}

#[cfg(all(feature = "sqlite", feature = "server", feature = "auth", feature = "services"))]
#[doc = include_str!("../guide/40-testing.md")]
pub mod testing {}

#[doc = include_str!("../guide/41-writing-an-engine.md")]
pub mod writing_an_engine {}

#[cfg(feature = "server")]
#[doc = include_str!("../guide/42-errors.md")]
pub mod errors {}

#[cfg(feature = "files")]
#[doc = include_str!("../guide/43-files.md")]
pub mod files_in_rows {}

#[cfg(feature = "app")]
#[doc = include_str!("../guide/45-application-files.md")]
pub mod application_files {}

#[doc = include_str!("../guide/48-clients.md")]
pub mod clients {}

#[cfg(all(feature = "admin", feature = "sqlite"))]
#[doc = include_str!("../guide/46-admin.md")]
pub mod administration {}

#[cfg(feature = "mail")]
#[doc = include_str!("../guide/47-accounts.md")]
pub mod accounts_for_the_public {}

#[cfg(feature = "providers")]
#[doc = include_str!("../guide/54-sign-in.md")]
pub mod sign_in_with_providers {}

#[cfg(feature = "passkeys")]
#[doc = include_str!("../guide/57-passkeys.md")]
pub mod passkeys {}

#[cfg(feature = "webhooks")]
#[doc = include_str!("../guide/49-webhooks.md")]
pub mod webhooks {}

#[cfg(feature = "mcp")]
#[doc = include_str!("../guide/50-agents.md")]
pub mod agents {}

#[doc = include_str!("../guide/51-settings.md")]
pub mod settings {}

#[doc = include_str!("../guide/53-c-and-pascal.md")]
pub mod c_and_pascal {}
#[doc = include_str!("../guide/55-existing-databases.md")]
pub mod existing_databases {}

#[cfg(feature = "postgres")]
#[doc = include_str!("../guide/59-clusters.md")]
pub mod clusters {}

#[cfg(feature = "command")]
#[doc = include_str!("../guide/60-live-moves.md")]
pub mod live_moves {}
