//! The extractor of the authenticated caller.

use std::ops::Deref;
use std::sync::Arc;

use marmota_auth::Identity;
use marmota_http::extract::{FromRequestLater, OptionalFromRequest};
use marmota_http::{IntoResponse, Request, Response};

use super::state::CallerState;
use crate::api_error::{ApiError, ApiResult};
use crate::authentication::{anonymous_refused, authenticate};

/// The authenticated caller of a request, as an argument of a handler: the user's name, id, groups
/// and rights. It derefs to [`Identity`]; [`Identity::store`] is the store with the caller's rights.
///
/// The caller is found as REST finds it ([`authenticate`]). A request without a token, or with an
/// invalid one, is answered 401. `Option<Caller>` is `None` for a request without a token.
///
/// ```
/// # use marmota_auth::{Auth, Settings};
/// # use marmota_memory::Memory;
/// # use marmota_store::Store;
/// use marmota_http::{Router, TestRequest};
/// use marmota_web::extract::Caller;
///
/// async fn name(caller: Caller) -> String {
///     caller.caller().name.clone()
/// }
///
/// async fn greet(caller: Option<Caller>) -> String {
///     caller.map_or_else(|| "Hello".to_owned(), |caller| format!("Hello {}", caller.caller().name))
/// }
///
/// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
/// # let auth = Auth::new(&store, Settings::default().password_cost(64, 1))?;
/// # let (_, token) = auth.add_user("ann", &[], false)?;
/// # auth.set_password("ann", &token, "correct horse battery", None)?;
/// # let token = auth.login("ann", "correct horse battery", None)?.token;
/// let router = Router::with_state(auth).get("/name", name).get("/greet", greet).router();
/// assert_eq!(router.call(TestRequest::get("/name"))?.status().code(), 401);
/// assert_eq!(router.call(TestRequest::get("/greet"))?.text(), "Hello");
/// let bearer = format!("Bearer {token}");
/// let answer = router.call(TestRequest::get("/name").header("Authorization", bearer))?;
/// assert_eq!(answer.text(), "ann");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Caller(pub Arc<Identity>);

impl Deref for Caller {
    type Target = Identity;

    fn deref(&self) -> &Identity {
        &self.0
    }
}

/// Returns the caller of a request; `None` for an anonymous one.
async fn caller<S: CallerState>(request: Request, state: S) -> ApiResult<Option<Caller>> {
    match state.auth() {
        Some(auth) => Ok(authenticate(auth, &request).await?.map(Caller)),
        None => Ok(None),
    }
}

impl<S: CallerState> FromRequestLater<S> for Caller {
    async fn from_request_later(request: Request, state: S) -> Result<Self, Response> {
        let found = caller(request, state).await;
        let found = found.and_then(|caller| caller.ok_or_else(anonymous_refused));
        found.map_err(ApiError::into_response)
    }
}

impl<S: CallerState> OptionalFromRequest<S> for Caller {
    async fn from_request_optional(request: Request, state: S) -> Result<Option<Self>, Response> {
        caller(request, state).await.map_err(ApiError::into_response)
    }
}
