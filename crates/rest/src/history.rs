//! `GET /api/{table}/{id}/history`: a page of the history of an audited row, including deleted
//! rows.

use std::sync::Arc;

use marmota_model::Table;
use marmota_store::history::{HISTORY_TABLE, of_row};

use crate::key;
use crate::list::List;
use crate::problem::Result;
use crate::request_context::RequestContext;

const HISTORY: &str = "history";

/// Returns true if the path names the history of a row.
pub(crate) fn is_asked_for(on: RequestContext<'_>) -> bool {
    on.table().schema().audit
        && on.request.param("field").is_some_and(|field| field == HISTORY)
        && on.table().find(HISTORY).is_none()
}

/// Returns the list, and its table.
///
/// # Errors
/// 400 for an invalid key, and the errors of lists.
pub(crate) fn list(on: RequestContext<'_>) -> Result<(List, &Arc<Table>)> {
    let key = key::of_path(on.request, on.table())?;
    let table = on.api.store.registry().table(HISTORY_TABLE)?;
    let only = of_row(on.table().schema(), key.as_ref()).into_expr();
    let on = RequestContext { subject: table, ..on };
    Ok((List::among(on, Some(only))?, table))
}
