//! Tokens that other issuers have signed, as credentials.
//!
//! A token is verified without a read of the store; its user is then read as for a session. Keys of an
//! issuer are fetched on threads for it, so that a token never blocks an event loop.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Timestamp};

use crate::auth::{Inner, Times, unauthenticated};
use crate::credentials::external::{TokenIssuers, TokenUser};
use crate::known::{Found, Proof};
use crate::models::{LinkedIdentity, User};
use crate::security_event::SecurityEvent;

impl Inner {
    /// Returns the caller of a token that another issuer has signed.
    pub(crate) async fn find_external(&self, token: &str) -> Result<Option<Found>> {
        let Some(issuers) = &self.settings.token_issuers else { return Ok(None) };
        let verified = match issuers.verify(token, self.now()) {
            Some(verified) => verified,
            None => self.fetch_and_verify(issuers, token).await,
        };
        let (user, end) = verified.inspect_err(|error| {
            let reason = error.message().to_owned();
            self.report(&SecurityEvent::TokenRefused { reason });
        })?;
        let user = match user {
            TokenUser::Identity { issuer, subject } => {
                let is_it = LinkedIdentity::ISSUER.eq(issuer.as_str());
                let is_it = is_it.and(LinkedIdentity::SUBJECT.eq(subject.as_str()));
                let linked =
                    self.store.list::<LinkedIdentity>().filter(is_it).limit(1).await?.pop();
                linked.map(|linked| *linked.user.key())
            }
            TokenUser::Name(name) => {
                let is_it = match name.contains('@') {
                    true => User::EMAIL.eq(name.to_lowercase()),
                    false => User::NAME.eq(name.as_str()),
                };
                self.store.list::<User>().filter(is_it).limit(1).await?.pop().map(|user| user.id)
            }
        };
        let Some(user) = user else {
            let reason = "no user belongs to the token".to_owned();
            self.report(&SecurityEvent::TokenRefused { reason });
            return Ok(None);
        };
        self.found(user, Proof::Token, Times::until(end.micros())).await
    }

    async fn fetch_and_verify(
        &self,
        issuers: &Arc<dyn TokenIssuers>,
        token: &str,
    ) -> Result<(TokenUser, Timestamp)> {
        let (fetching, text) = (Arc::clone(issuers), token.to_owned());
        let fetched = self.fetches.result_of(move || fetching.fetch_keys(&text));
        let Some(fetched) = fetched else {
            return Err(Error::new(
                ErrorKind::Busy,
                "too many tokens wait for the keys of issuers",
            ));
        };
        fetched.await??;
        let unknown = || Err(unauthenticated("the key of the token is not one of its issuer"));
        issuers.verify(token, self.now()).unwrap_or_else(unknown)
    }
}
