//! The routes of the application file and of SQL as operations of an OpenAPI document.

use marmota_http::Method;
use marmota_rest::OpenApi;
use marmota_store::Store;
use serde_json::{Value, json};

use super::PATH as APP_PATH;
use super::sql_console::{PATH as SQL_PATH, ROWS, ROWS_MAX, has_sql};

/// Adds the operations of the application file.
pub(crate) fn add_app(document: OpenApi) -> OpenApi {
    let file = json!({ "type": "object", "description": "The application file as JSON" });
    let tag = json!({
        "ETag": { "description": "The tag of the file", "schema": { "type": "string" } },
    });
    let answer = |what: &str, schema: &Value| {
        let content = json!({ "application/json": { "schema": schema } });
        json!({ "200": { "description": what, "headers": tag, "content": content } })
    };
    let read = json!({
        "operationId": "app.get",
        "summary": "The application file: tables and groups",
        "description": "For administrators.",
        "tags": ["operations"],
        "responses": answer("The file", &file),
    });
    let boolean = json!({ "type": "boolean", "default": false });
    let column = json!({ "type": "string", "pattern": "^[^.]+[.][^.]+$" });
    let columns = json!({ "type": "array", "items": column });
    let query = |name: &str, what: &str, schema: &Value| json!({ "name": name, "in": "query", "description": what, "schema": schema });
    let change = json!({
        "operationId": "app.replace",
        "summary": "Replaces the application file, and changes the database and the routes",
        "description": "For administrators.",
        "tags": ["operations"],
        "parameters": [
            { "name": "If-Match", "in": "header", "required": true,
              "description": "The `ETag` of the file that was edited", "schema": { "type": "string" } },
            query("dry_run", "Returns the steps, and does nothing", &boolean),
            query("allow_loss", "Permits the steps that lose values and cannot be left out", &boolean),
            query("drop", "A `table.column` to drop with its values", &columns),
        ],
        "requestBody": { "required": true, "content": { "application/json": { "schema": file } } },
        "responses": answer("The steps", &json!({
            "type": "object",
            "required": ["applied", "refusal", "steps"],
            "properties": {
                "applied": { "type": "boolean" },
                "refusal": { "type": ["string", "null"], "description": "Why it would be refused" },
                "steps": { "type": "array", "items": step() },
            },
        })),
    });
    document.operation(Method::Get, APP_PATH, read).operation(Method::Put, APP_PATH, change)
}

/// Returns the schema of a step, as `steps_of` writes it.
fn step() -> Value {
    let text_or_null = json!({ "type": ["string", "null"] });
    json!({
        "type": "object",
        "required": ["text", "table", "column", "effect", "note", "statements", "is_done"],
        "properties": {
            "text": { "type": "string" },
            "table": { "type": "string" },
            "column": text_or_null,
            "effect": { "enum": ["safe", "optional_loss", "needs_loss", "refused"] },
            "note": text_or_null,
            "statements": { "type": "array", "items": { "type": "string" } },
            "is_done": { "type": "boolean" },
        },
    })
}

/// Adds the operation of SQL if the store has the route. A statement has the member `write` only on a
/// server where it may write.
pub(crate) fn add_sql(document: OpenApi, store: &Store, may_write: bool) -> OpenApi {
    if !has_sql(store) {
        return document;
    }
    let scalar = json!({ "type": ["null", "boolean", "integer", "number", "string"] });
    let mut statement = json!({
        "type": "object",
        "required": ["sql"],
        "properties": {
            "sql": { "type": "string" },
            "values": { "type": "array", "items": scalar, "description": "For the parameters `?`" },
            "limit": { "type": "integer", "minimum": 1, "maximum": ROWS_MAX, "default": ROWS },
        },
        "additionalProperties": false,
    });
    let seconds = json!({ "type": "number", "minimum": 0 });
    let read = json!({
        "type": "object",
        "title": "rows",
        "required": ["columns", "rows", "is_complete", "seconds"],
        "properties": {
            "columns": { "type": "array", "items": { "type": "string" } },
            "rows": { "type": "array", "items": { "type": "array" } },
            "is_complete": { "type": "boolean", "description": "False if rows were left out" },
            "seconds": seconds,
        },
    });
    let mut answers = vec![read];
    let mut summary = "A statement that reads";
    if may_write {
        summary = "A statement that reads or, with `write`, changes rows";
        statement["properties"]["write"] = json!({ "type": "boolean", "default": false });
        answers.push(json!({
            "type": "object",
            "title": "changed",
            "required": ["changed", "seconds"],
            "properties": { "changed": { "type": "integer", "minimum": 0 }, "seconds": seconds },
        }));
    }
    let content = |schema: &Value| json!({ "application/json": { "schema": schema } });
    document.operation(
        Method::Post,
        SQL_PATH,
        json!({
            "operationId": "sql",
            "summary": summary,
            "description": "For administrators.",
            "tags": ["operations"],
            "requestBody": { "required": true, "content": content(&statement) },
            "responses": { "200": {
                "description": "The rows, or the number of changed rows",
                "content": content(&json!({ "oneOf": answers })),
            } },
        }),
    )
}
