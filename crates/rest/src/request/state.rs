//! State shared by the handlers of the API: the store and the settings, of one store or of each
//! tenant.
//!
//! A request finds its state and its store in these steps:
//!
//! 1. [`ApiSource::state`] returns the state of the API. An API for tenants opens the store of the
//!    tenant in the path, for example that of `acme` for `/api/acme/person`.
//! 2. [`ApiState::store_for`] returns the store for the caller. With logins this is a store with
//!    the caller's rights, otherwise the API's store, with the actor if a function for it is set.
//!
//! Both are usually known at once. `Found::Later` stands for a caller whose token must be read
//! from the store first; the request waits for it in a future.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use marmota_http::Request;
#[cfg(feature = "auth")]
use marmota_model::{Error, ErrorKind};
use marmota_store::{Store, Tenants};
use marmota_web::ApiResult;

use crate::protocol::refusal::of_url;
use crate::request::pages::Pages;

/// The state that every handler gets: a store and the settings of its API.
#[derive(Debug)]
pub(crate) struct ApiState {
    /// The store with all rights. Handlers use the store of [`ApiState::store_for`] instead.
    pub(crate) store: Store,
    /// The cached pages of lists.
    pub(crate) pages: Arc<Pages>,
    pub(crate) settings: ApiSettings,
}

/// Settings common to all stores, set by the methods of [`crate::Api`].
#[derive(Clone, Debug)]
pub(crate) struct ApiSettings {
    /// The rows in a page without `limit`. Default: 100.
    pub(crate) page_rows_default: u64,
    /// The maximum of `limit`. Default: 1,000.
    pub(crate) page_rows_max: u64,
    /// The maximum number of operations in a batch that is one JSON text. Default: 1,000.
    pub(crate) batch_operations_max: usize,
    /// The maximum length of a line of NDJSON, in bytes. Default: 1 MiB.
    pub(crate) line_bytes_max: usize,
    /// The function that returns the actor of a request, for the history of an API without logins.
    pub(crate) actor: Option<ActorOf>,
    /// True if a store with accounts is served without authentication.
    pub(crate) allow_anonymous: bool,
    /// The storage of file fields.
    #[cfg(feature = "files")]
    pub(crate) files: Option<marmota_files::FileStorage>,
    /// Present if callers log in.
    #[cfg(feature = "auth")]
    pub(crate) authenticator: Option<Arc<crate::request::authenticator::Authenticator>>,
}
impl Deref for ApiState {
    type Target = ApiSettings;

    fn deref(&self) -> &ApiSettings {
        &self.settings
    }
}

/// Returns the actor of a request, for example from a header that a proxy sets; `None` for an
/// anonymous request.
pub(crate) type FindActor = dyn Fn(&Request) -> Option<String> + Send + Sync;

/// A function that returns the actor of a request. The type exists for its implementation of
/// `Debug`.
#[derive(Clone)]
pub(crate) struct ActorOf(pub(crate) Arc<FindActor>);

impl std::fmt::Debug for ActorOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ActorOf")
    }
}

impl ApiState {
    /// Returns the store with the rights of the request's caller.
    ///
    /// # Errors
    /// - 401 if the caller must be authenticated.
    /// - 403 if a page of another site sent the request: see [`Request::check_site`].
    pub(crate) fn store_for(&self, request: &Request) -> ApiResult<Found<'_>> {
        request.check_site()?;
        #[cfg(feature = "auth")]
        if let Some(authenticator) = &self.authenticator {
            let mut finding = authenticator.store_for(request);
            return match finding.ready() {
                Some(store) => Ok(Found::Now(Cow::Owned(store?))),
                None => Ok(Found::Later(finding)),
            };
        }
        Ok(Found::Now(match self.actor.as_ref().and_then(|actor| actor.0(request)) {
            Some(actor) => Cow::Owned(self.store.with_actor(actor)),
            None => Cow::Borrowed(&self.store),
        }))
    }
}

#[cfg(feature = "auth")]
impl ApiSettings {
    /// Returns the caller of a long-running request; `None` if callers are not authenticated.
    pub(crate) fn again(
        &self,
        request: &Request,
    ) -> Option<crate::request::authenticator::Reauthentication> {
        crate::request::authenticator::Reauthentication::of(self.authenticator.as_deref()?, request)
    }
}

/// The store for a request's caller.
///
/// It borrows the API's store where it can, because most requests do not need another one.
pub(crate) enum Found<'a> {
    Now(Cow<'a, Store>),
    /// The caller must be read from the store.
    #[cfg(feature = "auth")]
    Later(marmota_web::StoreForCaller),
}
/// The source of a request's state.
#[derive(Clone)]
pub(crate) enum ApiSource {
    /// A single store.
    One(Arc<ApiState>),
    /// The store of the tenant in the path.
    Tenants(TenantSource),
}

impl ApiSource {
    /// Returns the state for a request.
    ///
    /// # Errors
    /// Those of an API for tenants: 404 for a tenant that does not exist, 400 for an invalid name,
    /// 501 for logins, which need a single store.
    pub(crate) fn state(&self, request: &Request) -> ApiResult<Cow<'_, Arc<ApiState>>> {
        match self {
            Self::One(api) => Ok(Cow::Borrowed(api)),
            Self::Tenants(of) => of.state(request).map(Cow::Owned),
        }
    }
}

/// The tenants, and the state shared by the APIs of their stores.
#[derive(Clone)]
pub(crate) struct TenantSource {
    pub(crate) tenants: Tenants,
    pub(crate) pages: Arc<Pages>,
    pub(crate) settings: ApiSettings,
}

impl TenantSource {
    /// Opens the store of the tenant in the path, unless it is open, and returns its state. The
    /// state is created for each request: the tenants decide how long a store stays open, and a
    /// cached state would keep it open.
    fn state(&self, request: &Request) -> ApiResult<Arc<ApiState>> {
        #[cfg(feature = "auth")]
        if self.settings.authenticator.is_some() {
            let message = "users need a single store, but this API serves the stores of tenants";
            return Err(Error::new(ErrorKind::Unsupported, message).into());
        }
        let tenant = request.param("tenant").unwrap_or_default();
        let store = self.tenants.get_known(&tenant).map_err(of_url)?;
        if !self.settings.allow_anonymous {
            store.registry().check_anonymous()?;
        }
        let (pages, settings) = (Arc::clone(&self.pages), self.settings.clone());
        Ok(Arc::new(ApiState { store, pages, settings }))
    }
}
