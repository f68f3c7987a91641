//! Descriptions of routes for OpenAPI, from the types of their handlers.
//!
//! A handler that is wrapped in [`described`](crate::described) is described by its arguments
//! ([`DescribeRequest`]) and by its answer ([`DescribeResponse`]). Types in bodies, queries and
//! answers implement [`JsonSchema`](schemars::JsonSchema), which `#[derive(JsonSchema)]` does. Other
//! handlers need none of this. `OpenApi::routes` of `marmota-web` puts the descriptions into a
//! document.
//!
//! ```
//! use marmota_http::extract::{Json, Path, Query};
//! use marmota_http::{Router, Status, TestRequest, described};
//! use schemars::JsonSchema;
//!
//! /// How a task is shown.
//! #[derive(serde::Deserialize, JsonSchema)]
//! struct Options {
//!     /// In capital letters.
//!     #[serde(default)]
//!     upper: bool,
//! }
//!
//! #[derive(serde::Serialize, JsonSchema)]
//! struct Task {
//!     id: i64,
//!     title: String,
//! }
//!
//! async fn show(Path(id): Path<i64>, Query(options): Query<Options>) -> Result<Json<Task>, Status> {
//!     let title = if options.upper { "BUY MILK" } else { "Buy milk" }.to_owned();
//!     if id == 7 { Ok(Json(Task { id, title })) } else { Err(Status::NOT_FOUND) }
//! }
//!
//! let handler = described(show).summary("Shows a task").error(Status::NOT_FOUND, "No such task");
//! let router = Router::with_state(()).get("/tasks/{id:int}", handler).router();
//! assert_eq!(router.call(TestRequest::get("/tasks/7"))?.status(), Status::OK);
//!
//! let descriptions = router.descriptions();
//! let (_, path, operation) = &descriptions.operations[0];
//! assert_eq!(path, "/tasks/{id}");
//! assert_eq!(operation["operationId"], "show");
//! assert_eq!(operation["parameters"][0]["schema"]["format"], "int64");
//! assert_eq!(operation["parameters"][1]["description"], "In capital letters.");
//! assert!(descriptions.schemas["Task"]["properties"]["title"].is_object());
//! # Ok::<(), marmota_http::CallError>(())
//! ```

mod answers;
mod arguments;
mod description;

pub use description::RouteDescription;

/// Adds the description of a route.
pub(crate) type Describe = dyn Fn(&mut RouteDescription<'_>) + Send + Sync;

/// The description of a request by the type of an argument. Implement it for your own
/// [extractors](crate::extract); the default describes nothing.
///
/// ```
/// use marmota_http::describe::{DescribeRequest, RouteDescription};
/// use marmota_http::Status;
///
/// struct ApiKey(String);
///
/// impl DescribeRequest for ApiKey {
///     fn describe_request(route: &mut RouteDescription<'_>) {
///         route.header("X-Key", "The key of the program");
///         route.error(Status::UNAUTHORIZED, "The key is missing or unknown");
///     }
/// }
/// ```
pub trait DescribeRequest {
    /// Adds what the argument takes from the request, and the errors if it is missing.
    fn describe_request(_: &mut RouteDescription<'_>) {}
}

/// The description of an answer by its type. Implement it for your own types with
/// [`IntoResponse`](crate::IntoResponse); the default describes nothing.
///
/// ```
/// use marmota_http::describe::{DescribeResponse, RouteDescription};
/// use marmota_http::{IntoResponse, Response, Status};
///
/// struct Csv(String);
///
/// impl IntoResponse for Csv {
///     fn into_response(self) -> Response {
///         Response::with_body("text/csv", self.0)
///     }
/// }
///
/// impl DescribeResponse for Csv {
///     fn describe_response(route: &mut RouteDescription<'_>) {
///         route.text_response(Status::OK, "The rows", "text/csv");
///     }
/// }
/// ```
pub trait DescribeResponse {
    /// Adds the answers.
    fn describe_response(_: &mut RouteDescription<'_>) {}
}
