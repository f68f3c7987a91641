//! The state of a router whose handlers act for callers, and the store for the caller of a request.

#[cfg(feature = "auth")]
use marmota_auth::Auth;
use marmota_http::Request;
use marmota_store::Store;

use crate::api_error::ApiResult;
#[cfg(feature = "auth")]
use crate::authentication::store_for_caller;

/// The state of a router whose handlers have the extractors of [this module](crate::extract). It is
/// implemented for [`Store`] (all callers have the rights of that store) and `Auth` (callers are
/// authenticated). Implement it for a state that has more:
///
/// ```
/// use marmota_store::Store;
/// use marmota_web::extract::CallerState;
///
/// #[derive(Clone)]
/// struct App {
///     store: Store,
///     title: &'static str,
/// }
///
/// impl CallerState for App {
///     fn store(&self) -> &Store {
///         &self.store
///     }
/// }
/// ```
///
/// A state with accounts returns them from `auth`; then `store` is not used.
pub trait CallerState: Clone + 'static {
    /// Returns the store for callers that are not authenticated.
    fn store(&self) -> &Store;

    /// Returns the accounts by which callers are authenticated. Default: `None`.
    #[cfg(feature = "auth")]
    fn auth(&self) -> Option<&Auth> {
        None
    }
}

impl CallerState for Store {
    fn store(&self) -> &Store {
        self
    }
}

#[cfg(feature = "auth")]
impl CallerState for Auth {
    fn store(&self) -> &Store {
        Self::store(self)
    }

    fn auth(&self) -> Option<&Auth> {
        Some(self)
    }
}

/// Returns the store with the rights of a request's caller.
///
/// # Errors
/// 401 if the caller must be authenticated, 403 if a page of another site sent the request.
pub(super) async fn caller_store<S: CallerState>(request: Request, state: S) -> ApiResult<Store> {
    request.check_site()?;
    #[cfg(feature = "auth")]
    if let Some(auth) = state.auth() {
        return store_for_caller(auth, &request).await;
    }
    Ok(state.store().clone())
}
