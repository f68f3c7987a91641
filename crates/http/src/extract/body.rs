//! The extractors of bodies: [`Json`], which is an answer too, and [`Form`]. Both read the whole
//! body, whose length [`Limits::body_bytes_max`](crate::Limits::body_bytes_max) or the endpoint
//! limits.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::from_request::{FromRequest, refused};
use crate::message::request::Request;
use crate::message::response::{IntoResponse, Response};
use crate::proto::status::Status;

/// A value as JSON: as an argument, the request's body; as an answer, the response's, with the
/// media type `application/json`.
///
/// A request from a page of another site is answered 403 ([`Request::check_site`]), one with a body
/// of another type 415 ([`Request::check_json`]), a body that is not JSON 400, and one whose fields
/// have other types than `T`'s 422. The error names the field. A value that cannot be written as
/// JSON, such as a map with keys that are not texts, is logged and answered 500.
///
/// ```
/// use marmota_http::extract::Json;
/// use marmota_http::{Router, Status, TestRequest};
///
/// #[derive(serde::Deserialize)]
/// struct Sum {
///     numbers: Vec<f64>,
/// }
///
/// async fn sum(Json(sum): Json<Sum>) -> Json<f64> {
///     Json(sum.numbers.iter().sum())
/// }
///
/// let router = Router::with_state(()).post("/sum", sum).router();
/// let request = TestRequest::post("/sum").header("Content-Type", "application/json");
/// let answer = router.call(request.clone().body(r#"{"numbers": [1, 2.5]}"#))?;
/// assert_eq!(answer.text(), "3.5");
/// let refused = router.call(request.body(r#"{"numbers": [1, "x"]}"#))?;
/// assert_eq!(refused.status(), Status::UNPROCESSABLE_CONTENT);
/// assert!(refused.text().contains("numbers[1]"));
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S> FromRequest<S> for Json<T> {
    fn from_request(request: &Request, _: &S) -> Result<Self, Response> {
        request.check_site().map_err(IntoResponse::into_response)?;
        request.check_json().map_err(IntoResponse::into_response)?;
        let mut json = serde_json::Deserializer::from_slice(request.body());
        let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let (field, inner) = (error.path().to_string(), error.inner());
            let status = match inner.is_data() {
                true => Status::UNPROCESSABLE_CONTENT,
                false => Status::BAD_REQUEST,
            };
            refused(status, "the body", &field, inner)
        })?;
        // Only whitespace may follow the value.
        let end = json.end();
        end.map_err(|error| refused(Status::BAD_REQUEST, "the body", "", &error))?;
        Ok(Self(value))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(json) => Response::json_bytes(json),
            Err(error) => {
                log::error!("an answer cannot be written as JSON: {error}");
                Response::from_status(Status::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

/// The fields of an HTML form (`application/x-www-form-urlencoded`), as an argument. For file
/// uploads, use [`Multipart`](crate::Multipart).
///
/// A request from a page of another site is answered 403 ([`Request::check_site`]), a form whose
/// fields do not fit `T` 422. The error names the field. A field that is repeated is a `Vec`, one
/// that may be missing an `Option`.
///
/// ```
/// use marmota_http::extract::Form;
/// use marmota_http::{Router, Status, TestRequest};
///
/// #[derive(serde::Deserialize)]
/// struct Task {
///     title: String,
/// }
///
/// async fn add(Form(task): Form<Task>) -> String {
///     format!("added {}", task.title)
/// }
///
/// let router = Router::with_state(()).post("/tasks", add).router();
/// let answer = router.call(TestRequest::post("/tasks").body("title=Buy+milk"))?;
/// assert_eq!(answer.text(), "added Buy milk");
/// let refused = router.call(TestRequest::post("/tasks").body("name=x"))?;
/// assert_eq!(refused.status(), Status::UNPROCESSABLE_CONTENT);
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Form<T>(pub T);

impl<T: DeserializeOwned, S> FromRequest<S> for Form<T> {
    fn from_request(request: &Request, _: &S) -> Result<Self, Response> {
        request.check_site().map_err(IntoResponse::into_response)?;
        let fields = serde_html_form::Deserializer::from_bytes(request.body());
        serde_path_to_error::deserialize(fields).map(Self).map_err(|error| {
            let field = error.path().to_string();
            refused(Status::UNPROCESSABLE_CONTENT, "the form", &field, error.inner())
        })
    }
}
