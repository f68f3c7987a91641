//! The accounts of providers that belong to a user.

use marmota_model::{Error, ErrorKind, Ref, Result, Timestamp};

use crate::auth::{Auth, Inner};
use crate::models::{LinkedIdentity, Passkey, User};
use crate::security_event::SecurityEvent;

/// An account of a provider with which a user signs in.
#[derive(Clone, Debug, serde::Serialize)]
pub struct LinkedAccount {
    /// The primary key.
    pub id: i64,
    /// The provider, as a URL.
    pub issuer: String,
    /// The mail address that the provider has reported first.
    pub email: Option<String>,
    /// The time of the first sign-in.
    pub created_at: Timestamp,
}

impl Auth {
    /// Returns the accounts of providers with which a user signs in.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn linked_accounts(&self, user: i64) -> Result<Vec<LinkedAccount>> {
        let rows = self.0.store.list::<LinkedIdentity>();
        let rows = rows.filter(LinkedIdentity::USER.eq(Ref::new(user))).run()?;
        let shown = |LinkedIdentity { id, issuer, email, created_at, .. }: LinkedIdentity| {
            LinkedAccount { id, issuer, email, created_at }
        };
        Ok(rows.into_iter().map(shown).collect())
    }

    /// Removes an account of a provider from a user.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if it does not belong to the user; [`ErrorKind::Conflict`] if the user has
    /// neither a password nor a mail address, so that no way to sign in would be left.
    pub fn unlink(&self, user: i64, account: i64) -> Result<()> {
        let inner = &self.0;
        inner.store.transaction(|tx| {
            let of_user = LinkedIdentity::USER.eq(Ref::new(user));
            let deleted = tx.delete_where::<LinkedIdentity>(
                LinkedIdentity::ID.eq(account).and(of_user.clone()),
            );
            if deleted.run()? == 0 {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    "there is no such account of a provider",
                ));
            }
            let owner = tx.get::<User>(user).run()?;
            let passkeys = Passkey::USER.eq(Ref::new(user));
            let others = tx.count::<LinkedIdentity>().filter(of_user).run()?
                + tx.count::<Passkey>().filter(passkeys).run()?;
            if owner.password.is_none() && owner.email.is_none() && others == 0 {
                let message = "this is the only way to sign in: set a password first";
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            inner.changed(tx, SecurityEvent::IdentityUnlinked { user })
        })
    }
}

impl Inner {
    /// Returns the row of an account of a provider.
    pub(crate) fn linked(&self, issuer: &str, subject: &str) -> Result<Option<LinkedIdentity>> {
        let is_it = LinkedIdentity::ISSUER.eq(issuer).and(LinkedIdentity::SUBJECT.eq(subject));
        Ok(self.store.list::<LinkedIdentity>().filter(is_it).limit(1).run()?.pop())
    }
}
