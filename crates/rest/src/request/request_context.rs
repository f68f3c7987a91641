//! A request with what its verb needs: the API, the caller's store and the table.
//!
//! The endpoint finds all parts before it creates a verb: the API (of the tenant, if there are
//! several), the store for the caller, and the table in the path. A verb therefore cannot be
//! reached without the caller's rights, or for a table that the API does not expose.

use std::sync::Arc;

use marmota_http::Request;
use marmota_model::Table;
use marmota_store::Store;

use crate::request::state::ApiState;

/// A request as verbs see it. `subject` is the table, or the registry for verbs on several tables.
///
/// It consists of references and is copied into each step. A request that has to wait owns the
/// parts, and lends them again for each poll.
pub(crate) struct RequestContext<'c, S = Table> {
    /// The settings of the API, and the store without the rights of the caller.
    pub(crate) api: &'c Arc<ApiState>,
    /// The store with the rights of the caller.
    pub(crate) store: &'c Store,
    /// The request. Its body is complete, unless the route reads lines.
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
    /// Returns the table in the path, which the caller's store exposes.
    pub(crate) fn table(&self) -> &'c Table {
        self.subject
    }
}
