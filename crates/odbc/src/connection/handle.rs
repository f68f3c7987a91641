//! The handle of a connection, which closes without a panic.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

use odbc_api::Connection;

/// A connection of the driver manager.
pub(super) struct Handle(Option<Connection<'static>>);

impl Handle {
    pub(super) const fn new(connection: Connection<'static>) -> Self {
        Self(Some(connection))
    }
}

impl Deref for Handle {
    type Target = Connection<'static>;

    fn deref(&self) -> &Self::Target {
        match &self.0 {
            Some(connection) => connection,
            None => unreachable!("the connection is only taken on drop"),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // `odbc-api` panics if the driver cannot disconnect, e.g. from a server that is gone.
        let connection = self.0.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(connection)));
    }
}
