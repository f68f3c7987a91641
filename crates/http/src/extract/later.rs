//! Extractors that have to wait, for a database for example, and those that may be missing. Both
//! kinds of extractors are arguments of handlers through [`Extractor`].

use std::future::{Future, ready};

use super::from_request::FromRequest;
use crate::message::request::Request;
use crate::message::response::Response;

/// A part of a request that has to be waited for, as an argument of a handler: a session that is
/// read from a database, for example. The handler is called once all its arguments are there.
///
/// The extraction of all arguments begins at once; they are awaited in their order. It gets the
/// request and the state by value, so it can be an `async fn`.
///
/// ```
/// use marmota_http::extract::FromRequestLater;
/// use marmota_http::{Request, Response, Router, Status, TestRequest};
///
/// #[derive(Clone)]
/// struct Sessions;
///
/// impl Sessions {
///     async fn user(&self, token: &str) -> Option<String> {
///         (token == "t7").then(|| "ann".to_owned()) // reads a database
///     }
/// }
///
/// struct User(String);
///
/// impl FromRequestLater<Sessions> for User {
///     async fn from_request_later(request: Request, state: Sessions) -> Result<Self, Response> {
///         let user = state.user(request.header_text("x-token").unwrap_or_default()).await;
///         user.map(Self).ok_or_else(|| Response::problem(Status::UNAUTHORIZED, "log in"))
///     }
/// }
///
/// let router = Router::with_state(Sessions).get("/me", |user: User| async move { user.0 });
/// let router = router.router();
/// assert_eq!(router.call(TestRequest::get("/me").header("X-Token", "t7"))?.text(), "ann");
/// assert_eq!(router.call(TestRequest::get("/me"))?.status(), Status::UNAUTHORIZED);
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub trait FromRequestLater<S: 'static>: Sized {
    /// Returns the part.
    ///
    /// # Errors
    /// The answer to a request that lacks it; the handler is then not called.
    fn from_request_later(
        request: Request,
        state: S,
    ) -> impl Future<Output = Result<Self, Response>> + 'static;
}

/// A part of a request that may be missing: `Option<T>` is then an argument of handlers.
///
/// ```
/// use marmota_http::extract::OptionalFromRequest;
/// use marmota_http::{Request, Response, Router, TestRequest};
///
/// struct Language(String);
///
/// impl<S: 'static> OptionalFromRequest<S> for Language {
///     async fn from_request_optional(
///         request: Request,
///         _: S,
///     ) -> Result<Option<Self>, Response> {
///         Ok(request.header_text("accept-language").map(|text| Self(text.to_owned())))
///     }
/// }
///
/// async fn show(language: Option<Language>) -> String {
///     language.map_or_else(|| "any".to_owned(), |language| language.0)
/// }
/// let router = Router::with_state(()).get("/", show).router();
/// assert_eq!(router.call(TestRequest::get("/"))?.text(), "any");
/// assert_eq!(router.call(TestRequest::get("/").header("Accept-Language", "sv"))?.text(), "sv");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub trait OptionalFromRequest<S: 'static>: Sized {
    /// Returns the part, or `None` if the request does not have it.
    ///
    /// # Errors
    /// The answer to a request with an invalid part; the handler is then not called.
    fn from_request_optional(
        request: Request,
        state: S,
    ) -> impl Future<Output = Result<Option<Self>, Response>> + 'static;
}

impl<S: 'static, T: OptionalFromRequest<S> + 'static> FromRequestLater<S> for Option<T> {
    fn from_request_later(
        request: Request,
        state: S,
    ) -> impl Future<Output = Result<Self, Response>> + 'static {
        T::from_request_optional(request, state)
    }
}

/// The mode of [`FromRequest`].
#[derive(Debug)]
pub enum AtOnce {}

/// The mode of [`FromRequestLater`].
#[derive(Debug)]
pub enum Later {}

/// An argument of a handler: a type with [`FromRequest`] or [`FromRequestLater`]. The compiler
/// infers the mode.
///
/// ```
/// use marmota_http::extract::{AtOnce, Extractor, Json, Later};
/// fn is_extractor<T: Extractor<S, Mode>, S, Mode>() {}
/// is_extractor::<Json<u8>, (), AtOnce>();
/// ```
pub trait Extractor<S, Mode>: Sized {
    /// Begins the extraction.
    fn extract(
        request: &Request,
        state: &S,
    ) -> impl Future<Output = Result<Self, Response>> + 'static + use<Self, S, Mode>;
}

impl<S: 'static, T: FromRequest<S> + 'static> Extractor<S, AtOnce> for T {
    fn extract(
        request: &Request,
        state: &S,
    ) -> impl Future<Output = Result<Self, Response>> + 'static + use<S, T> {
        ready(T::from_request(request, state))
    }
}

impl<S: Clone + 'static, T: FromRequestLater<S>> Extractor<S, Later> for T {
    fn extract(
        request: &Request,
        state: &S,
    ) -> impl Future<Output = Result<Self, Response>> + 'static + use<S, T> {
        T::from_request_later(request.clone(), state.clone())
    }
}
