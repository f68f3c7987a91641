//! The URL of a live page, which is read with the rights of a caller.

use std::sync::Arc;

use marmota_model::RowQuery;
use marmota_store::Store;
use marmota_web::ApiResult;

use super::document::LiveDocument;
use crate::request::params;
use crate::request::state::ApiState;

/// The URL of a page whose changes are sent.
pub(crate) struct PageUrl {
    pub(crate) api: Arc<ApiState>,
    /// The name of the table.
    pub(crate) table: Box<str>,
    /// Path and query.
    pub(crate) target: Box<str>,
}

impl PageUrl {
    /// Returns the document for the caller of a store, its query, and whether its rows are counted.
    ///
    /// # Errors
    /// 400 for an invalid parameter; 403 and 404 for a table that the caller may not read.
    pub(crate) fn document(&self, store: &Store) -> ApiResult<(LiveDocument, RowQuery, bool)> {
        let table = store.exposed_table(&self.table)?;
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        let params = params::list(query, table, &self.api)?;
        params::refuse_of_pages(&params)?;
        let document = LiveDocument::new(table, &params, &self.target);
        // Without chosen fields, they are those that may be read in all rows.
        let is_chosen = params.shown != table.read_by_default();
        let (limit, fields) = (Some(params.rows_max), is_chosen.then_some(params.shown));
        Ok((document, RowQuery { limit, fields, ..params.query }, params.count))
    }
}
