//! The use of links: each token is accepted once, before its end, and for its purpose only.
//!
//! The link is deleted in the transaction of the change that it permits, so that two requests with one
//! token cannot both succeed.

use std::net::IpAddr;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Transaction;

use crate::account_mail::{MailKind, SignUpPolicy};
use crate::auth::{Auth, lower_address, new_user, unauthenticated};
use crate::credentials::passkey::SecondProof;
use crate::credentials::token::TokenHash;
use crate::ids;
use crate::login::{LoggedIn, LoginClient};
use crate::models::{AccountLink, Group, User};
use crate::security_event::SecurityEvent;

/// The account by which attempts with wrong tokens are counted. Tokens cannot be guessed; the limit is for
/// the log.
const LINKS: &str = "links";

impl Auth {
    /// Makes the account of a link for a sign-up or an invitation, and returns the user's id. The address
    /// is the one that the link was sent to.
    ///
    /// `name` is the login name. Default: the address. The user can also log in with the address. A name
    /// with `@` must be the address itself.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] if the token is unknown, used or expired; [`ErrorKind::Invalid`] if
    /// the name or the password is invalid; [`ErrorKind::Conflict`] if the name is taken, or the address
    /// has an account by now; [`ErrorKind::Denied`] if the policy does not permit it any more.
    pub fn join(
        &self,
        token: &str,
        name: Option<&str>,
        password: &str,
        from: Option<IpAddr>,
    ) -> Result<i64> {
        self.join_with_profile(token, name, password, None, from)
    }

    /// [`Auth::join`], with the values of the new user's row in the table of [`crate::Settings::profile`]:
    /// a JSON object without `user`. The account and the row are made together, or none of them; the link
    /// can be used again then.
    ///
    /// The row is inserted under the rights of the new user. Without values, it has the defaults of the
    /// table; a user who may not insert rows there has none.
    ///
    /// # Errors
    /// As [`Auth::join`]; [`ErrorKind::Invalid`] for values that break a rule of the table,
    /// [`ErrorKind::Denied`] for a field that the user may not write.
    pub fn join_with_profile(
        &self,
        token: &str,
        name: Option<&str>,
        password: &str,
        profile: Option<&str>,
        from: Option<IpAddr>,
    ) -> Result<i64> {
        let inner = &self.0;
        let link = self.link(token, &[MailKind::SignUp, MailKind::Invitation], from)?;
        let is_permitted = match link.kind {
            MailKind::Invitation => inner.settings.sign_up != SignUpPolicy::Closed,
            _ => inner.settings.sign_up.permits(&link.address),
        };
        if !is_permitted {
            return Err(Error::new(ErrorKind::Denied, "sign-up is closed"));
        }
        let name = name.filter(|name| !name.is_empty()).unwrap_or(&link.address);
        if name.contains('@') && lower_address(name) != link.address {
            let message = "a name with `@` must be the mail address; leave `@` out, or the name";
            self.report(&SecurityEvent::LinkRefused { address: from });
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut user = new_user(name);
        user.password = Some(inner.passwords.hash(password)?);
        user.email = Some(link.address.clone());
        user.groups = link.groups.clone();
        let rights = inner.rights_of_new(&user)?;
        let id = inner.store.transaction(|tx| {
            self.use_link(tx, &link)?;
            let of_address = AccountLink::ADDRESS.eq(link.address.as_str());
            tx.delete_where::<AccountLink>(of_address).run()?;
            // A group may have been removed since the invitation.
            let names = link.groups.iter().map(String::as_str);
            let groups = tx.list::<Group>().filter(Group::NAME.is_in(names)).column(Group::NAME);
            let mut user = user.clone();
            user.groups.0 = groups.run()?;
            user.id = ids::of_user(tx)?;
            tx.insert(&user).run()?;
            inner.insert_profile(tx, user.id, rights(user.id)?, profile)?;
            Ok(user.id)
        })?;
        inner.attempts.succeeded(LINKS, from, inner.now());
        self.report(&SecurityEvent::UserAdded { user: id, name: name.to_owned() });
        self.report(&SecurityEvent::SignedUp { user: id, address: from });
        Ok(id)
    }

    /// Sets a new password with the token of a link, and ends the user's sessions. An authenticator app is
    /// kept.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] if the token is unknown, used or expired; [`ErrorKind::Invalid`] if
    /// the password is invalid.
    pub fn reset_password(&self, token: &str, password: &str, from: Option<IpAddr>) -> Result<()> {
        let inner = &self.0;
        let link = self.link(token, &[MailKind::Reset, MailKind::AccountExists], from)?;
        let Some(user) = link.user else { return Err(unknown()) };
        let hash = inner.passwords.hash(password)?;
        inner.store_password(user, &hash, |tx, user| {
            self.use_link(tx, &link)?;
            if user.is_disabled || user.email.as_ref() != Some(&link.address) {
                return Err(unknown());
            }
            tx.delete_where::<AccountLink>(AccountLink::USER.eq(user.id)).run().map(drop)
        })?;
        inner.attempts.succeeded(LINKS, from, inner.now());
        Ok(())
    }

    /// Starts a session with the token of a link. A user with an authenticator app needs a code as well:
    /// without one, the token is not used up.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] if the token is unknown, used or expired, and with the violation
    /// `code` as [`Auth::login_with`].
    pub fn login_with_link<'p>(
        &self,
        token: &str,
        proof: impl Into<SecondProof<'p>>,
        client: LoginClient<'_>,
    ) -> Result<LoggedIn> {
        let inner = &self.0;
        let link = self.link(token, &[MailKind::Login], client.address)?;
        let user = link.user.map(|user| inner.store.get::<User>(user).optional().run());
        let is_valid =
            |user: &User| !user.is_disabled && user.email.as_ref() == Some(&link.address);
        let Some(user) = user.transpose()?.flatten().filter(is_valid) else {
            return Err(unknown());
        };
        inner.attempts.succeeded(LINKS, client.address, inner.now());
        inner.pass_second_factor(user.id, proof.into(), client.address)?;
        inner.store.transaction(|tx| self.use_link(tx, &link))?;
        inner.log_in(&user, client)
    }

    /// Makes the address of a link the user's, and ends links that were sent to the old one. The old
    /// address gets a mail.
    ///
    /// A login name that is the old address becomes the new one.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] if the token is unknown, used or expired, [`ErrorKind::Conflict`]
    /// if the address has an account by now.
    pub fn confirm_address(&self, token: &str, from: Option<IpAddr>) -> Result<()> {
        let inner = &self.0;
        let link = self.link(token, &[MailKind::Address], from)?;
        let Some(user) = link.user else { return Err(unknown()) };
        inner.store.transaction(|tx| {
            self.use_link(tx, &link)?;
            let user = tx.get::<User>(user).run()?;
            let patch = tx.patch::<User>(user.id).set(User::EMAIL, link.address.clone());
            let is_name = user.email.as_ref().is_some_and(|old| lower_address(&user.name) == *old);
            match is_name {
                true => patch.set(User::NAME, link.address.clone()).run()?,
                false => patch.run()?,
            };
            tx.delete_where::<AccountLink>(AccountLink::USER.eq(user.id)).run()?;
            if let Some(old) = user.email {
                self.notify(tx, MailKind::AddressChanged, old)?;
            }
            inner.changed(tx, SecurityEvent::AddressSet { user: user.id })
        })?;
        inner.attempts.succeeded(LINKS, from, inner.now());
        Ok(())
    }

    /// Returns the link of a token.
    fn link(&self, token: &str, kinds: &[MailKind], from: Option<IpAddr>) -> Result<AccountLink> {
        let inner = &self.0;
        inner.begin_attempt(LINKS, from)?;
        let hash = TokenHash::of(token).text();
        let rows = inner.store.list::<AccountLink>().filter(AccountLink::TOKEN.eq(hash));
        let link = rows.limit(1).run()?.pop();
        let is_valid =
            |link: &AccountLink| kinds.contains(&link.kind) && link.ends_at > inner.now();
        link.filter(is_valid).ok_or_else(|| {
            self.report(&SecurityEvent::LinkRefused { address: from });
            unknown()
        })
    }

    /// Deletes a link in the transaction that it permits.
    fn use_link(&self, tx: &Transaction, link: &AccountLink) -> Result<()> {
        let same = AccountLink::ID.eq(link.id).and(AccountLink::TOKEN.eq(link.token.clone()));
        match tx.delete_where::<AccountLink>(same).run()? {
            0 => Err(unknown()),
            _ => Ok(()),
        }
    }
}

fn unknown() -> Error {
    unauthenticated("the link is unknown, was used, or has expired; request another one")
}
