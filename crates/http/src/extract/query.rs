//! The parameters of a query.

use serde::de::DeserializeOwned;

use super::from_request::{FromRequest, refused};
use crate::message::request::Request;
use crate::message::response::Response;
use crate::proto::status::Status;

/// The parameters of the query (`?page=2&tag=a&tag=b`), as an argument: a struct with a field for
/// each. A parameter that may be missing is an `Option` or has `#[serde(default)]`, one that is
/// repeated is a `Vec`. Parameters without a field are ignored.
///
/// A query whose parameters do not fit `T` is answered 400. The error names the parameter.
///
/// ```
/// use marmota_http::Router;
/// use marmota_http::extract::Query;
///
/// #[derive(serde::Deserialize)]
/// struct Page {
///     page: Option<u32>,
/// }
///
/// async fn list(Query(query): Query<Page>) -> String {
///     format!("page {}", query.page.unwrap_or(1))
/// }
///
/// let router = Router::with_state(()).get("/list", list).router();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S> FromRequest<S> for Query<T> {
    fn from_request(request: &Request, _: &S) -> Result<Self, Response> {
        let parameters = serde_html_form::Deserializer::from_bytes(request.query().as_bytes());
        serde_path_to_error::deserialize(parameters).map(Self).map_err(|error| {
            let field = error.path().to_string();
            refused(Status::BAD_REQUEST, "the query", &field, error.inner())
        })
    }
}
