//! The extractor [`Query`] of the parameters of a query.

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
/// use marmota_http::extract::Query;
/// use marmota_http::{Router, Status, TestRequest};
///
/// #[derive(serde::Deserialize)]
/// struct Page {
///     page: Option<u32>,
///     #[serde(default)]
///     tag: Vec<String>,
/// }
///
/// async fn list(Query(query): Query<Page>) -> String {
///     format!("page {} of {:?}", query.page.unwrap_or(1), query.tag)
/// }
///
/// let router = Router::with_state(()).get("/list", list).router();
/// assert_eq!(router.call(TestRequest::get("/list"))?.text(), "page 1 of []");
/// let answer = router.call(TestRequest::get("/list?page=2&tag=a&tag=b"))?;
/// assert_eq!(answer.text(), r#"page 2 of ["a", "b"]"#);
/// assert_eq!(router.call(TestRequest::get("/list?page=x"))?.status(), Status::BAD_REQUEST);
/// # Ok::<(), marmota_http::CallError>(())
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
