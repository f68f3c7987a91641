//! A new authentication in a session, for tables whose writes need a recent one.

use std::net::IpAddr;

use marmota_model::{Error, ErrorKind, Result};

use crate::auth::Auth;
use crate::credentials::passkey::SecondProof;
use crate::known::{Identity, Proof};
use crate::models::{LoginSession, User};
use crate::security_event::SecurityEvent;

impl Auth {
    /// Authenticates the user of a session again, with the password, and the second factor if there is one. Then writes to tables of [`crate::Settings::step_up`] are permitted for their
    /// time.
    ///
    /// Another process with the same database notices it after at most
    /// [`crate::Settings::cache_ttl`].
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] if the password or the code is wrong, [`ErrorKind::Busy`] after too
    /// many wrong ones, [`ErrorKind::Denied`] for a caller without a session.
    pub fn step_up<'p>(
        &self,
        known: &Identity,
        password: &str,
        proof: impl Into<SecondProof<'p>>,
        from: Option<IpAddr>,
    ) -> Result<()> {
        let inner = &self.0;
        let session = Self::session_of(known)?;
        let user = inner.store.get::<User>(known.user).run()?;
        inner.check_password(&user, password, from)?;
        inner.pass_second_factor(user.id, proof.into(), from)?;
        self.stepped_up(known, session, from)
    }

    /// Returns the session of a caller who authenticates again.
    pub(crate) fn session_of(known: &Identity) -> Result<i64> {
        match known.proof {
            Proof::Session(session) => Ok(session),
            Proof::Key(_) | Proof::Token => {
                let message = "only the user of a session can authenticate again: log in first";
                Err(Error::new(ErrorKind::Denied, message))
            }
        }
    }

    /// Stores that the user of a session has authenticated again.
    pub(crate) fn stepped_up(
        &self,
        known: &Identity,
        session: i64,
        from: Option<IpAddr>,
    ) -> Result<()> {
        let inner = &self.0;
        let patch = inner.store.patch::<LoginSession>(session);
        patch.set(LoginSession::AUTHENTICATED_AT, inner.now()).run()?;
        inner.knowledge.forget(known.token);
        self.report(&SecurityEvent::SteppedUp { user: known.user, address: from });
        Ok(())
    }
}
