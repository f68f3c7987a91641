//! A request with what its verb needs: the API, the caller's store and the table.

use std::sync::Arc;

use marmota_http::Request;
use marmota_model::Table;
use marmota_store::Store;

use crate::request::state::ApiState;

/// A request as verbs see it. `subject` is the table, or the registry for verbs on several tables.
pub(crate) struct RequestContext<'c, S = Table> {
    pub(crate) api: &'c Arc<ApiState>,
    /// The store with the rights of the caller.
    pub(crate) store: &'c Store,
    pub(crate) request: &'c Request,
    pub(crate) subject: &'c Arc<S>,
}

impl<S> Clone for RequestContext<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for RequestContext<'_, S> {}

impl<'c> RequestContext<'c> {
    pub(crate) fn table(&self) -> &'c Table {
        self.subject
    }
}
