//! The trait of handler arguments, and two that are not parsed: the request and the state. A tuple
//! of up to eight extractors is an extractor, which is how [`crate::TypedHandler`] calls a handler.

use std::fmt::Display;

use crate::message::request::Request;
use crate::message::response::Response;
use crate::proto::status::Status;

/// A part of a request, or of the state `S` of its router, as an argument of a handler.
///
/// Extractors are synchronous: the whole body is there before the handler is called. They see the
/// request by reference, so several of them can read the same body.
///
/// ```
/// use marmota_http::extract::FromRequest;
/// use marmota_http::{Request, Response, Router, Status, TestRequest};
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
/// assert_eq!(router.call(TestRequest::get("/key").header("X-Key", "k7"))?.text(), "k7");
/// assert_eq!(router.call(TestRequest::get("/key"))?.status(), Status::UNAUTHORIZED);
/// # Ok::<(), marmota_http::CallError>(())
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

/// The state that was passed to [`Router::with_state`](crate::Router::with_state), cloned. Put
/// large values into an `Arc`.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use marmota_http::extract::State;
/// use marmota_http::{Router, TestRequest};
///
/// async fn count(State(counter): State<Arc<AtomicU64>>) -> String {
///     (counter.fetch_add(1, Ordering::Relaxed) + 1).to_string()
/// }
///
/// let router = Router::with_state(Arc::new(AtomicU64::new(0))).get("/count", count).router();
/// assert_eq!(router.call(TestRequest::get("/count"))?.text(), "1");
/// assert_eq!(router.call(TestRequest::get("/count"))?.text(), "2");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct State<S>(pub S);

impl<S: Clone> FromRequest<S> for State<S> {
    fn from_request(_: &Request, state: &S) -> Result<Self, Response> {
        Ok(Self(state.clone()))
    }
}

/// A value that a layer or a [wrapping function](crate::Router::wrap) has left with the request
/// ([`Request::set_extension`]), cloned. A request without one is answered by 500, because the
/// program is at fault.
///
/// ```
/// use marmota_http::extract::Extension;
/// use marmota_http::{Next, Request, Response, Router, TestRequest};
///
/// #[derive(Clone)]
/// struct User(String);
///
/// async fn identify(request: Request, next: Next) -> Response {
///     let name = request.header_text("x-user").unwrap_or("guest").to_owned();
///     let _ = request.set_extension(User(name));
///     next.run(request).await
/// }
///
/// async fn greet(Extension(user): Extension<User>) -> String {
///     format!("Hello, {}!", user.0)
/// }
///
/// let router = Router::with_state(()).get("/", greet).wrap(identify);
/// assert_eq!(router.call(TestRequest::get("/"))?.text(), "Hello, guest!");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Extension<T>(pub T);

impl<S, T: Clone + 'static> FromRequest<S> for Extension<T> {
    fn from_request(request: &Request, _: &S) -> Result<Self, Response> {
        request.extension().cloned().map(Self).ok_or_else(|| {
            let name = std::any::type_name::<T>();
            log::error!("no layer has set an extension of type {name} for {}", request.path());
            Response::from_status(Status::INTERNAL_SERVER_ERROR)
        })
    }
}

/// Implements the trait for tuples, whose parts are taken in order.
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

/// The maximum length of an answer's `detail`, in characters.
const DETAIL_CHARS_MAX: usize = 300;

/// Returns the answer to a malformed part: its place (`the body`), the field in it, and the error.
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
