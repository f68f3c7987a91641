//! OpenAPI 3.1 documents (<https://spec.openapis.org/oas/v3.1.0>), for tools that generate clients
//! and documentation.
//!
//! [`OpenApi`] collects the operations of a program: those of tables (`rest::Api`), of services
//! (`Services::open_api`) and of routes of your own. The document adds what all of them share: the
//! problem document as the answer to errors, and the ways to authenticate.

use marmota_http::{Method, ProblemDocument};
use serde_json::{Map, Value, json};

/// The operations of an OpenAPI document: for example those of services, in addition to the tables'
/// (`rest::Api::openapi`), or a separate document.
///
/// ```
/// use marmota_http::Method;
/// use marmota_web::OpenApi;
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
    /// As set.
    title: Option<String>,
    version: Option<String>,
    /// Path Items by their path.
    paths: Map<String, Value>,
    /// Schemas of the components by their name.
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
    /// Creates a document without operations, with the title `API`.
    ///
    /// ```
    /// let document = marmota_web::OpenApi::new().document();
    /// assert_eq!(document["info"]["title"], "API");
    /// assert_eq!(document["paths"], serde_json::json!({}));
    /// ```
    pub fn new() -> Self {
        Self {
            title: None,
            version: None,
            paths: Map::new(),
            schemas: Map::new(),
            is_secured: false,
        }
    }

    /// Sets the title of the API. Default: `API`.
    ///
    /// ```
    /// let document = marmota_web::OpenApi::new().title("People").document();
    /// assert_eq!(document["info"]["title"], "People");
    /// ```
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the version of the API. Default: `1`.
    ///
    /// ```
    /// let document = marmota_web::OpenApi::new().version("2.1").document();
    /// assert_eq!(document["info"]["version"], "2.1");
    /// ```
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Declares that callers send a bearer token, or the cookie of a login. An operation that needs
    /// neither has `"security": []`.
    ///
    /// ```
    /// let document = marmota_web::OpenApi::new().secured().document();
    /// assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    /// ```
    pub const fn secured(mut self) -> Self {
        self.is_secured = true;
        self
    }

    /// Adds an operation: an OpenAPI Operation Object. If its `responses` have no `default`,
    /// Marmota's errors are added there ([`problem`](crate::problem)). If the operation exists
    /// already, the first one is kept, as for routes.
    ///
    /// ```
    /// use marmota_http::Method;
    /// use marmota_web::OpenApi;
    /// use serde_json::json;
    ///
    /// let ping = json!({ "responses": { "204": { "description": "The server answers" } } });
    /// let document = OpenApi::new().operation(Method::Get, "/ping", ping).document();
    /// let responses = &document["paths"]["/ping"]["get"]["responses"];
    /// assert_eq!(responses["default"]["$ref"], "#/components/responses/problem");
    /// ```
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
    /// `#/components/schemas/NAME`. A schema of the same name is replaced.
    ///
    /// ```
    /// use marmota_web::OpenApi;
    /// use serde_json::json;
    ///
    /// let document = OpenApi::new().schema("age", json!({ "type": "integer" })).document();
    /// assert_eq!(document["components"]["schemas"]["age"]["type"], "integer");
    /// ```
    pub fn schema(mut self, name: &str, schema: Value) -> Self {
        self.schemas.insert(name.to_owned(), schema);
        self
    }

    /// Adds the operations and schemas of another document. Those of this document are kept where
    /// both have one, and so are the title and the version if they are set; the result is secured if
    /// one of them is.
    ///
    /// ```
    /// use marmota_http::Method;
    /// use marmota_web::OpenApi;
    /// use serde_json::json;
    ///
    /// let ping = OpenApi::new().operation(Method::Get, "/ping", json!({ "responses": {} }));
    /// let document = OpenApi::new().title("All").and(&ping).document();
    /// assert_eq!(document["info"]["title"], "All");
    /// assert!(document["paths"]["/ping"]["get"].is_object());
    /// ```
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
        self.title = self.title.or_else(|| other.title.clone());
        self.version = self.version.or_else(|| other.version.clone());
        self.is_secured |= other.is_secured;
        self
    }

    /// Adds the described routes of a router
    /// ([`described`](marmota_http::described)), and the schemas of their types. Routes
    /// without a description are left out. Paths are those of the router: nest it first if it is
    /// served under a prefix.
    ///
    /// ```
    /// use marmota_http::{Router, described};
    /// use marmota_http::extract::{Json, Path};
    /// use marmota_web::OpenApi;
    ///
    /// #[derive(serde::Serialize, schemars::JsonSchema)]
    /// struct Task {
    ///     id: i64,
    ///     title: String,
    /// }
    ///
    /// async fn show(Path(id): Path<i64>) -> Json<Task> {
    ///     Json(Task { id, title: "Buy milk".to_owned() })
    /// }
    ///
    /// let router = Router::with_state(()).get("/tasks/{id:int}", described(show)).router();
    /// let document = OpenApi::new().routes(&router).document();
    /// assert_eq!(document["paths"]["/tasks/{id}"]["get"]["operationId"], "show");
    /// assert!(document["components"]["schemas"]["Task"].is_object());
    /// ```
    #[cfg(feature = "schemars")]
    pub fn routes(mut self, router: &marmota_http::Router) -> Self {
        let described = router.descriptions();
        for (method, path, operation) in described.operations {
            self = self.operation(method, &path, operation);
        }
        for (name, schema) in described.schemas {
            self = self.schema(&name, schema);
        }
        self.is_secured |= described.is_secured;
        self
    }

    /// Returns the document, with the schema and the response of problem documents.
    ///
    /// ```
    /// let document = marmota_web::OpenApi::new().document();
    /// assert_eq!(document["openapi"], "3.1.0");
    /// assert!(document["components"]["schemas"]["problem"].is_object());
    /// ```
    #[must_use]
    pub fn document(&self) -> Value {
        let mut schemas = self.schemas.clone();
        schemas.insert("problem".to_owned(), problem());
        let mut document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": self.title.as_deref().unwrap_or("API"),
                "version": self.version.as_deref().unwrap_or("1"),
            },
            "paths": self.paths,
            "components": {
                "schemas": schemas,
                "responses": {
                    "problem": {
                        "description": "An error",
                        "content": {
                            ProblemDocument::MEDIA_TYPE: { "schema": { "$ref": "#/components/schemas/problem" } },
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

/// Returns the schema of an error (RFC 9457), with the members of
/// [`ErrorDocument`](crate::ErrorDocument).
fn problem() -> Value {
    let text = |what: &str| json!({ "type": "string", "description": what });
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": text("`urn:marmota:error:` and the kind of the error"),
            "title": text("The title of all errors of this kind"),
            "status": { "type": "integer" },
            "detail": text("The description of the error, and how to fix it"),
            "index": { "type": "integer", "description": "The number of the operation or row" },
            "line": { "type": "integer", "description": "The number of the line" },
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["field", "value", "rule", "message"],
                    "properties": {
                        "field": text("The invalid field or parameter"),
                        "value": text("The invalid value, shortened"),
                        "rule": text("The name of the rule"),
                        "message": text("The description of the violation"),
                    },
                },
            },
        },
    })
}
