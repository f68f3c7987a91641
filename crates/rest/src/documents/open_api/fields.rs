//! A table's row as a JSON Schema.

use marmota_model::{Field, KeyKind, Kind, Literal, Role, Rule, Table, json as text};
use serde_json::{Map, Value, json};

/// Returns the schema of a row. Fields are optional, since `fields` or a PATCH can select some.
pub(super) fn row(table: &Table) -> Value {
    let fields = table.fields().iter().enumerate();
    let properties: Map<String, Value> =
        fields.map(|(at, field)| (field.name.to_string(), of_field(table, at, field))).collect();
    json!({ "type": "object", "properties": properties })
}

/// Returns the fields that a new row requires.
pub(super) fn required(table: &Table) -> Vec<&str> {
    let fields = table.fields().iter().enumerate();
    fields
        .filter(|(at, field)| match field.role {
            Role::Plain => !field.nullable && table.default(*at).is_none(),
            Role::Key => matches!(table.key_kind(), KeyKind::Text),
            Role::CreatedAt | Role::UpdatedAt | Role::Version => false,
        })
        .map(|(_, field)| &*field.name)
        .collect()
}

/// Returns the schema of a field's value.
pub(super) fn of_field(table: &Table, position: usize, field: &Field) -> Value {
    let mut schema = of_kind(&field.kind);
    for rule in &*field.rules {
        add_rule(&mut schema, rule);
    }
    if let Some(default) = table.default(position) {
        let mut json = Vec::new();
        text::write_value_as(&mut json, &field.kind, default);
        schema["default"] = serde_json::from_slice(&json).unwrap_or_default();
    }
    if matches!(field.role, Role::CreatedAt | Role::UpdatedAt) {
        schema["readOnly"] = json!(true);
    }
    if field.immutable {
        let known = schema["description"].as_str().map(|known| format!("{known}. "));
        let text = format!("{}Fixed after the insert", known.unwrap_or_default());
        schema["description"] = json!(text);
        schema["x-immutable"] = json!(true);
    }
    if field.nullable {
        if let Some(kind) = schema.get("type").cloned() {
            schema["type"] = json!([kind, "null"]);
        }
        if let Some(names) = schema.get_mut("enum").and_then(Value::as_array_mut) {
            names.push(Value::Null);
        }
    }
    schema
}

/// Returns the schema of a row's key.
pub(super) fn key(table: &Table) -> Value {
    of_key(table.key_kind())
}

fn of_key(kind: KeyKind) -> Value {
    match kind {
        KeyKind::Auto => json!({ "type": "integer", "format": "int64" }),
        KeyKind::Uuid => json!({ "type": "string", "format": "uuid" }),
        KeyKind::Text => json!({ "type": "string" }),
    }
}

fn of_kind(kind: &Kind) -> Value {
    match kind {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Int { min, max } if (*min, *max) == (i64::MIN, i64::MAX) => {
            json!({ "type": "integer", "format": "int64" })
        }
        Kind::Int { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Float => json!({ "type": "number", "format": "double" }),
        Kind::Currency => {
            json!({ "type": "number", "description": "An amount with up to four decimals" })
        }
        Kind::Text { chars_max: 0, .. } => json!({ "type": "string" }),
        Kind::Text { chars_max, .. } => json!({ "type": "string", "maxLength": chars_max }),
        Kind::Blob => json!({
            "type": "string",
            "contentEncoding": "base64url",
            "description": "Without padding; shown where `fields` names it",
        }),
        Kind::Json => json!({ "description": "Any JSON" }),
        Kind::Date => json!({ "type": "string", "format": "date" }),
        // A time without an offset, unlike the JSON Schema format `time`.
        Kind::Time => json!({ "type": "string", "description": "A time of day, ISO 8601" }),
        Kind::Timestamp => json!({ "type": "string", "format": "date-time" }),
        Kind::Uuid => json!({ "type": "string", "format": "uuid" }),
        Kind::Enum { variants, .. } => {
            let names: Vec<&str> = variants.iter().map(|variant| &*variant.name).collect();
            json!({ "type": "string", "enum": names })
        }
        Kind::Reference { table, key } => {
            let mut schema = of_key(*key);
            schema["description"] = json!(format!("The key of a `{table}`"));
            schema
        }
        // An unknown kind may be any JSON.
        _ => json!({}),
    }
}

fn add_rule(schema: &mut Value, rule: &Rule) {
    let number = |end: &Option<Literal>| {
        let mut json = Vec::new();
        text::write_value(&mut json, end.as_ref()?.value());
        serde_json::from_slice::<Value>(&json).ok().filter(Value::is_number)
    };
    let is_number = matches!(schema["type"].as_str(), Some("integer" | "number"));
    match rule {
        Rule::NotEmpty => schema["minLength"] = json!(1),
        Rule::Length { min, max } => {
            schema["minLength"] = json!(min);
            schema["maxLength"] = json!(max);
        }
        Rule::Range { min, max } if is_number => {
            for (name, end) in [("minimum", number(min)), ("maximum", number(max))] {
                if let Some(end) = end {
                    schema[name] = end;
                }
            }
        }
        Rule::Email => schema["format"] = json!("email"),
        // Patterns have another dialect, and custom checks cannot be expressed: violations are
        // reported by the error.
        _ => {}
    }
}
