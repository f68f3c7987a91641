//! A new authentication in a session, for tables whose writes need a recent one.

use std::net::IpAddr;

use marmota_model::{Error, ErrorKind, Result};

use crate::auth::Auth;
use crate::known::{Identity, Proof};
use crate::models::{LoginSession, User};
use crate::security_event::SecurityEvent;

impl Auth {
    /// Authenticates the user of a session again, with the password, and a code of the authenticator app
    /// if there is one. Then writes to tables of [`crate::Settings::step_up`] are permitted for their
    /// time.
    ///
    /// Another process with the same database notices it after at most
    /// [`crate::Settings::cache_ttl`].
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] if the password or the code is wrong, [`ErrorKind::Busy`] after too
    /// many wrong ones, [`ErrorKind::Denied`] for a caller without a session.
    pub fn step_up(
        &self,
        known: &Identity,
        password: &str,
        code: Option<&str>,
        from: Option<IpAddr>,
    ) -> Result<()> {
        let inner = &self.0;
        let Proof::Session(session) = known.proof else {
            let message = "only the user of a session can authenticate again: log in first";
            return Err(Error::new(ErrorKind::Denied, message));
        };
        let user = inner.store.get::<User>(known.user).run()?;
        inner.check_password(&user, password, from)?;
        inner.pass_second_factor(user.id, code, from)?;
        let patch = inner.store.patch::<LoginSession>(session);
        patch.set(LoginSession::AUTHENTICATED_AT, inner.now()).run()?;
        inner.knowledge.forget(known.token);
        self.report(&SecurityEvent::SteppedUp { user: user.id, address: from });
        Ok(())
    }
}
