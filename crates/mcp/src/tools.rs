//! From an OpenAPI document to tools, and from the call of a tool to a request.
//!
//! | operation of the document | tool | arguments |
//! |---|---|---|
//! | `issue.list` | `list_issue` | `filter`, `order`, `fields`, `limit`, `after`, `count` |
//! | `issue.get` | `get_issue` | `key`, `fields` |
//! | `issue.insert` | `insert_issue` | `values` |
//! | `issue.change` | `update_issue` | `key`, `values` |
//! | `issue.delete` | `delete_issue` | `key` |

use std::borrow::Cow;
use std::collections::BTreeMap;

use marmota_http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::options::McpOptions;

/// The maximum length of a tool's name. Agents refuse longer ones.
const NAME_BYTES_MAX: usize = 64;
/// The maximum number of tools. The definitions of more would fill the memory of an agent.
const TOOLS_MAX: usize = 1_000;

/// The tools of an API, by name.
pub(crate) type Tools = BTreeMap<String, ApiTool>;

/// A tool, and the operation that it calls.
pub(crate) struct ApiTool {
    pub(crate) tool: Tool,
    verb: Verb,
    /// The path of the operation, with `{key}`.
    path: String,
}

/// What a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    List,
    Get,
    Insert,
    Update,
    Delete,
}

/// A request of a tool.
#[derive(Debug, PartialEq)]
pub(crate) struct ToolRequest {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) body: Option<String>,
}

impl Verb {
    /// Returns the verb of an operation's id, such as `issue.list`, with the table.
    fn of_operation(id: &str) -> Option<(Self, &str)> {
        let (table, verb) = id.rsplit_once('.')?;
        let verb = match verb {
            "list" => Self::List,
            "get" => Self::Get,
            "insert" => Self::Insert,
            "change" => Self::Update,
            "delete" => Self::Delete,
            _ => return None,
        };
        Some((verb, table))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Get => "get",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    const fn method(self) -> Method {
        match self {
            Self::List | Self::Get => Method::Get,
            Self::Insert => Method::Post,
            Self::Update => Method::Patch,
            Self::Delete => Method::Delete,
        }
    }

    const fn is_write(self) -> bool {
        matches!(self, Self::Insert | Self::Update | Self::Delete)
    }
}

/// Returns the tools of an OpenAPI document.
///
/// Only operations on tables are tools: not those of accounts, services and other routes, which the
/// document can have as well.
pub(crate) fn tools(document: &Value, prefix: &str, options: &McpOptions) -> Tools {
    let mut tools = Tools::new();
    let paths = document["paths"].as_object().into_iter().flatten();
    let operations = paths.flat_map(|(path, item)| {
        let operations = item.as_object().into_iter().flat_map(Map::values);
        operations.map(move |operation| (path, operation))
    });
    for (path, operation) in operations {
        let id = operation["operationId"].as_str().unwrap_or_default();
        let Some((verb, table)) = Verb::of_operation(id) else { continue };
        let of_table = match verb {
            Verb::List | Verb::Insert => format!("{prefix}/{table}"),
            Verb::Get | Verb::Update | Verb::Delete => format!("{prefix}/{table}/{{key}}"),
        };
        if *path != of_table {
            continue;
        }
        if verb.is_write() && !options.allows_writes {
            continue;
        }
        let name = format!("{}_{table}", verb.name());
        if name.len() > NAME_BYTES_MAX || tools.len() >= TOOLS_MAX {
            log::warn!("there is no tool `{name}`: its name is too long, or there are too many");
            continue;
        }
        let schema = &document["components"]["schemas"];
        let definition = definition(verb, table, schema, options);
        let annotations = ToolAnnotations::new()
            .read_only(!verb.is_write())
            .destructive(matches!(verb, Verb::Update | Verb::Delete))
            .open_world(false);
        let (description, input) = definition;
        let tool = Tool::new(name.clone(), description, input).annotate(annotations);
        tools.insert(name, ApiTool { tool, verb, path: path.clone() });
    }
    tools
}

/// Returns the description of a tool, and the JSON Schema of its arguments.
fn definition(
    verb: Verb,
    table: &str,
    schemas: &Value,
    options: &McpOptions,
) -> (String, Map<String, Value>) {
    let properties = schemas[table]["properties"].as_object().cloned().unwrap_or_default();
    let fields: Vec<String> = properties.iter().map(|(name, schema)| field(name, schema)).collect();
    let fields = fields.join(", ");
    let key = json!({
        "type": ["integer", "string"],
        "description": format!("The key of the row of `{table}`"),
    });
    let shown =
        json!({ "type": "string", "description": "The fields to show, with commas between" });
    let mut writable = properties;
    writable.retain(|_, schema| schema["readOnly"] != true);
    let (description, arguments, required): (String, Value, Value) = match verb {
        Verb::List => (
            format!("Lists rows of the table `{table}`. Fields: {fields}"),
            json!({
                "filter": {
                    "type": "string",
                    "description": "A condition, such as `name = 'Ada' and (born > 1900 or born is null)`; \
                                    operators: = != < <= > >= ~ (contains) ^ (begins with) in, and, or, not",
                },
                "order": {
                    "type": "string",
                    "description": "Fields with commas between, each with `-` in front for descending",
                },
                "fields": shown,
                "limit": { "type": "integer", "minimum": 1, "maximum": options.rows_max },
                "after": {
                    "type": "string",
                    "description": "The member `next` of the previous page; other arguments are ignored",
                },
                "count": { "type": "boolean", "description": "Adds the number of all rows" },
            }),
            json!([]),
        ),
        Verb::Get => (
            format!("Reads a row of the table `{table}`. Fields: {fields}"),
            json!({ "key": key, "fields": shown }),
            json!(["key"]),
        ),
        Verb::Insert => (
            format!("Inserts a row into the table `{table}`"),
            json!({ "values": {
                "type": "object",
                "properties": writable,
                "required": schemas[format!("{table}.new")]["required"].as_array(),
                "additionalProperties": false,
            } }),
            json!(["values"]),
        ),
        Verb::Update => (
            format!("Changes fields of a row of the table `{table}`"),
            json!({ "key": key, "values": {
                "type": "object",
                "properties": writable,
                "additionalProperties": false,
            } }),
            json!(["key", "values"]),
        ),
        Verb::Delete => {
            (format!("Deletes a row of the table `{table}`"), json!({ "key": key }), json!(["key"]))
        }
    };
    let mut input = Map::new();
    input.insert("type".into(), json!("object"));
    input.insert("properties".into(), arguments);
    input.insert("required".into(), required);
    input.insert("additionalProperties".into(), json!(false));
    // A schema without required fields has no such list.
    if let Some(values) = input.get_mut("properties").and_then(|all| all.get_mut("values"))
        && let Some(values) = values.as_object_mut()
        && values.get("required").is_some_and(Value::is_null)
    {
        values.remove("required");
    }
    (description, input)
}

/// Returns the name and type of a field, for the description of a tool.
fn field(name: &str, schema: &Value) -> String {
    let kind = match (&schema["enum"], &schema["format"], &schema["type"]) {
        (Value::Array(names), ..) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            names.join("|")
        }
        (_, Value::String(format), _) if format != "int64" => format.clone(),
        (_, _, Value::String(kind)) => kind.clone(),
        (_, _, Value::Array(kinds)) => {
            kinds.first().map_or("", |kind| kind.as_str().unwrap_or_default()).to_owned()
        }
        _ => "any".to_owned(),
    };
    match schema["description"].as_str() {
        Some(description) => format!("{name} ({kind}: {description})"),
        None => format!("{name} ({kind})"),
    }
}

impl ApiTool {
    /// Returns the request of a call.
    ///
    /// # Errors
    /// An argument that is missing, unknown, of another type, or above a limit.
    pub(crate) fn request(
        &self,
        arguments: &Map<String, Value>,
        options: &McpOptions,
    ) -> Result<ToolRequest, String> {
        let known = self.tool.input_schema["properties"].as_object();
        if let Some(other) =
            arguments.keys().find(|name| known.is_none_or(|known| !known.contains_key(*name)))
        {
            let names: Vec<&String> = known.into_iter().flat_map(Map::keys).collect();
            return Err(format!("there is no argument `{other}`; there are: {names:?}"));
        }
        let (mut target, body) = match self.verb {
            Verb::List => (self.list_target(arguments, options)?, None),
            _ => match self.path.contains("{key}") {
                true => (self.path.replace("{key}", &encoded(&text_of("key", arguments)?)), None),
                false => (self.path.clone(), None),
            },
        };
        if self.verb == Verb::Get && arguments.contains_key("fields") {
            target = format!("{target}?fields={}", encoded(&text_of("fields", arguments)?));
        }
        let body = match self.verb {
            Verb::Insert | Verb::Update => match arguments.get("values") {
                Some(values @ Value::Object(_)) => Some(values.to_string()),
                _ => return Err("`values` must be an object with fields".to_owned()),
            },
            _ => body,
        };
        Ok(ToolRequest { method: self.verb.method(), target, body })
    }

    fn list_target(
        &self,
        arguments: &Map<String, Value>,
        options: &McpOptions,
    ) -> Result<String, String> {
        let rows_max = options.rows_max;
        let too_many = |rows: &dyn std::fmt::Display| {
            format!("`limit` is {rows}; it must be a number from 1 to {rows_max}")
        };
        if arguments.contains_key("after") {
            let next = text_of("after", arguments)?;
            let query = next.strip_prefix(&*self.path).and_then(|rest| rest.strip_prefix('?'));
            let is_target = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
            let Some(query) = query.filter(|query| is_target(query)) else {
                return Err("`after` must be the member `next` of a page of this table".to_owned());
            };
            let limits = query.split('&').filter_map(|part| part.strip_prefix("limit="));
            let mut count = 0;
            for limit in limits {
                count += 1;
                if limit.parse::<u64>().is_err()
                    || limit.parse::<u64>().is_ok_and(|limit| limit > rows_max)
                {
                    return Err(too_many(&limit));
                }
            }
            return match count {
                0 => Ok(format!("{next}&limit={rows_max}")),
                1 => Ok(next.into_owned()),
                _ => Err("`after` must be the member `next` of a page of this table".to_owned()),
            };
        }
        let limit = match arguments.get("limit") {
            None | Some(Value::Null) => rows_max,
            Some(limit) => match limit.as_u64() {
                Some(limit) if (1..=rows_max).contains(&limit) => limit,
                _ => return Err(too_many(limit)),
            },
        };
        let mut target = format!("{}?limit={limit}", self.path);
        for name in ["filter", "order", "fields", "count"] {
            if arguments.get(name).is_some_and(|value| !value.is_null()) {
                target = format!("{target}&{name}={}", encoded(&text_of(name, arguments)?));
            }
        }
        Ok(target)
    }
}

/// Returns an argument as the text of a path or a query.
fn text_of<'a>(name: &str, arguments: &'a Map<String, Value>) -> Result<Cow<'a, str>, String> {
    match arguments.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(Cow::Borrowed(text)),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Cow::Owned(value.to_string())),
        Some(value) => Err(format!("`{name}` is {value}; it must be a text or a number")),
        None => Err(format!("the argument `{name}` is missing")),
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
