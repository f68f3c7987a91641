//! REST over any registered model, and errors as responses.
//!
//! [`api()`] returns a [`Router`] for the complete API (`docs/guide/08-rest.md`): rows, lists with
//! filters and keyset pages, blobs, increments, batches. A request becomes an operation on the
//! registry's snapshot; the rows that the engine returns are written as JSON into the response. No
//! struct is created, and with an engine that completes at once nothing is awaited.
//!
//! [`ApiError`] and [`problem`] provide the same errors for custom handlers. [`Diagnostics`] adds
//! statistics, metrics and health checks.
//!
//! ```
//! # use marmota_memory::Memory;
//! # use marmota_model::{Field, Kind, Role, Schema};
//! # use marmota_store::Store;
//! # let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
//! # let store = Store::builder(Memory::new()).schema(Schema::new("city", fields)).open()?;
//! use marmota_http::{Status, TestRequest};
//!
//! let router = marmota_rest::api(&store);
//! let insert = TestRequest::post("/api/city").header("Content-Type", "application/json");
//! assert_eq!(router.call(insert.body(r#"{"name":"Rome"}"#))?.status(), Status::CREATED);
//! let list = router.call(TestRequest::get("/api/city?filter=name~'Rom'&fields=name"))?;
//! assert_eq!(list.text(), r#"{"rows":[{"name":"Rome"}],"next":null}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! On a server:
//!
//! ```no_run
//! use marmota_http::Server;
//! # fn serve(store: marmota_store::Store) -> Result<(), Box<dyn std::error::Error>> {
//! Server::bind("127.0.0.1:8080")?.run(marmota_rest::api(&store))?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "auth")]
mod account_routes;
mod api;
mod batches;
mod diagnostics;
mod documents;
mod endpoints;
mod expand;
#[cfg(feature = "files")]
mod file_endpoints;
#[cfg(feature = "files")]
mod files;
mod protocol;
mod reactor;
mod request;
mod rows;

pub use api::{Api, api, tenants};
pub use diagnostics::{Diagnostics, LogLevels};
pub use marmota_web::{
    ApiError, ApiResult, ErrorDocument, OpenApi, extract, problem, public_message,
};
#[cfg(feature = "auth")]
pub use marmota_web::{AuthenticatingRequest, admin_endpoint, authenticate};
pub use reactor::watch_engines;

#[cfg(doc)]
use marmota_http::Router;
