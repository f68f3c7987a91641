//! The routes of webhooks as operations of an OpenAPI document.

use serde_json::{Value, json};

/// Returns the operation with this name, at this path.
pub(super) fn operation(name: &str, path: &str) -> Value {
    let (summary, answer) = match name {
        "list" => ("Webhooks", Some(list_of("webhooks", &webhook()))),
        "get" => ("A webhook", Some(webhook())),
        "set" => ("Adds or replaces a webhook", Some(webhook())),
        "remove" => ("Removes a webhook with its deliveries", None),
        "secret" => ("The secret that verifies signatures", Some(secret())),
        "enable" => ("Enables a webhook, and sends what waits", Some(webhook())),
        "disable" => ("Disables a webhook", Some(webhook())),
        "deliveries" => ("Deliveries, the last ones first", Some(deliveries())),
        _ => ("Sends a delivery again, or all that were given up", Some(replayed())),
    };
    let responses = match answer {
        Some(schema) => json!({ "200": {
            "description": summary,
            "content": { "application/json": { "schema": schema } },
        } }),
        None => json!({ "204": { "description": "Done" } }),
    };
    let mut operation = json!({
        "operationId": format!("webhooks.{name}"),
        "summary": summary,
        "description": "For administrators.",
        "tags": ["webhooks"],
        "responses": responses,
    });
    let mut parameters = Vec::new();
    if path.contains("{name}") {
        let name = json!({ "type": "string", "maxLength": 100 });
        parameters.push(json!({ "name": "name", "in": "path", "required": true, "schema": name }));
    }
    if name == "deliveries" {
        let states = json!({ "type": "string", "enum": ["pending", "delivered", "failed"] });
        let before = json!({ "type": "integer", "format": "int64" });
        let limit = json!({ "type": "integer", "minimum": 0, "maximum": 1000, "default": 100 });
        for (name, schema) in [("state", states), ("before", before), ("limit", limit)] {
            parameters.push(json!({ "name": name, "in": "query", "schema": schema }));
        }
    }
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    let body = match name {
        "set" => Some(definition()),
        "replay" => Some(json!({ "oneOf": [
            { "type": "object", "properties": { "delivery": id() }, "required": ["delivery"] },
            { "type": "object", "properties": { "failed": { "const": true } }, "required": ["failed"] },
        ] })),
        _ => None,
    };
    if let Some(schema) = body {
        let content = json!({ "application/json": { "schema": schema } });
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    operation
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn text_or_null() -> Value {
    json!({ "type": ["string", "null"] })
}

fn id() -> Value {
    json!({ "type": "integer", "format": "int64" })
}

fn texts() -> Value {
    json!({ "type": "array", "items": text() })
}

fn kinds() -> Value {
    json!({ "type": "array", "items": { "enum": ["insert", "update", "delete"] } })
}

fn object(properties: &Value) -> Value {
    let required: Vec<&String> =
        properties.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

fn list_of(name: &str, item: &Value) -> Value {
    object(&json!({ name: { "type": "array", "items": item } }))
}

fn secret() -> Value {
    object(&json!({ "secret": text() }))
}

fn replayed() -> Value {
    object(&json!({ "replayed": { "type": "integer" } }))
}

/// Returns the schema of the body of PUT: [`crate::Webhook`] without its name.
fn definition() -> Value {
    json!({
        "type": "object",
        "properties": {
            "url": { "type": "string", "format": "uri", "maxLength": 2000 },
            "table": text(),
            "filter": { "type": ["string", "null"], "maxLength": 4000 },
            "kinds": kinds(),
            "fields": texts(),
            "secret": text_or_null(),
        },
        "required": ["url", "table"],
    })
}

/// Returns the schema of `WebhookRow::to_json`.
fn webhook() -> Value {
    object(&json!({
        "name": text(),
        "url": text(),
        "table": text(),
        "filter": text_or_null(),
        "kinds": kinds(),
        "fields": texts(),
        "state": { "enum": ["enabled", "disabled"] },
        "reason": text_or_null(),
        "failing_since": { "type": ["string", "null"], "format": "date-time" },
        "created_at": { "type": "string", "format": "date-time" },
        "is_declared": { "type": "boolean" },
    }))
}

/// Returns the schema of a page of `DeliveryRow::to_json`.
fn deliveries() -> Value {
    let time = json!({ "type": ["string", "null"], "format": "date-time" });
    let delivery = object(&json!({
        "id": id(),
        "message": text(),
        "event": text(),
        "row": text(),
        "state": { "enum": ["pending", "delivered", "failed"] },
        "attempts": { "type": "integer" },
        "status": { "type": ["integer", "null"] },
        "error": text_or_null(),
        "created_at": { "type": "string", "format": "date-time" },
        "ended_at": time,
        "payload": { "type": "object" },
    }));
    object(&json!({
        "deliveries": { "type": "array", "items": delivery },
        "next": { "type": ["integer", "null"], "format": "int64" },
    }))
}
