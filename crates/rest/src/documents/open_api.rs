//! The API as an OpenAPI 3.1 document (<https://spec.openapis.org/oas/v3.1.0>), for tools that
//! generate clients and documentation: tables, logins, and additional operations.
//!
//! The document has one operation for each method of each route. The callers' rights select the
//! operations: two callers can receive different documents from `GET /api/openapi.json`.
//!
//! The modules build the parts as [`serde_json::Value`] and pass them to [`OpenApi`], which adds
//! the responses of errors and puts the document together. The order is: operations of the program,
//! of accounts (`accounts`, with logins), and of tables ([`tables`]).

#[cfg(feature = "auth")]
mod accounts;
mod batches;
mod fields;
mod tables;

use marmota_store::Store;
use marmota_web::OpenApi;
use serde_json::{Value, json};

/// Returns a reference to a schema of the components, for example `#/components/schemas/person`.
fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Returns the content of a JSON body, of a request or a response.
fn json_content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

/// Returns a JSON response with its description.
fn answer(what: &str, schema: &Value) -> Value {
    json!({ "description": what, "content": json_content(schema) })
}

/// Returns a required JSON body.
fn body(schema: &Value) -> Value {
    json!({ "required": true, "content": json_content(schema) })
}

/// Returns a parameter in the path. Such a parameter is always required (OpenAPI 3.1, section
/// 4.8.12).
fn in_path(name: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": schema })
}

/// Returns an optional query parameter.
fn in_query(name: &str, what: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "query", "description": what, "schema": schema })
}

/// Returns the document of a store's tables, as far as the caller may use them, with additional
/// operations. `base` is the prefix of the API, for example `/api`, or empty for an API at the
/// root; `rows_max` is the maximum number of rows in a page.
pub(crate) fn of_store(store: &Store, base: &str, rows_max: u64, additions: &OpenApi) -> OpenApi {
    // Routes of a table come after those without parameters, and so do their descriptions.
    let whole = additions.clone();
    #[cfg(feature = "auth")]
    let whole = if store.rights().is_some() { accounts::add(whole, base) } else { whole };
    tables::add(whole, store, base, rows_max)
}
