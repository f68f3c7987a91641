//! The origin of calls: who the caller is, and the store with the caller's rights.

use std::sync::Arc;

use marmota_auth::{Auth, Identity, Proof};
use marmota_http::Request;
use marmota_model::{Error, ErrorKind, Result};
use marmota_web::{ApiError, AuthenticatingRequest, authenticate};

use super::Settings;
use crate::call::CallOrigin;

/// The origin of a call.
pub(crate) enum OriginOf {
    Now(CallOrigin),
    /// The caller must be read from the store ([`Settings::origin_later`]).
    Later(AuthenticatingRequest),
}

impl Settings {
    /// Returns the origin of an anonymous call.
    pub(crate) fn origin(&self) -> CallOrigin {
        CallOrigin { store: self.store.clone(), ..CallOrigin::default() }
    }

    /// Returns the origin of an in-process call.
    pub(crate) fn own_origin(&self) -> Result<CallOrigin> {
        match &self.auth {
            Some(auth) => self.origin_by(auth, None),
            None => Ok(self.origin()),
        }
    }

    /// Updates the caller of a persistent connection: a logout or a revoked right applies from the
    /// next call.
    pub(crate) fn renew_caller(origin: &mut CallOrigin, found: Result<Arc<Identity>>) {
        let Some((_, known)) = &mut origin.known else { return };
        match found {
            Ok(now) => {
                origin.store = Some(now.store().clone());
                (*known, origin.refusal) = (now, None);
            }
            Err(error) => origin.refusal = Some(Arc::new(error)),
        }
    }

    /// Returns the origin of a call from the result of authentication.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] if the caller is anonymous and anonymous access is disabled.
    pub(crate) fn origin_by(
        &self,
        auth: &Auth,
        known: Option<Arc<Identity>>,
    ) -> Result<CallOrigin> {
        if let Some(known) = known {
            let session = match known.proof() {
                Proof::Session(session) => format!("session {session}"),
                Proof::Key(key) => format!("key {key}"),
                Proof::Token => format!("user {}", known.user()),
            };
            let (store, session) = (Some(known.store().clone()), Some(session.into()));
            return Ok(CallOrigin {
                store,
                session,
                known: Some((auth.clone(), known)),
                ..CallOrigin::default()
            });
        }
        match auth.anonymous() {
            Some(store) => Ok(CallOrigin { store: Some(store.clone()), ..CallOrigin::default() }),
            None => {
                let message = "log in, or send a token: `Authorization: Bearer …`";
                Err(Error::new(ErrorKind::Unauthenticated, message))
            }
        }
    }

    /// Returns the caller of a request.
    pub(crate) fn origin_of(&self, request: &Request) -> Result<OriginOf, ApiError> {
        // Checked for GET, too: it executes a call.
        request.check_site_strictly()?;
        let Some(auth) = &self.auth else { return Ok(OriginOf::Now(self.origin())) };
        let mut knowing = authenticate(auth, request);
        match knowing.ready() {
            Some(known) => Ok(OriginOf::Now(self.origin_by(auth, known?)?)),
            None => Ok(OriginOf::Later(knowing)),
        }
    }

    /// Returns the caller once it is read.
    pub(crate) async fn origin_later(
        &self,
        knowing: AuthenticatingRequest,
    ) -> Result<CallOrigin, ApiError> {
        let Some(auth) = &self.auth else { return Ok(self.origin()) };
        Ok(self.origin_by(auth, knowing.await?)?)
    }
}
