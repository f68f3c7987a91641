//! Authentication of requests by the accounts of a store: by bearer token or cookie.
//!
//! | request | result |
//! |---|---|
//! | no token | anonymous |
//! | `Authorization: Bearer TOKEN`, valid | the caller |
//! | `Authorization` with an invalid token, or another scheme | 401 |
//! | a cookie with a valid token | the caller, or 403 if a page of another origin sent it |
//! | a cookie with an expired token | anonymous: browsers send it without an action of the user |
//! | two cookies of the session | 401 |
//!
//! Browsers send cookies with requests of any page. So a request that changes data and is
//! authenticated only by a cookie must come from a page of this origin. Browsers report this
//! (`Sec-Fetch-Site`, `Origin`), and other pages cannot forge it. Alternatively, the custom header
//! `X-Marmota-CSRF` shows that the request was made by a script that was allowed to set it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_auth::{Auth, Authenticating, Identity};
use marmota_http::{Initiator, Method, Request};
use marmota_model::{Error, ErrorKind};
use marmota_store::Store;

use crate::api_error::{ApiError, ApiResult};
use crate::bearer::bearer_token;
use crate::cookie::token_of;

/// A custom header that shows that a request was made by a script of this origin.
const SCRIPT_HEADER: &str = "x-marmota-csrf";

/// A token of a request, by its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credential<'r> {
    Header(&'r str),
    Cookie(&'r str),
}

/// A future of the authenticated caller of a request ([`authenticate`]); `None` for an anonymous
/// one. It is ready at once if the token was validated a short time ago.
#[must_use = "authentication does nothing until it is awaited"]
#[derive(Debug)]
pub struct AuthenticatingRequest(Progress);

/// The state of an authentication.
#[derive(Debug)]
enum Progress {
    /// The result, until it is taken.
    Ready(Option<ApiResult<Option<Arc<Identity>>>>),
    /// The token of a header is read from the store.
    Header(Authenticating),
    /// The token of a cookie is read from the store; with the error of the origin check, if it
    /// failed.
    Cookie(Authenticating, Option<ApiError>),
}

impl AuthenticatingRequest {
    const fn of(result: ApiResult<Option<Arc<Identity>>>) -> Self {
        Self(Progress::Ready(Some(result)))
    }

    /// Returns the result if no read of the store is needed; never blocks. Otherwise await the
    /// future.
    ///
    /// ```
    /// # use marmota_auth::{Auth, Settings};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// use marmota_http::{Flow, Method, Router, TestRequest};
    /// use marmota_web::authenticate;
    ///
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// # let auth = Auth::new(&store, Settings::default())?;
    /// let router = Router::new().direct(Method::Get, "/me", move |request, out| {
    ///     let is_anonymous = matches!(authenticate(&auth, request).ready(), Some(Ok(None)));
    ///     out.content_type("text/plain").body_mut().extend_from_slice(match is_anonymous {
    ///         true => b"anonymous",
    ///         false => b"known, or still to be read",
    ///     });
    ///     Flow::Done
    /// });
    /// assert_eq!(router.call(TestRequest::get("/me"))?.text(), "anonymous");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ready(&mut self) -> Option<ApiResult<Option<Arc<Identity>>>> {
        match &mut self.0 {
            Progress::Ready(result) => result.take(),
            Progress::Header(_) | Progress::Cookie(..) => None,
        }
    }
}

impl Future for AuthenticatingRequest {
    type Output = ApiResult<Option<Arc<Identity>>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Progress::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            Progress::Header(token) => {
                Pin::new(token).poll(context).map(|caller| Ok(Some(caller?)))
            }
            Progress::Cookie(token, foreign) => {
                let caller = ready!(Pin::new(token).poll(context));
                Poll::Ready(by_cookie(caller, || foreign.take()))
            }
        }
    }
}

/// Authenticates the caller of a request, by `Authorization: Bearer` or the session's cookie;
/// `None` for an anonymous caller. `.await` the result.
///
/// # Errors
/// The future fails with 401 for an invalid token, and with 403 for a cookie that was sent by a page
/// of another origin.
///
/// ```
/// # use marmota_memory::Memory;
/// # use marmota_store::Store;
/// use marmota_auth::{Auth, Settings};
/// use marmota_http::{Request, Router, TestRequest};
/// use marmota_web::{ApiResult, authenticate};
///
/// let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
/// let auth = Auth::new(&store, Settings::default())?;
/// auth.set_password("admin", auth.setup_token().unwrap(), "correct horse battery", None)?;
/// let token = auth.login("admin", "correct horse battery", None)?.token;
///
/// async fn me(auth: Auth, request: Request) -> ApiResult<String> {
///     let caller = authenticate(&auth, &request).await?;
///     Ok(caller.map_or_else(|| "anonymous".to_owned(), |caller| caller.caller().name.clone()))
/// }
/// let router = Router::new().get("/me", move |request: Request| me(auth.clone(), request));
///
/// assert_eq!(router.call(TestRequest::get("/me"))?.text(), "anonymous");
/// let bearer = format!("Bearer {token}");
/// assert_eq!(router.call(TestRequest::get("/me").header("Authorization", bearer))?.text(), "admin");
/// let wrong = router.call(TestRequest::get("/me").header("Authorization", "Bearer wrong"))?;
/// assert_eq!(wrong.status().code(), 401);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn authenticate(auth: &Auth, request: &Request) -> AuthenticatingRequest {
    match credential(request) {
        Err(error) => AuthenticatingRequest::of(Err(error)),
        Ok(None) => AuthenticatingRequest::of(Ok(None)),
        Ok(Some(Credential::Header(token))) => {
            let mut token = auth.authenticate(token);
            match token.ready() {
                Some(caller) => AuthenticatingRequest::of(caller.map(Some).map_err(ApiError::from)),
                None => AuthenticatingRequest(Progress::Header(token)),
            }
        }
        Ok(Some(Credential::Cookie(token))) => {
            let mut token = auth.authenticate(token);
            let foreign = || check_origin(request).err();
            match token.ready() {
                Some(caller) => AuthenticatingRequest::of(by_cookie(caller, foreign)),
                None => AuthenticatingRequest(Progress::Cookie(token, foreign())),
            }
        }
    }
}

/// Finds the store with the rights of a request's caller: that of [`authenticate`], or for an
/// anonymous caller [`Auth::anonymous`]. `.await` the result.
///
/// # Errors
/// The future fails as [`authenticate`] does, and with 401 for an anonymous caller without rights.
///
/// ```
/// # use marmota_memory::Memory;
/// # use marmota_store::Store;
/// use marmota_auth::{Auth, Settings};
/// use marmota_http::{Request, Router, TestRequest};
/// use marmota_web::{ApiResult, store_for_caller};
///
/// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
/// let auth = Auth::new(&store, Settings::default())?;
/// async fn tables(auth: Auth, request: Request) -> ApiResult<String> {
///     let store = store_for_caller(&auth, &request).await?;
///     Ok(store.registry().tables().len().to_string())
/// }
/// let router = Router::new().get("/", move |request: Request| tables(auth.clone(), request));
/// assert_eq!(router.call(TestRequest::get("/"))?.status().code(), 401);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn store_for_caller(auth: &Auth, request: &Request) -> StoreForCaller {
    StoreForCaller { caller: authenticate(auth, request), anonymous: auth.anonymous().cloned() }
}

/// A future of the store for a caller ([`store_for_caller`]), which is ready at once if the token
/// was validated a short time ago.
#[must_use = "authentication does nothing until it is awaited"]
#[derive(Debug)]
pub struct StoreForCaller {
    caller: AuthenticatingRequest,
    /// The store for anonymous callers, if they have rights.
    anonymous: Option<Store>,
}

impl StoreForCaller {
    /// Returns the result if no read of the store is needed; never blocks. Otherwise await the
    /// future.
    pub fn ready(&mut self) -> Option<ApiResult<Store>> {
        let caller = self.caller.ready()?;
        Some(self.store(caller))
    }

    /// Returns the store for the result of the authentication.
    fn store(&mut self, caller: ApiResult<Option<Arc<Identity>>>) -> ApiResult<Store> {
        match caller? {
            Some(caller) => Ok(caller.store().clone()),
            None => self.anonymous.take().ok_or_else(anonymous_refused),
        }
    }
}

impl Future for StoreForCaller {
    type Output = ApiResult<Store>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let caller = ready!(Pin::new(&mut self.caller).poll(context));
        Poll::Ready(self.store(caller))
    }
}

/// Returns the 401 error for an anonymous caller.
pub(crate) fn anonymous_refused() -> ApiError {
    unauthenticated("log in, or send a token: `Authorization: Bearer …`")
}

/// Returns the token by which [`authenticate`] finds the caller of a request: that of the header,
/// else that of the cookie.
///
/// A request that takes long keeps it, to authenticate its caller again.
///
/// # Errors
/// 401 for another scheme than `Bearer`, and for two cookies of the session.
///
/// ```
/// use marmota_http::{Request, Router, TestRequest};
/// use marmota_web::{ApiResult, request_token};
///
/// async fn show(request: Request) -> ApiResult<String> {
///     Ok(request_token(&request)?.unwrap_or("none").to_owned())
/// }
/// let router = Router::new().get("/", show);
///
/// let answer = router.call(TestRequest::get("/").header("Cookie", "marmota_session=4f7c"))?;
/// assert_eq!(answer.text(), "4f7c");
/// let answer = router.call(TestRequest::get("/").header("Authorization", "Basic YTpi"))?;
/// assert_eq!(answer.status().code(), 401);
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub fn request_token(request: &Request) -> ApiResult<Option<&str>> {
    Ok(credential(request)?.map(|credential| match credential {
        Credential::Header(token) | Credential::Cookie(token) => token,
    }))
}

/// Returns the caller of a cookie's token. `foreign` returns the error for a page of another
/// origin; it is called only if the token is valid.
fn by_cookie(
    caller: marmota_model::Result<Arc<Identity>>,
    foreign: impl FnOnce() -> Option<ApiError>,
) -> ApiResult<Option<Arc<Identity>>> {
    match caller {
        // Browsers send an expired cookie without an action of the user.
        Err(error) if error.kind() == ErrorKind::Unauthenticated => Ok(None),
        Err(error) => Err(error.into()),
        Ok(caller) => foreign().map_or(Ok(Some(caller)), Err),
    }
}

/// Returns the token of the request; a header counts before a cookie.
fn credential(request: &Request) -> ApiResult<Option<Credential<'_>>> {
    if let Some(header) = request.header("authorization") {
        return match bearer_token(header) {
            Some(token) => Ok(Some(Credential::Header(token))),
            None => Err(unauthenticated("`Authorization` must have the form `Bearer TOKEN`")),
        };
    }
    match token_of(request) {
        Ok(token) => Ok(token.map(Credential::Cookie)),
        Err(two) => {
            let name = two.name;
            let message = format!("there are two cookies `{name}`; delete both, and log in");
            Err(unauthenticated(&message))
        }
    }
}

/// Creates a 401 error.
fn unauthenticated(message: &str) -> ApiError {
    Error::new(ErrorKind::Unauthenticated, message).into()
}

/// Checks that a request with a cookie was not caused by a page of another origin. Reads are always
/// permitted, because that page cannot read their answer.
///
/// # Errors
/// 403 with the ways that are permitted.
fn check_origin(request: &Request) -> ApiResult<()> {
    if matches!(request.method(), Method::Get | Method::Head | Method::Options) {
        return Ok(());
    }
    let same = request.initiator() == Initiator::SameOrigin;
    if same || request.header(SCRIPT_HEADER).is_some() {
        return Ok(());
    }
    let message = "a cookie is accepted only from pages of this origin; send the token in \
                   `Authorization: Bearer`, or the header `X-Marmota-CSRF: 1` with the cookie";
    Err(Error::new(ErrorKind::Denied, message).into())
}
