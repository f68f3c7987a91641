//! `GET /api/{table}/{id}/history`: a page of the history of an audited row, including deleted
//! rows.
//!
//! ```text
//! GET /api/person/7/history?limit=1 HTTP/1.1
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/json
//!
//! {"rows":[{…}],"next":"/api/person/7/history?limit=1&after=…"}
//! ```

use std::sync::Arc;

use marmota_model::Table;
use marmota_store::history::{HISTORY_TABLE, of_row};
use marmota_store::registry::Registry;
use marmota_web::ApiResult;

use crate::protocol::key;
use crate::request::request_context::RequestContext;
use crate::rows::list::List;

/// The last segment of the path.
pub(crate) const HISTORY: &str = "history";

/// Returns true if the path names the history of a row.
pub(crate) fn is_asked_for(context: RequestContext<'_>) -> bool {
    context.request.param("field").is_some_and(|field| field == HISTORY)
        && has_history(context.table())
}

/// Returns true if rows of a table have the path of their history: the table is audited and has no field
/// named `history`, which would take precedence.
fn has_history(table: &Table) -> bool {
    table.schema().audit && table.find(HISTORY).is_none()
}

/// Returns the names of the tables whose rows have the path of their history.
pub(crate) fn tables(registry: &Registry) -> impl Iterator<Item = String> {
    let tables = registry.tables().iter().filter(|table| has_history(table));
    tables.map(|table| table.name().to_owned())
}

/// Returns the list, and its table.
///
/// The list is that of the history's table with a filter on the row, so all parameters of lists
/// apply: `filter`, `order`, `limit`, `after`, `fields` and `count`. The row itself is not read,
/// because a deleted row has a history, too.
///
/// # Errors
/// 400 for an invalid key, and the errors of lists.
pub(crate) fn list(context: RequestContext<'_>) -> ApiResult<(List, &Arc<Table>)> {
    let key = key::of_path(context.request, context.table())?;
    let table = context.api.store.registry().table(HISTORY_TABLE)?;
    let only = of_row(context.table().schema(), key.as_ref()).into_expr();
    let context = RequestContext { subject: table, ..context };
    Ok((List::among(context, Some(only))?, table))
}
