//! Typed parts of a request as the arguments of a handler: the state of a router, parameters of the
//! path and the query, JSON bodies and HTML forms.
//!
//! ```
//! use marmota_http::Router;
//! use marmota_http::extract::{Json, Path, Query, State};
//!
//! #[derive(serde::Deserialize)]
//! struct Options {
//!     #[serde(default)]
//!     loud: bool,
//! }
//!
//! async fn greet(
//!     State(greeting): State<String>,
//!     Path(name): Path<String>,
//!     Query(options): Query<Options>,
//! ) -> Json<String> {
//!     let text = format!("{greeting}, {name}!");
//!     Json(if options.loud { text.to_uppercase() } else { text })
//! }
//!
//! let router = Router::with_state("Hello".to_owned()).get("/greet/{name}", greet).router();
//! ```

mod body;
mod from_request;
mod path;
mod query;

pub use body::{Form, Json};
pub use from_request::{FromRequest, State};
pub use path::Path;
pub use query::Query;
