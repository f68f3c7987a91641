//! Typed parts of a request as the arguments of a handler: the state of a router, parameters of the
//! path and the query, JSON bodies and HTML forms.
//!
//! A handler of [`Router::with_state`](crate::Router::with_state) is an asynchronous function of up
//! to eight extractors. They are called in order; the first that fails answers the request with a
//! problem document (RFC 9457), and the handler is not called. Your own types become extractors by
//! [`FromRequest`], or by [`FromRequestLater`] if they have to wait, and `Option` of them by
//! [`OptionalFromRequest`].
//!
//! | extractor | takes | answer to an invalid value |
//! |---|---|---|
//! | [`State`] | the router's state, cloned | – |
//! | [`Path`] | the parameters of the pattern | 404 |
//! | [`Query`] | the parameters of the query | 400 |
//! | [`Json`] | the body as JSON | 400, 415, 422 |
//! | [`Form`] | the body as an HTML form | 422 |
//! | [`Extension`] | a value that a layer has left with the request | 500 |
//! | [`Request`](crate::Request) | the whole request | – |
//!
//! ```
//! use marmota_http::extract::{Json, Path, Query, State};
//! use marmota_http::{Router, Status, TestRequest};
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
//! let answer = router.call(TestRequest::get("/greet/Ada?loud=true"))?;
//! assert_eq!(answer.text(), "\"HELLO, ADA!\"");
//! let refused = router.call(TestRequest::get("/greet/Ada?loud=very"))?;
//! assert_eq!(refused.status(), Status::BAD_REQUEST);
//! assert!(refused.text().contains("`loud`"), "the error names the parameter");
//! # Ok::<(), marmota_http::CallError>(())
//! ```

mod body;
#[cfg(feature = "schemars")]
pub mod describe;
mod from_request;
mod later;
mod path;
mod query;

pub use body::{Form, Json};
pub use from_request::{Extension, FromRequest, State};
pub use later::{AtOnce, Extractor, FromRequestLater, Later, OptionalFromRequest};
pub use path::Path;
pub use query::Query;
