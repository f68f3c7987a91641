//! State shared by the handlers of the API: the store and the settings, of one store or of each
//! tenant.

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
    pub(crate) store: Store,
    pub(crate) pages: Arc<Pages>,
    pub(crate) settings: ApiSettings,
}

/// Settings common to all stores.
#[derive(Clone, Debug)]
pub(crate) struct ApiSettings {
    pub(crate) page_rows_default: u64,
    pub(crate) page_rows_max: u64,
    pub(crate) batch_operations_max: usize,
    pub(crate) line_bytes_max: usize,
    pub(crate) actor: Option<ActorOf>,
    pub(crate) allow_anonymous: bool,
    #[cfg(feature = "auth")]
    pub(crate) authenticator: Option<Arc<crate::request::authenticator::Authenticator>>,
}
impl Deref for ApiState {
    type Target = ApiSettings;

    fn deref(&self) -> &ApiSettings {
        &self.settings
    }
}

/// Returns the actor of a request.
pub(crate) type FindActor = dyn Fn(&Request) -> Option<String> + Send + Sync;

/// A function that returns the actor of a request.
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
    /// 401 if the caller must be authenticated.
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
pub(crate) enum Found<'a> {
    Now(Cow<'a, Store>),
    /// The caller must be read from the store.
    #[cfg(feature = "auth")]
    Later(crate::request::authenticator::StoreForCaller),
}
/// The source of a request's state.
#[derive(Clone)]
pub(crate) enum ApiSource {
    One(Arc<ApiState>),
    Tenants(TenantSource),
}

impl ApiSource {
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
    /// Opens the store of the tenant in the path, unless it is open.
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
