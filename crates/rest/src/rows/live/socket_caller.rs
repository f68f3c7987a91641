//! The caller of a WebSocket: by the token of its handshake, or of a later message.

use marmota_http::Request;
use marmota_store::Store;
use marmota_web::ApiResult;

use super::caller_check::CallerCheck;
use crate::request::state::ApiState;

#[cfg(feature = "auth")]
use std::{cell::RefCell, rc::Rc};

#[cfg(feature = "auth")]
use crate::request::authenticator::{CallerToken, Reauthentication};

/// The caller of a WebSocket.
///
/// Browsers cannot send a header with the handshake, so a client without a cookie sends its token in
/// a message. Until then it is anonymous.
#[derive(Clone, Debug, Default)]
pub(super) struct SocketCaller {
    #[cfg(feature = "auth")]
    token: Option<CallerToken>,
}

#[cfg(feature = "auth")]
impl SocketCaller {
    /// Returns the caller of a handshake.
    ///
    /// # Errors
    /// 401 for an invalid token.
    pub(super) async fn of(api: &ApiState, request: &Request) -> ApiResult<Self> {
        let Some(authenticator) = &api.authenticator else { return Ok(Self::default()) };
        let known = marmota_web::authenticate(&authenticator.auth, request).await?;
        let token = match known {
            Some(_) => marmota_web::request_token(request)?,
            None => None,
        };
        Ok(Self { token: token.map(|token| Rc::new(RefCell::new(token.into()))) })
    }

    /// Replaces the token, for all subscriptions that were made with one.
    pub(super) fn set_token(&mut self, token: String) {
        match &self.token {
            Some(shared) => *shared.borrow_mut() = token.into(),
            None => self.token = Some(Rc::new(RefCell::new(token.into()))),
        }
    }

    /// Returns the store with the rights of the caller.
    ///
    /// # Errors
    /// 401 for an invalid token, and for a missing one if anonymous access is disabled.
    pub(super) async fn store(&self, api: &ApiState) -> ApiResult<Store> {
        let Some(authenticator) = &api.authenticator else { return Ok(api.store.clone()) };
        let token = self.token.as_ref().map(|token| token.borrow().clone()).unwrap_or_default();
        Ok(authenticator.auth.store_of(token.as_bytes()).await?)
    }

    /// Returns the check of the caller for a subscription.
    pub(super) fn check(&self, api: &ApiState) -> Option<CallerCheck> {
        let (authenticator, token) = (api.authenticator.as_deref()?, self.token.clone()?);
        Some(CallerCheck::new(Reauthentication::with_token(authenticator, token)))
    }
}

#[cfg(not(feature = "auth"))]
impl SocketCaller {
    pub(super) async fn of(_: &ApiState, _: &Request) -> ApiResult<Self> {
        Ok(Self::default())
    }

    pub(super) fn set_token(&mut self, _: String) {}

    pub(super) async fn store(&self, api: &ApiState) -> ApiResult<Store> {
        Ok(api.store.clone())
    }

    pub(super) fn check(&self, _: &ApiState) -> Option<CallerCheck> {
        None
    }
}
