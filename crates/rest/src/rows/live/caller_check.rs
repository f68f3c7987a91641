//! The caller of a live query, whose login may end and whose rights may change while it runs.

#[cfg(feature = "auth")]
mod checked {
    use std::task::{Context, Poll};

    use marmota_auth::AccountChanges;
    use marmota_model::Result;
    use marmota_store::Store;

    use crate::request::authenticator::Reauthentication;

    /// The caller of a live query.
    #[derive(Debug)]
    pub(crate) struct CallerCheck {
        again: Reauthentication,
        changes: AccountChanges,
        /// True if accounts have changed since the caller was authenticated.
        is_due: bool,
    }

    impl CallerCheck {
        pub(crate) fn new(again: Reauthentication) -> Self {
            let changes = again.account_changes();
            Self { again, changes, is_due: false }
        }

        /// Returns true if accounts have changed since the last check; otherwise the waker is woken
        /// when they do.
        pub(crate) fn is_due(&mut self, context: &mut Context<'_>) -> bool {
            self.is_due |= self.changes.poll(context).is_ready();
            self.is_due
        }

        /// Authenticates the caller, and returns the store with the current rights.
        ///
        /// # Errors
        /// 401 if the token is not valid any more.
        pub(crate) fn poll_store(&mut self, context: &mut Context<'_>) -> Poll<Result<Store>> {
            self.again.poll(context).map(|store| {
                self.is_due = false;
                store
            })
        }
    }
}

#[cfg(not(feature = "auth"))]
mod checked {
    use std::task::{Context, Poll};

    use marmota_model::Result;
    use marmota_store::Store;

    /// The caller of a live query, who does not exist without accounts.
    #[derive(Debug)]
    pub(crate) enum CallerCheck {}

    impl CallerCheck {
        pub(crate) fn is_due(&mut self, _: &mut Context<'_>) -> bool {
            match *self {}
        }

        pub(crate) fn poll_store(&mut self, _: &mut Context<'_>) -> Poll<Result<Store>> {
            match *self {}
        }
    }
}

pub(crate) use checked::CallerCheck;
