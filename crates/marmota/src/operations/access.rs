//! `/api/-/access`: what a user may do, and why not; the rows that a user sees.
//!
//! ```text
//! GET /api/-/access?user=ann&table=note&key=7
//!
//! {"user":"ann","is_disabled":false,"grants":[{"origin":{"group":"staff"},"grant":{…}}],
//!  "table":"note","key":"7","rights":[{"right":"update","extent":"none",
//!  "reason":"no rule is true for this row: `owner = @user.id`","grants":[{"grant":1,…}],…}]}
//! ```
//!
//! Without `user`, the caller is anonymous; without `table`, the answer has all tables.

use std::sync::Arc;

use marmota_auth::{Auth, GrantOf, UserAccess};
use marmota_http::{Method, Request, Response};
use marmota_model::{
    Error, ErrorKind, Result, Table, json as rows, parse_filter, parse_order, text,
};
use marmota_rest::{ApiError, ApiResult, admin_endpoint};
use marmota_store::Store;
use marmota_store::rights::{Grant, Rights, is_internal};
use serde_json::{Value, json};

use super::AdminRoute;

/// The maximum number of rows of an answer, and the default.
const ROWS_MAX: u64 = 200;
const MAY: &str = "see what others may do";

pub(super) fn routes(auth: &Auth, store: &Store) -> [AdminRoute; 2] {
    let access = {
        let (auth, store) = (auth.clone(), store.clone());
        admin_endpoint(Some(&auth.clone()), MAY, move |request, _| {
            explain(auth.clone(), store.clone(), request)
        })
    };
    let shown = {
        let (auth, store) = (auth.clone(), store.clone());
        admin_endpoint(Some(&auth.clone()), MAY, move |request, caller| {
            let by = caller.map(|caller| caller.caller().name.clone()).unwrap_or_default();
            list(auth.clone(), store.clone(), request, by)
        })
    };
    let what = "Returns what a user may do, and the reason of each denial";
    let of_rows = "Returns the rows of a table as a user sees them";
    [
        AdminRoute::new(Method::Get, "/access", what, access).query(&[
            ("user", "The name of the user; an anonymous caller without it"),
            ("table", "The table; all tables without it"),
            ("key", "The key of a row of the table"),
        ]),
        AdminRoute::new(Method::Get, "/access/rows", of_rows, shown).query(&[
            ("user", "The name of the user; an anonymous caller without it"),
            ("table", "The table"),
            ("filter", "A filter on the rows"),
            ("order", "Fields with commas between, descending ones with -"),
            ("limit", "The maximum number of rows, at most 200"),
        ]),
    ]
}

/// Refuses unknown parameters.
fn check_names(request: &Request, known: &[&str]) -> Result<()> {
    match request.query_params().find(|(name, _)| !known.contains(&&**name)) {
        None => Ok(()),
        Some((name, _)) => {
            let (name, known) = (text::excerpt(&name), known.join(", "));
            let message = format!("there is no parameter `{name}`; there are: {known}");
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

/// Returns a table of the program by its name; its own tables are not explained.
fn table_of(store: &Store, name: &str) -> Result<Arc<Table>> {
    let table = store.table(name)?;
    match is_internal(&table) {
        false => Ok(table),
        true => {
            let message = format!("`{}` is an internal table", text::excerpt(name));
            Err(Error::new(ErrorKind::NotFound, message))
        }
    }
}

fn grants_of(access: &UserAccess) -> Vec<Grant> {
    access.grants.iter().map(|one: &GrantOf| one.grant.clone()).collect()
}

async fn explain(auth: Auth, store: Store, request: Request) -> ApiResult<Response> {
    check_names(&request, &["user", "table", "key"])?;
    let user = request.query_param("user").filter(|user| !user.is_empty());
    let access = auth.access_of(user.as_deref()).await?;
    let (caller, grants) = (access.caller.as_ref(), grants_of(&access));
    let mut answer = json!({
        "user": caller.map(|caller| &caller.name),
        "is_disabled": access.is_disabled,
        "grants": access.grants,
    });
    let Some(name) = request.query_param("table").filter(|name| !name.is_empty()) else {
        let mut tables = Vec::new();
        let own = store.registry().tables().iter().filter(|table| !is_internal(table));
        for table in own {
            let rights = store.explain_access(caller, &grants, table, None).await?;
            tables.push(json!({ "table": table.name(), "rights": rights }));
        }
        answer["tables"] = tables.into();
        return Ok(Response::json_bytes(answer.to_string().into_bytes()));
    };
    let table = table_of(&store, &name)?;
    let text = request.query_param("key").filter(|text| !text.is_empty());
    let key = text.as_ref().map(|text| key_of(&table, text)).transpose()?;
    let rights = store.explain_access(caller, &grants, &table, key.as_ref()).await?;
    answer["table"] = name.into();
    answer["key"] = text.map_or(Value::Null, Into::into);
    answer["rights"] = json!(rights);
    Ok(Response::json_bytes(answer.to_string().into_bytes()))
}

fn key_of(table: &Table, key: &str) -> Result<marmota_model::Value> {
    table.parse_key(key).ok_or_else(|| {
        let (name, key) = (table.name(), text::excerpt(key));
        let message = format!("`key` is `{key}`, which cannot be a key of `{name}`");
        Error::new(ErrorKind::Invalid, message)
    })
}

async fn list(auth: Auth, store: Store, request: Request, by: String) -> ApiResult<Response> {
    check_names(&request, &["user", "table", "filter", "order", "limit"])?;
    let user = request.query_param("user").filter(|user| !user.is_empty());
    let access = auth.access_of(user.as_deref()).await?;
    let Some(name) = request.query_param("table") else {
        return Err(ApiError::bad_request("`table` is missing: name the table of the rows"));
    };
    let limit = match request.query_param("limit") {
        None => ROWS_MAX,
        Some(text) => {
            text.parse().ok().filter(|limit| (1..=ROWS_MAX).contains(limit)).ok_or_else(|| {
                let text = text::excerpt(&text);
                ApiError::bad_request(format!(
                    "`limit` is `{text}`; it must be between 1 and {ROWS_MAX}"
                ))
            })?
        }
    };
    let table = table_of(&store, &name)?;
    let shown = access.caller.as_ref().map_or("an anonymous caller", |caller| &caller.name);
    log::info!(target: "marmota::operations", "{by} reads rows of `{name}` as {shown}");
    let rights = Rights::new(store.registry(), access.caller.clone(), &grants_of(&access))?;
    let store = store.with_rights(Arc::clone(&rights));
    // Names of fields that the user may not read are unknown in filters and orders.
    let view = rights.view_of(&table);
    let mut query = store.list_records(view).limit(limit + 1);
    if let Some(filter) = request.query_param("filter").filter(|filter| !filter.is_empty()) {
        query = query.filter(parse_filter(view, &filter)?);
    }
    if let Some(order) = request.query_param("order").filter(|order| !order.is_empty()) {
        query = parse_order(view, &order)?.into_iter().fold(query, |query, by| query.order(by));
    }
    let found = match query.await {
        // The caller of this route is not refused, but the user that is shown.
        Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unauthenticated) => {
            let refused = json!({ "rows": [], "is_complete": true, "refused": error.message() });
            return Ok(Response::json_bytes(refused.to_string().into_bytes()));
        }
        found => found?,
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut body = b"{\"rows\":[".to_vec();
    for (number, row) in found.iter().take(limit).enumerate() {
        if number > 0 {
            body.push(b',');
        }
        rows::write_row(&mut body, &table, table.read_by_default(), &row.as_row());
    }
    body.extend(format!("],\"is_complete\":{}}}", found.len() <= limit).into_bytes());
    Ok(Response::json_bytes(body))
}
