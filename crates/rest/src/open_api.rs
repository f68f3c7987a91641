//! The API as an OpenAPI 3.1 document (<https://spec.openapis.org/oas/v3.1.0>), for tools that
//! generate clients and documentation: tables, logins, and additional operations.

#[cfg(feature = "auth")]
mod accounts;
mod fields;
mod tables;

use marmota_http::Method;
use marmota_store::Store;
use serde_json::{Map, Value, json};

/// The operations of an OpenAPI document: for example those of services, in addition to the tables'
/// ([`crate::Api::openapi`]), or a separate document.
///
/// ```
/// use marmota_http::Method;
/// use marmota_rest::OpenApi;
/// use serde_json::json;
///
/// let answer = json!({ "description": "How long it has been up" });
/// let uptime = json!({ "operationId": "uptime", "responses": { "200": answer } });
/// let document = OpenApi::new().title("People").operation(Method::Get, "/uptime", uptime).document();
/// assert_eq!(document["openapi"], "3.1.0");
/// assert_eq!(document["paths"]["/uptime"]["get"]["operationId"], "uptime");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct OpenApi {
    title: String,
    version: String,
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
    /// True if callers are authenticated.
    is_secured: bool,
}

impl Default for OpenApi {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenApi {
    /// Creates a document without operations.
    pub fn new() -> Self {
        Self {
            title: "API".to_owned(),
            version: "1".to_owned(),
            paths: Map::new(),
            schemas: Map::new(),
            is_secured: false,
        }
    }

    /// Sets the title of the API.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets the version of the API. Default: `1`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Declares that callers send a bearer token, or the cookie of a login.
    pub const fn secured(mut self) -> Self {
        self.is_secured = true;
        self
    }

    /// Adds an operation: an OpenAPI Operation Object. If its `responses` have no `default`,
    /// Marmota's errors are added there ([`crate::problem`]). If the operation exists already, the
    /// first one is kept, as for routes.
    pub fn operation(mut self, method: Method, path: &str, mut operation: Value) -> Self {
        let path = self.paths.entry(path).or_insert_with(|| json!({}));
        if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
            let problem = || json!({ "$ref": "#/components/responses/problem" });
            responses.entry("default").or_insert_with(problem);
        }
        if let Some(path) = path.as_object_mut() {
            path.entry(method.name().to_ascii_lowercase()).or_insert(operation);
        }
        self
    }

    /// Adds a schema (JSON Schema 2020-12), which can be referred to as
    /// `#/components/schemas/NAME`.
    pub fn schema(mut self, name: &str, schema: Value) -> Self {
        self.schemas.insert(name.to_owned(), schema);
        self
    }

    /// Adds the operations of another document; the title, version and other settings are not
    /// changed.
    pub fn and(mut self, other: &Self) -> Self {
        for (path, item) in &other.paths {
            let here = self.paths.entry(path).or_insert_with(|| json!({}));
            if let (Some(here), Some(item)) = (here.as_object_mut(), item.as_object()) {
                for (method, operation) in item {
                    here.entry(method).or_insert_with(|| operation.clone());
                }
            }
        }
        for (name, schema) in &other.schemas {
            self.schemas.entry(name).or_insert_with(|| schema.clone());
        }
        self.is_secured |= other.is_secured;
        self
    }

    /// Returns the document.
    #[must_use]
    pub fn document(&self) -> Value {
        let mut schemas = self.schemas.clone();
        schemas.insert("problem".to_owned(), problem());
        let mut document = json!({
            "openapi": "3.1.0",
            "info": { "title": self.title, "version": self.version },
            "paths": self.paths,
            "components": {
                "schemas": schemas,
                "responses": {
                    "problem": {
                        "description": "An error",
                        "content": {
                            crate::problem::PROBLEM_JSON: { "schema": reference("problem") },
                        },
                    },
                },
            },
        });
        if self.is_secured {
            document["components"]["securitySchemes"] = json!({
                "bearer": { "type": "http", "scheme": "bearer" },
                "cookie": { "type": "apiKey", "in": "cookie", "name": "marmota_session" },
            });
            document["security"] = json!([{ "bearer": [] }, { "cookie": [] }]);
        }
        document
    }
}

/// Returns the schema of an error (RFC 9457).
fn problem() -> Value {
    let text = |what: &str| json!({ "type": "string", "description": what });
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": text("`urn:marmota:error:` and the kind of the error"),
            "title": text("What is the same for all of its kind"),
            "status": { "type": "integer" },
            "detail": text("What has happened, and the way out"),
            "index": { "type": "integer", "description": "Which of several operations or rows" },
            "line": { "type": "integer", "description": "Which of several lines" },
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["field", "value", "rule", "message"],
                    "properties": {
                        "field": text("The field or parameter at fault"),
                        "value": text("What it was given, shortened"),
                        "rule": text("What it breaks"),
                        "message": text("What it should be"),
                    },
                },
            },
        },
    })
}

/// Returns a reference to a schema of the components.
fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Returns the content of a JSON body, of a request or a response.
fn json_content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

/// Returns a JSON response.
fn answer(what: &str, schema: &Value) -> Value {
    json!({ "description": what, "content": json_content(schema) })
}

/// Returns a required JSON body.
fn body(schema: &Value) -> Value {
    json!({ "required": true, "content": json_content(schema) })
}

/// Returns a parameter in the path.
fn in_path(name: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": schema })
}

/// Returns an optional query parameter.
fn in_query(name: &str, what: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "query", "description": what, "schema": schema })
}

/// Returns the document of a store's tables, as far as the caller may use them, with additional
/// operations.
pub(crate) fn of_store(store: &Store, base: &str, beside: &OpenApi) -> OpenApi {
    // Routes of a table come after those without parameters, and so do their descriptions.
    let whole = beside.clone();
    #[cfg(feature = "auth")]
    let whole = if store.rights().is_some() { accounts::add(whole, base) } else { whole };
    tables::add(whole, store, base)
}
