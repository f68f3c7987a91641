//! The trait of handler arguments, and two that are not parsed: the request and the state.

use std::fmt::Display;

use crate::message::request::Request;
use crate::message::response::Response;
use crate::proto::status::Status;

/// A part of a request, or of the state `S` of its router, as an argument of a handler.
///
/// ```
/// use marmota_http::extract::FromRequest;
/// use marmota_http::{Request, Response, Router, Status};
///
/// struct ApiKey(String);
///
/// impl<S> FromRequest<S> for ApiKey {
///     fn from_request(request: &Request, _: &S) -> Result<Self, Response> {
///         match request.header_text("x-key") {
///             Some(key) => Ok(Self(key.to_owned())),
///             None => Err(Response::problem(Status::UNAUTHORIZED, "send a key in X-Key")),
///         }
///     }
/// }
///
/// let router = Router::with_state(()).get("/key", |key: ApiKey| async move { key.0 }).router();
/// ```
pub trait FromRequest<S>: Sized {
    /// Returns the part.
    ///
    /// # Errors
    /// The answer to a request that lacks it; the handler is then not called.
    fn from_request(request: &Request, state: &S) -> Result<Self, Response>;
}

impl<S> FromRequest<S> for Request {
    fn from_request(request: &Request, _: &S) -> Result<Self, Response> {
        Ok(request.clone())
    }
}

/// The state passed to [`Router::with_state`](crate::Router::with_state).
#[derive(Clone, Copy, Debug)]
pub struct State<S>(pub S);

impl<S: Clone> FromRequest<S> for State<S> {
    fn from_request(_: &Request, state: &S) -> Result<Self, Response> {
        Ok(Self(state.clone()))
    }
}

macro_rules! tuples {
    ($(($($part:ident)*))*) => {
        $(impl<S, $($part: FromRequest<S>),*> FromRequest<S> for ($($part,)*) {
            #[allow(unused_variables, reason = "the empty tuple uses neither")]
            fn from_request(request: &Request, state: &S) -> Result<Self, Response> {
                Ok(($($part::from_request(request, state)?,)*))
            }
        })*
    };
}

tuples! { () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H) }

/// The longest `detail` of an answer, in characters.
const DETAIL_CHARS_MAX: usize = 300;

/// Returns the answer to a malformed part, with its place (`the body: `) and the error.
pub(super) fn refused(status: Status, place: &str, field: &str, error: &dyn Display) -> Response {
    // serde's path to the value itself is a dot.
    let detail = match field {
        "" | "." | "?" => format!("{place}: {error}"),
        field => format!("{place}: `{field}`: {error}"),
    };
    // An error of serde can contain the value, which may be as long as the body.
    let end = detail.char_indices().nth(DETAIL_CHARS_MAX).map_or(detail.len(), |(end, _)| end);
    Response::problem(status, &detail[..end])
}
