//! The route of batches in an OpenAPI document: an alternative for each table and operation.
//!
//! ```text
//! {"type":"object","required":["insert","row"],"additionalProperties":false,"properties":{
//!   "insert":{"const":"person"},"row":{"$ref":"#/components/schemas/person.new"},…}}
//! ```
//!
//! The schema leaves out `{"$result":n}`, which stands for the key of an earlier operation.

use std::sync::Arc;

use marmota_http::Method;
use marmota_model::{Kind, Role, Table};
use marmota_store::Store;
use marmota_web::OpenApi;
use serde_json::{Value, json};

use super::tables::conflicts;
use super::{answer, body, fields, reference};

/// Adds the route, with the operations on tables that the caller may write to.
pub(super) fn add(document: OpenApi, store: &Store, tables: &[&Arc<Table>], base: &str) -> OpenApi {
    let operations: Vec<Value> =
        tables.iter().flat_map(|table| of_table(table, conflicts(store, table))).collect();
    let sent = json!({
        "type": "object",
        "required": ["operations"],
        "properties": {
            "mode": { "type": "string", "enum": ["all", "each"], "default": "all" },
            "operations": { "type": "array", "items": reference("batch.operation") },
        },
        "additionalProperties": false,
    });
    let mut sent = body(&sent);
    sent["content"]["application/x-ndjson"] = json!({ "schema": reference("batch.operation") });
    sent["description"] = json!(
        "A key and a reference may also be `{\"$result\":n}`: the key of the row of operation n, \
         an earlier insert"
    );
    let mut answered = answer(
        "The outcome of each",
        &json!({
            "type": "object",
            "required": ["results"],
            "properties": { "results": { "type": "array", "items": reference("batch.result") } },
        }),
    );
    answered["content"]["application/x-ndjson"] = json!({ "schema": reference("batch.result") });
    document
        .schema("batch.operation", json!({ "oneOf": operations }))
        .schema("batch.result", result())
        .operation(Method::Post, &format!("{base}/batch"), json!({
            "operationId": "batch",
            "summary": "Several writes over any tables, in one transaction unless `mode` is `each`",
            "requestBody": sent,
            "responses": { "200": answered },
        }))
}

/// Returns the operations on a table.
fn of_table(table: &Table, conflicts: &[&str]) -> Vec<Value> {
    let name = table.name();
    let row = |request: &str| reference(&format!("{name}.{request}"));
    let key = fields::key(table);
    // A table without versions has none to compare with.
    let has_version = table.fields().iter().any(|field| field.role == Role::Version);
    let mut version = fields::int64();
    version["type"] = json!(["integer", "null"]);
    let version: &[(&str, Value)] = if has_version { &[("version", version)] } else { &[] };
    let names: Vec<Option<&str>> = conflicts.iter().copied().map(Some).chain([None]).collect();
    let conflict = json!({ "enum": names });
    let mut all = vec![
        operation(name, "insert", &[("row", row("new"))], &[("on_conflict", conflict)]),
        operation(name, "update", &[("key", key.clone()), ("row", row("whole"))], version),
        operation(name, "patch", &[("key", key.clone()), ("row", row("change"))], version),
        operation(name, "delete", &[("key", key.clone())], version),
    ];
    for (is_currency, by) in [(false, fields::int64()), (true, fields::amount())] {
        let numbers = table.fields().iter().enumerate().filter(|(at, field)| {
            (field.kind == Kind::Currency) == is_currency && fields::takes_increments(table, *at)
        });
        let names: Vec<&str> = numbers.map(|(_, field)| &*field.name).collect();
        if !names.is_empty() {
            let required = [("key", key.clone()), ("field", json!({ "enum": names })), ("by", by)];
            all.push(operation(name, "increment", &required, &[]));
        }
    }
    all
}

/// Returns the schema of an operation from its required and optional members.
fn operation(
    table: &str,
    verb: &str,
    required: &[(&str, Value)],
    optional: &[(&str, Value)],
) -> Value {
    let mut properties = json!({ (verb): { "const": table } });
    for (name, schema) in required.iter().chain(optional) {
        properties[*name] = schema.clone();
    }
    let names: Vec<&str> =
        std::iter::once(verb).chain(required.iter().map(|(name, _)| *name)).collect();
    json!({
        "type": "object",
        "required": names,
        "properties": properties,
        "additionalProperties": false,
    })
}

/// Returns the schema of the outcome of an operation.
fn result() -> Value {
    json!({
        "type": "object",
        "required": ["status"],
        "properties": {
            "status": { "type": "integer" },
            "key": { "type": ["integer", "string"] },
            "effect": { "enum": ["inserted", "replaced", "updated", "ignored"] },
            "version": { "type": "integer", "format": "int64" },
            "value": { "type": "number" },
            "error": reference("problem"),
        },
    })
}
