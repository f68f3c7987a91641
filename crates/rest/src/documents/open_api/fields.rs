//! A table's row as a JSON Schema.
//!
//! The dialect is that of OpenAPI 3.1, JSON Schema draft 2020-12. A nullable field has a list of
//! two types:
//!
//! ```text
//! "person": {
//!   "type": "object",
//!   "properties": {
//!     "id": {"type":"integer","format":"int64",…},
//!     "name": {"type":"string","minLength":1,"maxLength":40,…},
//!     "email": {"type":["string","null"],"format":"email"},
//!     "born": {"type":["string","null"],"format":"date"},
//!     "colour": {"type":["string","null"],"enum":["red","blue",null]},
//!     "created_at": {"type":"string","format":"date-time","readOnly":true}
//!   }
//! }
//! ```
//!
//! Rules that JSON Schema cannot express are left out. Such a schema permits values that the server
//! refuses with 422.

use marmota_model::{Field, KeyKind, Kind, Literal, OnDelete, Role, Rule, Table, json as text};
use serde_json::{Map, Value, json};

use crate::documents::schema_document::shown_fields;

/// The pattern of a text. No engine stores the character U+0000.
const WITHOUT_NUL: &str = r"^[^\x00]*$";
/// The pattern of a text with a character other than white space.
const NOT_EMPTY: &str = r"^[^\x00]*[^\s\x00][^\x00]*$";

/// The pattern of base64url, with or without padding.
const BASE64_URL: &str =
    "^([A-Za-z0-9_-]{4})*([A-Za-z0-9_-][AQgw]={0,2}|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048]=?)?$";
/// The pattern of a time of day. More forms are read, such as `17`, but not written.
const TIME: &str = "^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?$";
/// The largest amount that a float has without rounding.
const AMOUNT_MAX: f64 = 922_337_203_685_477.5;

/// The request that has a row as its body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// POST: the fields without a default are required.
    New,
    /// PUT: the same, but for the key, which is in the path.
    Whole,
    /// PATCH: no field is required.
    Change,
}

/// Returns the schema of a row as it is read, with a property for each field. All fields are required
/// but for blobs, which are read only by their names.
pub(super) fn row(table: &Table) -> Value {
    let properties: Map<String, Value> = shown_fields(table)
        .map(|(at, field)| (field.name.to_string(), of_field(table, at, field)))
        .collect();
    let required: Vec<&str> = shown_fields(table)
        .filter(|(at, field)| field.kind != Kind::Blob && table.is_readable(*at))
        .map(|(_, field)| &*field.name)
        .collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// Returns the schema of a row that is written. Other members than the fields are refused, except
/// for related rows, which the schema leaves out.
pub(super) fn written(table: &Table, body: Body) -> Value {
    let properties: Map<String, Value> = shown_fields(table)
        .map(|(at, field)| {
            let schema = match field.role {
                Role::CreatedAt | Role::UpdatedAt => {
                    json!({ "readOnly": true, "description": "Ignored: the store sets it" })
                }
                Role::Version => {
                    let mut version = int64();
                    version["type"] = json!(["integer", "null"]);
                    version["description"] = json!("The version that the row is expected to have");
                    version
                }
                Role::Key if table.key_kind() == KeyKind::Auto => {
                    let mut key = of_field(table, at, field);
                    key["minimum"] = json!(0);
                    key["description"] = json!("The store assigns it if it is 0 or left out");
                    key
                }
                Role::Key if table.has_composite_key() => {
                    let mut key = of_field(table, at, field);
                    key["description"] = json!(
                        "The store makes it of the values of the key: left out, or their text"
                    );
                    key
                }
                // A new row has no stored file.
                Role::Plain if body == Body::New && is_file(field) && field.nullable => json!({
                    "type": "null",
                    "description": "The bytes are written at the path of the field",
                }),
                Role::Plain if field.is_computed() => {
                    let mut computed = of_field(table, at, field);
                    let by = if field.computed.is_some() { "store" } else { "database" };
                    computed["description"] = json!(format!(
                        "The {by} computes it: left out, or the value that the {by} computes"
                    ));
                    computed
                }
                Role::Plain | Role::Key => of_field(table, at, field),
            };
            (field.name.to_string(), schema)
        })
        .collect();
    let mut required = required(table);
    match body {
        Body::New => {}
        Body::Whole => required.retain(|name| table.find(name) != Some(table.key())),
        Body::Change => required.clear(),
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Returns true if a caller may add to the field: an integer or an amount that is neither set by the
/// store nor fixed after the insert, and that the view may read and change.
pub(super) fn takes_increments(table: &Table, at: usize) -> bool {
    let field = &table.fields()[at];
    matches!(field.kind, Kind::Int { .. } | Kind::Currency)
        && field.role == Role::Plain
        && !field.is_computed()
        && !table.immutable().contains(at)
        && table.is_readable(at)
        && table.is_updated(at)
}

fn is_file(field: &Field) -> bool {
    matches!(field.kind, Kind::File { .. })
}

/// Returns the fields that a new row requires: those without a default that are not nullable. A key
/// is required only if it is a text, because other keys are assigned by the store. Times and
/// versions are never required.
fn required(table: &Table) -> Vec<&str> {
    shown_fields(table)
        .filter(|(at, field)| match field.role {
            Role::Plain => {
                !field.nullable && table.default(*at).is_none() && !table.is_determined(*at)
            }
            Role::Key => matches!(table.key_kind(), KeyKind::Text) && !table.has_composite_key(),
            Role::CreatedAt | Role::UpdatedAt | Role::Version => false,
        })
        .map(|(_, field)| &*field.name)
        .collect()
}

/// Returns the schema of a field's value: that of its kind, with its rules, its default and its
/// role.
///
/// - A computed field is `readOnly`, and has its expression as `x-computed`. A generated column is
///   `readOnly`, too: its expression is SQL, which may name fields that the caller does not see.
/// - A default expression is `x-default-expression`, an extension, and has a description.
/// - Creation and update times are `readOnly`: the server ignores them in a request.
/// - A field that cannot be changed after the insert has `x-immutable`, an extension, and a
///   description.
/// - A reference with an action of a delete has `x-on-delete`.
/// - `null` is added to the types, and to the names of an enumeration, of a nullable field.
pub(super) fn of_field(table: &Table, position: usize, field: &Field) -> Value {
    let mut schema = of_kind(&field.kind);
    for rule in &*field.rules {
        add_rule(&mut schema, rule);
    }
    if let Some(pattern) = pattern_of_text(table, position) {
        add_pattern(&mut schema, &pattern);
    }
    let is_limited = ["pattern", "format", "anyOf"].iter().any(|word| schema.get(word).is_some());
    if matches!(field.kind, Kind::Text { .. }) && !is_limited {
        schema["pattern"] = json!(WITHOUT_NUL);
    }
    if field.role == Role::Key && schema["type"] == "string" && schema["minLength"].is_null() {
        schema["minLength"] = json!(1);
    }
    if let Some(default) = table.default(position).filter(|_| field.computed.is_none()) {
        let mut json = Vec::new();
        text::write_value_as(&mut json, &field.kind, default);
        schema["default"] = serde_json::from_slice(&json).unwrap_or_default();
    }
    if let Some(expression) = table.default_expression(position) {
        if !expression.is_empty() {
            schema["x-default-expression"] = json!(expression);
        }
        schema["description"] = json!("The store determines it for a new row without it");
    }
    if let Some(expression) = table.computed(position) {
        if !expression.is_empty() {
            schema["x-computed"] = json!(expression);
        }
        schema["readOnly"] = json!(true);
    }
    if field.generated.is_some() {
        schema["readOnly"] = json!(true);
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
    if field.on_delete != OnDelete::Restrict {
        schema["x-on-delete"] = json!(field.on_delete.name());
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

/// Returns the schema of a value that a field is compared with. A value that no row can have is a valid
/// condition, so the rules and limits of the field do not apply.
pub(super) fn compared(table: &Table, position: usize, field: &Field) -> Value {
    let mut schema = of_field(table, position, field);
    let limits = match &field.kind {
        Kind::Int { .. } => int64(),
        Kind::Reference { key: KeyKind::Auto, .. } => int64(),
        Kind::Currency => amount(),
        Kind::Time => of_kind(&field.kind),
        Kind::Text { .. } | Kind::Reference { key: KeyKind::Text, .. } => {
            json!({ "pattern": WITHOUT_NUL })
        }
        _ => json!({}),
    };
    if let Some(schema) = schema.as_object_mut() {
        schema.retain(|name, _| matches!(&**name, "type" | "format" | "enum"));
        for name in ["minimum", "maximum", "pattern"] {
            if let Some(limit) = limits.get(name) {
                schema.insert(name.to_owned(), limit.clone());
            }
        }
    }
    schema
}

/// Returns the schema of a row's key, for the parameter of a path and the keys of inserted rows.
pub(super) fn key(table: &Table) -> Value {
    of_key(table.key_kind())
}

/// Returns the schema of a 64-bit integer.
pub(super) fn int64() -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX })
}

/// Returns the schema of an amount.
pub(super) fn amount() -> Value {
    json!({
        "type": "number",
        "minimum": -AMOUNT_MAX,
        "maximum": AMOUNT_MAX,
        "description": "An amount with up to four decimals",
    })
}

/// Returns the schema of a key of this kind, also for references to such a key.
fn of_key(kind: KeyKind) -> Value {
    match kind {
        KeyKind::Auto => int64(),
        KeyKind::Uuid => json!({ "type": "string", "format": "uuid" }),
        KeyKind::Text => json!({ "type": "string", "minLength": 1, "pattern": WITHOUT_NUL }),
    }
}

/// Returns the schema of a kind, as its JSON form in rows.
fn of_kind(kind: &Kind) -> Value {
    match kind {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Int { min: i64::MIN, max: i64::MAX } => int64(),
        Kind::Int { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Float => json!({ "type": "number", "format": "double" }),
        Kind::Currency => amount(),
        Kind::Text { chars_max: 0, .. } => json!({ "type": "string" }),
        Kind::Text { chars_max, .. } => json!({ "type": "string", "maxLength": chars_max }),
        Kind::Blob => json!({
            "type": "string",
            "contentEncoding": "base64url",
            "pattern": BASE64_URL,
            "description": "Without padding; shown where `fields` names it",
        }),
        Kind::Vector { dimensions } => json!({
            "type": "array",
            "items": {
                "type": "number",
                "format": "float",
                "minimum": f64::from(f32::MIN),
                "maximum": f64::from(f32::MAX),
            },
            "minItems": dimensions,
            "maxItems": dimensions,
        }),
        Kind::Json => json!({ "description": "Any JSON" }),
        Kind::File { bytes_max, types } => json!({
            "type": "object",
            "description": format!(
                "The description of a file of at most {bytes_max} bytes{}. The bytes are read and \
                 written at the path of the field; here, only null and the stored value are accepted",
                match &**types {
                    [] => String::new(),
                    types => format!(" of type {}", types.join(", ")),
                }
            ),
            "required": ["id", "name", "type", "bytes", "sha256", "created"],
            "properties": {
                "id": { "type": "string", "format": "uuid" },
                "name": { "type": "string" },
                "type": { "type": "string" },
                "bytes": { "type": "integer", "format": "int64" },
                "sha256": { "type": "string" },
                "created": { "type": "string", "format": "date-time" },
            },
        }),
        Kind::Date => json!({ "type": "string", "format": "date" }),
        // A time without an offset, unlike the JSON Schema format `time`.
        Kind::Time => {
            json!({ "type": "string", "description": "A time of day, ISO 8601", "pattern": TIME })
        }
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

/// Adds the keywords of a rule to a field's schema. A rule without a keyword changes nothing: its
/// violations are reported by the server. Ranges of times have no keyword, so only those of numbers
/// are added.
///
/// | rule | keywords |
/// |---|---|
/// | not empty | `minLength` 1, and a `pattern` for a character other than white space |
/// | length | `minLength`, `maxLength`, in characters |
/// | range of a number | `minimum`, `maximum` |
/// | email, url, ip | `format` |
/// | pattern | `pattern`, if it means the same in JavaScript; otherwise `x-pattern` |
fn add_rule(schema: &mut Value, rule: &Rule) {
    let number = |end: &Option<Literal>| {
        let mut json = Vec::new();
        text::write_value(&mut json, end.as_ref()?.value());
        serde_json::from_slice::<Value>(&json).ok().filter(Value::is_number)
    };
    let is_number = matches!(schema["type"].as_str(), Some("integer" | "number"));
    let is_blob = !schema["contentEncoding"].is_null();
    match rule {
        Rule::NotEmpty => {
            schema["minLength"] = json!(1);
            if !is_blob {
                add_pattern(schema, NOT_EMPTY);
            }
        }
        Rule::Length { min, max } if is_blob => {
            // The rule counts bytes: a padded text has four characters for each three of them.
            schema["minLength"] = json!((u64::from(*min) * 4).div_ceil(3));
            schema["maxLength"] = json!(u64::from(*max).div_ceil(3) * 4);
        }
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
        Rule::Url => schema["format"] = json!("uri"),
        Rule::Ip => schema["anyOf"] = json!([{ "format": "ipv4" }, { "format": "ipv6" }]),
        Rule::Pattern(pattern) if is_portable(pattern) => {
            add_pattern(schema, &format!("^(?:{pattern})$"));
        }
        Rule::Pattern(pattern) => schema["x-pattern"] = json!(pattern),
        // Custom checks cannot be expressed: violations are reported by the error.
        _ => {}
    }
}

/// Returns the pattern of a text that names rows of several tables; `None` for other fields, and if the
/// caller may not see one of the references.
fn pattern_of_text(table: &Table, text: usize) -> Option<String> {
    let references: Vec<&Field> = table.references_of_text(text).collect();
    let is_seen = |field: &&Field| table.position(&field.name).is_ok();
    let tables: Vec<&str> = references
        .iter()
        .filter_map(|field| match &field.kind {
            Kind::Reference { table, .. } => Some(&**table),
            _ => None,
        })
        .collect();
    let is_described = !tables.is_empty() && references.iter().all(is_seen);
    is_described.then(|| format!("^(?:{})/", tables.join("|")))
}

/// Adds a pattern to those that the schema has.
fn add_pattern(schema: &mut Value, pattern: &str) {
    if schema.get("pattern").is_none() {
        schema["pattern"] = json!(pattern);
    } else if let Some(all) = schema.get_mut("allOf").and_then(Value::as_array_mut) {
        all.push(json!({ "pattern": pattern }));
    } else {
        schema["allOf"] = json!([{ "pattern": pattern }]);
    }
}

/// Returns true if a pattern means the same in the dialect of JSON Schema, which is JavaScript's:
/// ASCII, without classes such as `\d`, which include all of Unicode here, without flags, and without
/// sets of classes.
fn is_portable(pattern: &str) -> bool {
    const ESCAPED: &str = r".+*?()|[]{}^$\/-";
    let mut letters = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(letter) = letters.next() {
        let next = letters.peek().copied();
        let is_plain = match letter {
            '\\' => letters.next().is_some_and(|escaped| ESCAPED.contains(escaped)),
            '(' if !in_class => next != Some('?'),
            '[' if in_class => false,
            '&' | '~' | '-' if in_class => next != Some(letter),
            // It is any character but `\n` here, and excludes more in JavaScript.
            '.' => in_class,
            letter => letter.is_ascii() && !letter.is_ascii_control(),
        };
        match letter {
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
        if !is_plain {
            return false;
        }
    }
    true
}
