//! The parts that REST and services share on the web server: errors as problem documents,
//! authentication of requests, and OpenAPI documents.
//!
//! | part | items |
//! |---|---|
//! | errors as responses (RFC 9457) | [`ApiError`], [`ApiResult`], [`problem`], [`ErrorDocument`], [`public_message`] |
//! | authentication by bearer token (RFC 6750) or cookie | `authenticate`, `store_for_caller`, `request_token`, `session_cookie`, `admin_endpoint` (feature `auth`); [`bearer_token`], [`is_same_token`] |
//! | arguments of handlers that act for the caller | [`extract`] |
//! | OpenAPI 3.1 documents | [`OpenApi`] |
//!
//! The crate stands above the web server (`marmota-http`) and the store (`marmota-store`), and knows
//! neither REST nor services. Programs reach it through `marmota_rest`, which exports
//! the items for users again.
//!
//! A handler that fails with a model's error answers a problem document with the status of the
//! error's kind:
//!
//! ```
//! use marmota_http::{Request, Router, TestRequest};
//! use marmota_model::{Error, ErrorKind};
//! use marmota_web::ApiError;
//!
//! async fn find(_: Request) -> Result<String, ApiError> {
//!     Err(Error::new(ErrorKind::NotFound, "there is no report of today"))?
//! }
//!
//! let answer = Router::new().get("/report", find).call(TestRequest::get("/report"))?;
//! assert_eq!(answer.status().code(), 404);
//! assert_eq!(answer.header("content-type"), Some("application/problem+json"));
//! assert!(answer.text().contains("\"detail\":\"there is no report of today\""));
//! # Ok::<(), marmota_http::CallError>(())
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "auth")]
mod admin_endpoint;
mod api_error;
#[cfg(feature = "auth")]
mod authentication;
mod bearer;
#[cfg(feature = "auth")]
mod cookie;
mod error_document;
pub mod extract;
mod open_api;

#[cfg(feature = "auth")]
pub use admin_endpoint::admin_endpoint;
pub use api_error::{ApiError, ApiResult, problem};
#[cfg(feature = "auth")]
pub use authentication::{
    AuthenticatingRequest, StoreForCaller, authenticate, request_token, store_for_caller,
};
pub use bearer::{bearer_token, is_same_token};
#[cfg(feature = "auth")]
pub use cookie::{session_cookie, sign_in_cookie, sign_in_secret};
pub use error_document::{ErrorDocument, public_message};
pub use open_api::OpenApi;
