//! The sign-in with a provider: its beginning, the answer of the provider, and the user for it.
//!
//! ```text
//! begin ──> browser: a secret in a cookie ──> provider ──> page with state and code ──> finish
//!   └─ row: hashes of state and secret, the page to return to                              │
//!                            the row is deleted, the code exchanged, the user found <──────┘
//! ```
//!
//! The nonce and the verifier of PKCE are derived from the secret in the cookie. So the table has hashes
//! only, and an answer is of no use in another browser. The row is deleted before the code is sent to the
//! provider: state, nonce and code are accepted once.

use hmac::{Hmac, KeyInit as _, Mac as _};
use marmota_model::{Error, ErrorKind, Json, Ref, Result};
use sha2::Sha256;

use crate::account_mail::{MailKind, SignUpPolicy};
use crate::auth::{Auth, after, lower_address, new_user, unauthenticated};
use crate::credentials::external::{
    ExternalIdentity, IdentityProviders, ProviderCode, ProviderInfo, ProviderRequest,
};
use crate::credentials::passkey::SecondProof;
use crate::credentials::token::{self, TokenHash};
use crate::ids;
use crate::login::{LoggedIn, LoginClient, is_same};
use crate::models::{AccountLink, Group, LinkedIdentity, PendingSignIn, User};
use crate::security_event::SecurityEvent;

use std::sync::Arc;
use std::time::Duration;

/// The prefix of the secret in the cookie.
const BROWSER_PREFIX: &str = "mb_";
/// The time that a person has to sign in at the provider.
const SIGN_IN_AGE: Duration = Duration::from_secs(10 * 60);
/// The maximum number of sign-ins under way.
const PENDING_MAX: u64 = 10_000;
/// The maximum length of a page to return to.
const NEXT_BYTES_MAX: usize = 1000;

/// The beginning of a sign-in ([`Auth::begin_sign_in`]).
#[derive(Clone)]
#[allow(missing_debug_implementations, reason = "it has secrets")]
pub struct SignInStart {
    /// The URL at the provider, which the browser opens.
    pub url: String,
    /// The secret that binds the sign-in to the browser: the value of a cookie.
    pub browser: String,
}

/// What the browser brings back from the provider ([`Auth::finish_sign_in`]).
#[derive(Clone, Copy, Default)]
#[allow(missing_debug_implementations, reason = "it has secrets")]
pub struct ProviderAnswer<'a> {
    /// The state of the sign-in.
    pub state: &'a str,
    /// The code of the provider.
    pub provider_code: &'a str,
    /// The issuer that the answer names (RFC 9207).
    pub issuer: Option<&'a str>,
    /// The value of the cookie of [`SignInStart::browser`].
    pub browser: Option<&'a str>,
    /// The user who is signed in, to whom the account is added.
    pub user: Option<i64>,
    /// What the user proves the second factor with.
    pub proof: SecondProof<'a>,
}

/// The end of a sign-in ([`Auth::finish_sign_in`]).
#[derive(Clone, Debug)]
pub struct ProviderSignIn {
    /// The session; `None` if the account was added to a user who was signed in.
    pub login: Option<LoggedIn>,
    /// The page to return to, a path of this server.
    pub next: Option<String>,
}

impl Auth {
    /// Begins a sign-in with a provider. With a user, the account is added to the user.
    ///
    /// `next` is the page to return to, a path of this server. The sign-in ends after 10 minutes. May
    /// block: the provider is requested for its addresses.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown provider, [`ErrorKind::Invalid`] for a `next` of another
    /// server, [`ErrorKind::Busy`] if too many sign-ins were begun, and errors of the connection.
    pub fn begin_sign_in(
        &self,
        provider: &str,
        next: Option<&str>,
        user: Option<i64>,
        client: LoginClient<'_>,
    ) -> Result<SignInStart> {
        let inner = &self.0;
        if let Some(next) = next.filter(|next| !is_own_path(next)) {
            let next = marmota_model::text::excerpt(next);
            let message = format!("`next` must be a path of this server such as /shop, not {next}");
            let reason = message.clone();
            self.report(&SecurityEvent::SignInRefused { reason, address: client.address });
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let providers = self.providers()?;
        self.limit_sign_in(client)?;
        let (state, browser) = (token::new("")?, token::new(BROWSER_PREFIX)?);
        let secrets = Secrets::of(&browser);
        let redirect_url = inner.settings.account_url.as_str();
        let url = providers.authorization_url(&secrets.request(provider, redirect_url, &state))?;
        let row = PendingSignIn {
            id: ids::of_session()?,
            state: TokenHash::of(&state).text(),
            browser: TokenHash::of(&browser).text(),
            provider: provider.to_owned(),
            next: next.map(str::to_owned),
            user,
            verified: None,
            ends_at: after(inner.now(), SIGN_IN_AGE),
        };
        let ended = PendingSignIn::ENDS_AT.lt(inner.now());
        inner.store.delete_where::<PendingSignIn>(ended).run()?;
        if inner.store.count::<PendingSignIn>().run()? >= PENDING_MAX {
            return Err(Error::new(
                ErrorKind::Busy,
                "too many sign-ins are under way; try again later",
            ));
        }
        inner.store.insert(&row).run()?;
        Ok(SignInStart { url, browser })
    }

    /// Ends a sign-in: exchanges the code of the provider, and starts a session of the user.
    ///
    /// The user is the one who has signed in with the account before. Otherwise it is the user with the
    /// same mail address, if the provider has verified it; otherwise a new user, if the policy permits
    /// one. May block.
    ///
    /// A user with an authenticator app needs a code of it: the error has the violation `code` then, and
    /// the call is repeated with the same state.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] for an answer that is unknown, was used, or was given to another
    /// browser; [`ErrorKind::Denied`] if no user belongs to the account and none is made;
    /// [`ErrorKind::Conflict`] if the account belongs to another user; and errors of the connection.
    pub fn finish_sign_in(
        &self,
        answer: &ProviderAnswer<'_>,
        client: LoginClient<'_>,
    ) -> Result<ProviderSignIn> {
        let finished = self.finish(answer, client);
        if let Err(error) = &finished
            && !error.violations().iter().any(|violation| violation.rule == "required")
        {
            let reason = error.message().to_owned();
            self.report(&SecurityEvent::SignInRefused { reason, address: client.address });
        }
        finished
    }

    fn finish(
        &self,
        answer: &ProviderAnswer<'_>,
        client: LoginClient<'_>,
    ) -> Result<ProviderSignIn> {
        let inner = &self.0;
        let row = self.pending(answer)?;
        let next = row.next.clone();
        if let Some(user) = row.verified {
            let user = inner.store.get::<User>(user).run()?;
            inner.pass_second_factor(user.id, answer.proof, client.address)?;
            self.claim(&row)?;
            return Ok(ProviderSignIn { login: Some(inner.log_in(&user, client)?), next });
        }
        if row.user != answer.user.filter(|_| row.user.is_some()) {
            return Err(unauthenticated("the account is added by the user who has begun it"));
        }
        self.claim(&row)?;
        let browser = answer.browser.unwrap_or_default();
        let secrets = Secrets::of(browser);
        let redirect_url = inner.settings.account_url.as_str();
        let identity = self.providers()?.identity(&ProviderCode {
            request: secrets.request(&row.provider, redirect_url, answer.state),
            code: answer.provider_code,
            issuer: answer.issuer,
            now: inner.now(),
        })?;
        if let Some(user) = row.user {
            self.link_to(user, &identity)?;
            return Ok(ProviderSignIn { login: None, next });
        }
        let user = self.user_of(&identity, client)?;
        if user.is_disabled {
            return Err(Error::new(ErrorKind::Denied, "the account is disabled"));
        }
        if let Err(error) = inner.pass_second_factor(user.id, answer.proof, client.address) {
            // The provider has done its part: only the code of the app is missing.
            let row = PendingSignIn { verified: Some(user.id), ..row };
            inner.store.insert(&row).run()?;
            return Err(error);
        }
        Ok(ProviderSignIn { login: Some(inner.log_in(&user, client)?), next })
    }

    /// Returns the sign-in of a state, if it was begun by this browser.
    fn pending(&self, answer: &ProviderAnswer<'_>) -> Result<PendingSignIn> {
        let hash = TokenHash::of(answer.state).text();
        let rows = self.0.store.list::<PendingSignIn>().filter(PendingSignIn::STATE.eq(hash));
        let row = rows.limit(1).run()?.pop().filter(|row| row.ends_at > self.0.now());
        let Some(row) = row else { return Err(unknown()) };
        let browser = TokenHash::of(answer.browser.unwrap_or_default()).text();
        match is_same(&row.browser, &browser) {
            true => Ok(row),
            false => Err(unauthenticated("the sign-in was begun in another browser; begin again")),
        }
    }

    /// Deletes a sign-in, so that no other request can end it.
    fn claim(&self, row: &PendingSignIn) -> Result<()> {
        let same = PendingSignIn::ID.eq(row.id);
        match self.0.store.delete_where::<PendingSignIn>(same).run()? {
            0 => Err(unknown()),
            _ => Ok(()),
        }
    }

    /// Returns the user of an account of a provider. Makes one if the policy permits it.
    fn user_of(&self, identity: &ExternalIdentity, client: LoginClient<'_>) -> Result<User> {
        let inner = &self.0;
        if let Some(linked) = inner.linked(&identity.issuer, &identity.subject)? {
            return inner.store.get::<User>(*linked.user.key()).run();
        }
        let address = identity.email.as_deref().map(lower_address);
        let Some(address) = address.filter(|_| identity.email_is_verified) else {
            let message = "the provider has not verified your mail address: sign in differently, and \
                           add the provider to your account";
            return Err(Error::new(ErrorKind::Denied, message));
        };
        let user = match inner.user_of_address(&address)? {
            Some(user) if user.is_disabled => return Ok(user),
            Some(user) => user,
            None => self.make_user(&address, client)?,
        };
        self.link_to(user.id, identity)?;
        Ok(user)
    }

    /// Makes the user for a verified address, with the groups of an invitation.
    fn make_user(&self, address: &str, client: LoginClient<'_>) -> Result<User> {
        let inner = &self.0;
        let of_address = AccountLink::ADDRESS.eq(address);
        let invited = of_address.clone().and(AccountLink::KIND.eq(MailKind::Invitation));
        let invited = invited.and(AccountLink::ENDS_AT.gt(inner.now()));
        let invitation = inner.store.list::<AccountLink>().filter(invited).limit(1).run()?.pop();
        let invitation = invitation.filter(|_| inner.settings.sign_up != SignUpPolicy::Closed);
        if invitation.is_none() && !inner.settings.sign_up.permits(address) {
            let message = "no account belongs to this address, and sign-up is closed for it";
            return Err(Error::new(ErrorKind::Denied, message));
        }
        let names = invitation.map_or_else(Vec::new, |invitation| invitation.groups.0);
        let mut user = new_user(address);
        user.email = Some(address.to_owned());
        inner.store.transaction(|tx| {
            tx.delete_where::<AccountLink>(of_address.clone()).run()?;
            let names = names.iter().map(String::as_str);
            let groups = tx.list::<Group>().filter(Group::NAME.is_in(names)).column(Group::NAME);
            user.groups = Json(groups.run()?);
            user.id = ids::of_user(tx)?;
            tx.insert(&user).run().map(drop)
        })?;
        self.report(&SecurityEvent::UserAdded { user: user.id, name: user.name.clone() });
        self.report(&SecurityEvent::SignedUp { user: user.id, address: client.address });
        Ok(user)
    }

    /// Adds an account of a provider to a user.
    fn link_to(&self, user: i64, identity: &ExternalIdentity) -> Result<()> {
        let inner = &self.0;
        if let Some(linked) = inner.linked(&identity.issuer, &identity.subject)? {
            return match *linked.user.key() == user {
                true => Ok(()),
                false => {
                    let message = "this account of the provider belongs to another user";
                    Err(Error::new(ErrorKind::Conflict, message))
                }
            };
        }
        let row = LinkedIdentity {
            id: ids::of_session()?,
            key: format!("{} {}", identity.issuer, identity.subject),
            issuer: identity.issuer.clone(),
            subject: identity.subject.clone(),
            user: Ref::new(user),
            email: identity.email.clone().filter(|_| identity.email_is_verified),
            created_at: inner.now(),
        };
        inner.store.insert(&row).run()?;
        self.report(&SecurityEvent::IdentityLinked { user, issuer: identity.issuer.clone() });
        Ok(())
    }

    /// Returns the providers that pages offer.
    #[must_use]
    pub fn offered_providers(&self) -> Vec<ProviderInfo> {
        self.0.settings.providers.as_ref().map_or_else(Vec::new, |providers| providers.offered())
    }

    fn providers(&self) -> Result<&Arc<dyn IdentityProviders>> {
        let none =
            || Error::new(ErrorKind::Unsupported, "this program has no providers for sign-in");
        self.0.settings.providers.as_ref().ok_or_else(none)
    }

    /// Counts a sign-in for the client's address.
    pub(crate) fn limit_sign_in(&self, client: LoginClient<'_>) -> Result<()> {
        let of = client.address.map_or_else(String::new, |address| address.to_string());
        let Err(wait) = self.0.sign_ins.begin(&of, client.address, self.0.now()) else {
            return Ok(());
        };
        let seconds = wait.as_secs().max(1);
        let message = format!("too many sign-ins were begun; try again in {seconds} s");
        self.report(&SecurityEvent::SignInLimited { address: client.address });
        Err(Error::new(ErrorKind::Busy, message))
    }
}

/// The values that are derived from the secret of a browser.
struct Secrets {
    nonce: String,
    verifier: String,
}

impl Secrets {
    fn of(browser: &str) -> Self {
        let derived = |purpose: &str| {
            // HMAC takes keys of each length.
            let hmac = Hmac::<Sha256>::new_from_slice(browser.as_bytes());
            let bytes = hmac.map(|hmac| hmac.chain_update(purpose).finalize().into_bytes());
            TokenHash(bytes.map(Into::into).unwrap_or_default()).text()
        };
        Self { nonce: derived("nonce"), verifier: derived("verifier") }
    }

    fn request<'r>(
        &'r self,
        provider: &'r str,
        redirect_url: &'r str,
        state: &'r str,
    ) -> ProviderRequest<'r> {
        let Self { nonce, verifier } = self;
        ProviderRequest { provider, redirect_url, state, nonce, verifier }
    }
}

/// Returns true if a text is a path of this server: browsers read `//host` and `/\host` as other servers.
fn is_own_path(next: &str) -> bool {
    let is_path = next.starts_with('/') && !next.starts_with("//") && next.len() <= NEXT_BYTES_MAX;
    is_path && !next.contains('\\') && !next.chars().any(char::is_control)
}

fn unknown() -> Error {
    unauthenticated("the sign-in is unknown, was used, or has expired; begin again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_this_server_are_returned_to() {
        assert!(["/", "/shop?a=b#c", "/a//b"].into_iter().all(is_own_path));
        for other in
            ["", "shop", "//evil.example", "/\\evil.example", "https://evil.example", "/\n"]
        {
            assert!(!is_own_path(other), "{other}");
        }
        assert!(!is_own_path(&format!("/{}", "a".repeat(NEXT_BYTES_MAX))));
    }

    #[test]
    fn the_values_of_a_browser_are_of_it_only() {
        let (one, two) = (Secrets::of("mb_1"), Secrets::of("mb_2"));
        assert_ne!(one.nonce, one.verifier);
        assert!(one.nonce != two.nonce && one.verifier != two.verifier);
        assert_eq!(one.nonce, Secrets::of("mb_1").nonce);
    }
}
