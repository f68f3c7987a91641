//! The values that a handler may return, as answers.
//!
//! Errors of this crate with a meaning for the client implement [`IntoResponse`] too: here, or next
//! to their type.

use std::borrow::Cow;

use crate::body::body_buffer::BodyError;
use crate::message::response::Response;
use crate::proto::header::HeaderError;
use crate::proto::status::Status;

/// A value that a handler may return. Texts are a 200, a [`Status`] is an answer with its name,
/// `()` is a 204, and a `Result` is either of its values.
///
/// ```
/// use marmota_http::{IntoResponse, Request, Response, Router, Status, TestRequest};
///
/// enum AppError {
///     NotFound,
/// }
///
/// impl IntoResponse for AppError {
///     fn into_response(self) -> Response {
///         Response::problem(Status::NOT_FOUND, "no such task")
///     }
/// }
///
/// async fn task(request: Request) -> Result<String, AppError> {
///     match request.param_int("id") {
///         Some(1) => Ok("the first".to_owned()),
///         _ => Err(AppError::NotFound),
///     }
/// }
///
/// let router = Router::new().get("/tasks/{id:int}", task);
/// assert_eq!(router.call(TestRequest::get("/tasks/1"))?.text(), "the first");
/// assert_eq!(router.call(TestRequest::get("/tasks/2"))?.status(), Status::NOT_FOUND);
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub trait IntoResponse {
    /// Returns the answer that represents this value.
    ///
    /// ```
    /// use marmota_http::{IntoResponse, Status};
    /// assert_eq!("text".into_response().status(), Status::OK);
    /// assert_eq!(().into_response().status(), Status::NO_CONTENT);
    /// assert_eq!(Err::<(), Status>(Status::GONE).into_response().status(), Status::GONE);
    /// ```
    fn into_response(self) -> Response;
}

impl IntoResponse for Response {
    fn into_response(self) -> Response {
        self
    }
}

impl IntoResponse for Status {
    fn into_response(self) -> Response {
        Response::from_status(self)
    }
}

impl IntoResponse for &'static str {
    fn into_response(self) -> Response {
        Response::text(self)
    }
}

impl IntoResponse for String {
    fn into_response(self) -> Response {
        Response::text(self)
    }
}

/// A page as the answer of a handler, as [`Response::html`] makes it.
///
/// ```
/// use marmota_http::{Html, Router, TestRequest};
/// let router = Router::new().get("/", |_| async { Html("<p>Hello</p>") });
/// let answer = router.call(TestRequest::get("/"))?;
/// assert_eq!(answer.header("Content-Type"), Some("text/html; charset=utf-8"));
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Html<T>(pub T);

impl<T: Into<Cow<'static, str>>> IntoResponse for Html<T> {
    fn into_response(self) -> Response {
        Response::html(self.0)
    }
}

impl IntoResponse for () {
    fn into_response(self) -> Response {
        Response::new(Status::NO_CONTENT)
    }
}

impl IntoResponse for HeaderError {
    fn into_response(self) -> Response {
        Response::from_status(Status::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for std::convert::Infallible {
    fn into_response(self) -> Response {
        match self {}
    }
}

impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self) -> Response {
        match self {
            Ok(value) => value.into_response(),
            Err(error) => error.into_response(),
        }
    }
}

impl IntoResponse for BodyError {
    fn into_response(self) -> Response {
        let mut answer = Response::problem(self.status(), &self.to_string());
        if self == Self::NoRoom {
            // A constant is always a header.
            let _ = answer.add_header("Retry-After".into(), b"1"[..].into());
        }
        answer
    }
}
