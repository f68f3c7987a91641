//! JSON Schemas of the types in a contract, derived from the names of the types. The schema of a
//! program's own type has no constraints: its name does not determine its JSON.

use serde_json::{Value, json};

/// The maximum nesting depth; deeper types have no constraints.
const DEPTH_MAX: usize = 16;

/// Returns the schema of a type.
pub(crate) fn schema_of(text: &str) -> Value {
    of(text.trim(), DEPTH_MAX)
}

/// Returns true for a type that may be omitted.
pub(crate) fn is_option(text: &str) -> bool {
    matches!(parts(text.trim()), Some(("Option", _)))
}

/// Returns the `T` of an `ItemStream<T>`.
pub(crate) fn item_of(text: &str) -> Option<&str> {
    match parts(text.trim()) {
        Some(("ItemStream", inside)) => arguments(inside).next(),
        _ => None,
    }
}

fn of(text: &str, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return json!({}) };
    if let Some(inside) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        return tuple(inside, depth);
    }
    if let Some(inside) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return array(inside.split(';').next().unwrap_or_default(), depth);
    }
    match parts(text) {
        Some((name, inside)) => generic(name, inside, text, depth),
        None => plain(last(text), text),
    }
}

/// Splits a generic type into its name and its arguments.
fn parts(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('<')?;
    Some((last(name), rest.strip_suffix('>')?))
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path).trim()
}

/// Splits arguments at the commas of the outer level.
fn arguments(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let parts = text.split(move |letter| {
        match letter {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && letter == ','
    });
    parts.map(str::trim).filter(|part| !part.is_empty() && !part.starts_with('\''))
}

fn tuple(inside: &str, depth: usize) -> Value {
    let schemas: Vec<Value> = arguments(inside).map(|part| of(part, depth)).collect();
    let count = schemas.len();
    match (count, inside.trim_end().ends_with(',')) {
        (0, _) => json!({ "type": "null" }),
        // Parentheses around a single type are not a tuple.
        (1, false) => schemas.into_iter().next().unwrap_or_default(),
        _ => {
            json!({ "type": "array", "prefixItems": schemas, "minItems": count, "maxItems": count })
        }
    }
}

fn array(item: &str, depth: usize) -> Value {
    json!({ "type": "array", "items": of(item.trim(), depth) })
}

fn generic(name: &str, inside: &str, text: &str, depth: usize) -> Value {
    let mut arguments = arguments(inside);
    match (name, arguments.next(), arguments.next()) {
        ("Option", Some(inside), _) => nullable(of(inside, depth)),
        ("Vec" | "VecDeque" | "LinkedList" | "BinaryHeap", Some(item), _) => array(item, depth),
        ("HashSet" | "BTreeSet" | "IndexSet", Some(item), _) => {
            let mut schema = array(item, depth);
            schema["uniqueItems"] = json!(true);
            schema
        }
        ("HashMap" | "BTreeMap" | "IndexMap", Some(_), Some(value)) => {
            json!({ "type": "object", "additionalProperties": of(value, depth) })
        }
        ("Box" | "Arc" | "Rc" | "Cow" | "Reverse" | "Wrapping", Some(inside), _) => {
            of(inside, depth)
        }
        _ => own(text),
    }
}

fn nullable(schema: Value) -> Value {
    match schema.get("type") {
        // A schema without constraints already allows null.
        None if schema.get("anyOf").is_none() => schema,
        Some(Value::String(kind)) if kind == "null" => schema,
        Some(Value::String(kind)) if schema.get("enum").is_none() => {
            let kinds = json!([kind, "null"]);
            let mut schema = schema;
            schema["type"] = kinds;
            schema
        }
        _ => json!({ "anyOf": [schema, { "type": "null" }] }),
    }
}

fn plain(name: &str, text: &str) -> Value {
    let integer = |bits: u32, signed: bool| match (bits, signed) {
        (32 | 64, true) => json!({ "type": "integer", "format": format!("int{bits}") }),
        (8 | 16, true) => {
            let end = 1_i64 << (bits - 1);
            json!({ "type": "integer", "minimum": -end, "maximum": end - 1 })
        }
        (8 | 16 | 32, false) => {
            json!({ "type": "integer", "minimum": 0, "maximum": (1_i64 << bits) - 1 })
        }
        (_, false) => json!({ "type": "integer", "minimum": 0 }),
        (_, true) => json!({ "type": "integer" }),
    };
    match name {
        "bool" => json!({ "type": "boolean" }),
        "i8" => integer(8, true),
        "i16" => integer(16, true),
        "i32" => integer(32, true),
        "i64" | "isize" => integer(64, true),
        "i128" => integer(128, true),
        "u8" => integer(8, false),
        "u16" => integer(16, false),
        "u32" => integer(32, false),
        "u64" | "usize" | "u128" => integer(64, false),
        "f32" => json!({ "type": "number", "format": "float" }),
        "f64" => json!({ "type": "number", "format": "double" }),
        "String" | "str" | "PathBuf" => json!({ "type": "string" }),
        "char" => json!({ "type": "string", "minLength": 1, "maxLength": 1 }),
        _ => own(text),
    }
}

/// Returns the schema of a type that only its program knows.
fn own(text: &str) -> Value {
    json!({ "description": format!("`{text}`, as serde writes it") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_known_by_their_names() {
        let free = |text: &str| json!({ "description": format!("`{text}`, as serde writes it") });
        let int = || json!({ "type": "integer", "format": "int32" });
        for (text, schema) in [
            ("bool", json!({ "type": "boolean" })),
            ("i32", int()),
            ("u8", json!({ "type": "integer", "minimum": 0, "maximum": 255 })),
            ("i8", json!({ "type": "integer", "minimum": -128, "maximum": 127 })),
            ("u64", json!({ "type": "integer", "minimum": 0 })),
            ("std::string::String", json!({ "type": "string" })),
            ("()", json!({ "type": "null" })),
            ("(i32)", int()),
            (
                "(i32,)",
                json!({ "type": "array", "prefixItems": [int()], "minItems": 1, "maxItems": 1 }),
            ),
            ("Option<i32>", json!({ "type": ["integer", "null"], "format": "int32" })),
            ("Option<Person>", free("Person")),
            (
                "Option<Option<bool>>",
                json!({ "anyOf": [{ "type": ["boolean", "null"] }, { "type": "null" }] }),
            ),
            (
                "Vec<Vec<i32>>",
                json!({ "type": "array", "items": { "type": "array", "items": int() } }),
            ),
            (
                "[f64;3]",
                json!({ "type": "array", "items": { "type": "number", "format": "double" } }),
            ),
            ("Cow<'static,str>", json!({ "type": "string" })),
            (
                "std::collections::BTreeMap<String,Option<(bool,my::Own<i32,u8>)>>",
                json!({ "type": "object", "additionalProperties": {
                    "type": ["array", "null"],
                    "prefixItems": [{ "type": "boolean" }, free("my::Own<i32,u8>")],
                    "minItems": 2, "maxItems": 2,
                } }),
            ),
            ("my::Person", free("my::Person")),
            ("impl Fn(i32)->u8", free("impl Fn(i32)->u8")),
        ] {
            assert_eq!(schema_of(text), schema, "{text}");
        }
        let deep = format!("{}i32{}", "Vec<".repeat(1_000), ">".repeat(1_000));
        assert!(schema_of(&deep).to_string().len() < 1_000);
        for text in ["", "<", ">", "Vec<", "Vec<>", "()<>", "(,)", "[;]", "HashMap<String>"] {
            schema_of(text);
        }
        assert!(is_option("std::option::Option<u8>") && !is_option("Vec<Option<u8>>"));
        assert_eq!(item_of("marmota::service::ItemStream<Vec<u8>>"), Some("Vec<u8>"));
        assert_eq!(item_of("Numbers"), None);
    }
}
