//! The description of one route while it is collected: an Operation Object of OpenAPI 3.1
//! (<https://spec.openapis.org/oas/v3.1.0>, 4.8.10).

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::message::problem::ProblemDocument;
use crate::proto::status::Status;

/// The description of a route, to which the types of its handler add their parts.
#[derive(Debug)]
pub struct RouteDescription<'g> {
    /// Collects the schemas of all routes.
    generator: &'g mut SchemaGenerator,
    /// The operation, without the parameters of the path.
    operation: Map<String, Value>,
    /// The schema of all parameters of the path.
    path: Option<Value>,
    /// The parameters of the query, and headers.
    parameters: Vec<Value>,
    /// The answers by their status.
    responses: Map<String, Value>,
    /// The caller has to be authenticated.
    is_secured: bool,
}

impl<'g> RouteDescription<'g> {
    /// Begins a description.
    pub(crate) fn new(generator: &'g mut SchemaGenerator) -> Self {
        Self {
            generator,
            operation: Map::new(),
            path: None,
            parameters: Vec::new(),
            responses: Map::new(),
            is_secured: false,
        }
    }

    /// Sets a text of the operation, such as its `summary`.
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.operation.insert(name.to_owned(), value);
    }

    /// Returns the schema of a type: a reference to the schemas of the document, or the schema of a
    /// simple type.
    pub(crate) fn schema_of<T: JsonSchema>(&mut self) -> Value {
        self.generator.subschema_for::<T>().to_value()
    }

    /// Returns the schema of a type with its properties, not as a reference.
    fn resolved<T: JsonSchema>(&mut self) -> Value {
        let schema = self.schema_of::<T>();
        let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        name.and_then(|name| self.generator.definitions().get(name)).cloned().unwrap_or(schema)
    }

    /// Declares the parameters of the path as those of `T`: one value, a tuple or a struct.
    pub(crate) fn path<T: JsonSchema>(&mut self) {
        self.path = Some(self.resolved::<T>());
    }

    /// Declares the properties of `T` as parameters of the query.
    ///
    /// ```
    /// use marmota_http::describe::{DescribeRequest, RouteDescription};
    ///
    /// #[derive(schemars::JsonSchema)]
    /// struct Page {
    ///     number: u32,
    /// }
    ///
    /// impl DescribeRequest for Page {
    ///     fn describe_request(route: &mut RouteDescription<'_>) {
    ///         route.query::<Self>();
    ///     }
    /// }
    /// ```
    pub fn query<T: JsonSchema>(&mut self) {
        let schema = self.resolved::<T>();
        let Some(properties) = schema["properties"].as_object() else { return };
        let required = schema["required"].as_array();
        for (name, property) in properties {
            let mut property = property.clone();
            let mut parameter = json!({
                "name": name,
                "in": "query",
                "required": required.is_some_and(|names| names.iter().any(|one| one == name)),
            });
            if let Some(text) = property.as_object_mut().and_then(|one| one.remove("description")) {
                parameter["description"] = text;
            }
            parameter["schema"] = property;
            self.parameters.push(parameter);
        }
    }

    /// Declares a header that the request must have.
    ///
    /// ```
    /// use marmota_http::describe::{DescribeRequest, RouteDescription};
    /// struct ApiKey(String);
    /// impl DescribeRequest for ApiKey {
    ///     fn describe_request(route: &mut RouteDescription<'_>) {
    ///         route.header("X-Key", "The key of the program");
    ///     }
    /// }
    /// ```
    pub fn header(&mut self, name: &str, description: &str) {
        self.parameters.push(json!({
            "name": name,
            "in": "header",
            "required": true,
            "description": description,
            "schema": { "type": "string" },
        }));
    }

    /// Declares the body as a `T` in this media type.
    ///
    /// ```
    /// use marmota_http::describe::{DescribeRequest, RouteDescription};
    /// struct Toml<T>(T);
    /// impl<T: schemars::JsonSchema> DescribeRequest for Toml<T> {
    ///     fn describe_request(route: &mut RouteDescription<'_>) {
    ///         route.body::<T>("application/toml");
    ///     }
    /// }
    /// ```
    pub fn body<T: JsonSchema>(&mut self, media_type: &str) {
        let schema = self.schema_of::<T>();
        let content = json!({ media_type: { "schema": schema } });
        self.set("requestBody", json!({ "required": true, "content": content }));
    }

    /// Adds an answer with a `T` in this media type. Of several answers with one status the first
    /// is kept.
    ///
    /// ```
    /// use marmota_http::Status;
    /// use marmota_http::describe::{DescribeResponse, RouteDescription};
    /// struct Created<T>(T);
    /// impl<T: schemars::JsonSchema> DescribeResponse for Created<T> {
    ///     fn describe_response(route: &mut RouteDescription<'_>) {
    ///         route.response::<T>(Status::CREATED, "The new row", "application/json");
    ///     }
    /// }
    /// ```
    pub fn response<T: JsonSchema>(&mut self, status: Status, text: &str, media_type: &str) {
        let schema = self.schema_of::<T>();
        let content = json!({ media_type: { "schema": schema } });
        self.put(status, json!({ "description": text, "content": content }));
    }

    /// Adds an answer with a text in this media type.
    ///
    /// ```
    /// use marmota_http::Status;
    /// use marmota_http::describe::{DescribeResponse, RouteDescription};
    /// struct Csv(String);
    /// impl DescribeResponse for Csv {
    ///     fn describe_response(route: &mut RouteDescription<'_>) {
    ///         route.text_response(Status::OK, "The rows", "text/csv");
    ///     }
    /// }
    /// ```
    pub fn text_response(&mut self, status: Status, text: &str, media_type: &str) {
        self.response::<String>(status, text, media_type);
    }

    /// Adds an answer without a body.
    ///
    /// ```
    /// use marmota_http::Status;
    /// use marmota_http::describe::{DescribeResponse, RouteDescription};
    /// struct SeeOther(&'static str);
    /// impl DescribeResponse for SeeOther {
    ///     fn describe_response(route: &mut RouteDescription<'_>) {
    ///         route.empty_response(Status::SEE_OTHER, "The address of the page");
    ///     }
    /// }
    /// ```
    pub fn empty_response(&mut self, status: Status, text: &str) {
        self.put(status, json!({ "description": text }));
    }

    /// Adds an error, as a problem document.
    ///
    /// ```
    /// use marmota_http::Status;
    /// use marmota_http::describe::{DescribeRequest, RouteDescription};
    /// struct InOffice;
    /// impl DescribeRequest for InOffice {
    ///     fn describe_request(route: &mut RouteDescription<'_>) {
    ///         route.error(Status::FORBIDDEN, "Only from addresses of the office");
    ///     }
    /// }
    /// ```
    pub fn error(&mut self, status: Status, text: &str) {
        let schema = json!({ "$ref": "#/components/schemas/problem" });
        let content = json!({ ProblemDocument::MEDIA_TYPE: { "schema": schema } });
        self.put(status, json!({ "description": text, "content": content }));
    }

    /// Declares that the caller has to be authenticated.
    ///
    /// ```
    /// use marmota_http::Status;
    /// use marmota_http::describe::{DescribeRequest, RouteDescription};
    /// struct User(String);
    /// impl DescribeRequest for User {
    ///     fn describe_request(route: &mut RouteDescription<'_>) {
    ///         route.secured();
    ///         route.error(Status::UNAUTHORIZED, "The caller is not authenticated");
    ///     }
    /// }
    /// ```
    pub const fn secured(&mut self) {
        self.is_secured = true;
    }

    /// Adds an answer, unless there is one with its status.
    fn put(&mut self, status: Status, response: Value) {
        self.responses.entry(status.code().to_string()).or_insert(response);
    }

    /// Returns the path of a pattern in OpenAPI, the operation, and whether callers have to be
    /// authenticated.
    pub(crate) fn into_operation(self, pattern: &str) -> (String, Value, bool) {
        let (mut path, mut parameters) = (String::new(), Vec::new());
        for (at, segment) in pattern.split('/').enumerate() {
            if at > 0 {
                path.push('/');
            }
            let inside = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            let Some(inside) = inside else {
                path.push_str(segment);
                continue;
            };
            let (name, kind) = inside.split_once(':').unwrap_or((inside, "text"));
            path.push_str(&format!("{{{name}}}"));
            let schema = self.of_parameter(parameters.len(), name, kind);
            parameters
                .push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
        }
        parameters.extend(self.parameters);
        let mut operation = self.operation;
        if !parameters.is_empty() {
            operation.insert("parameters".to_owned(), Value::Array(parameters));
        }
        operation.insert("responses".to_owned(), Value::Object(self.responses));
        if !self.is_secured {
            operation.insert("security".to_owned(), json!([]));
        }
        (path, Value::Object(operation), self.is_secured)
    }

    /// Returns the schema of a parameter of the path: that of the handler's type, else that of its
    /// kind in the pattern.
    fn of_parameter(&self, place: usize, name: &str, kind: &str) -> Value {
        let of_type = self.path.as_ref().and_then(|path| match () {
            () if path["properties"].is_object() => path["properties"].get(name),
            () if path["prefixItems"].is_array() => path["prefixItems"].get(place),
            () => (place == 0).then_some(path),
        });
        of_type.cloned().unwrap_or_else(|| match kind {
            "int" => json!({ "type": "integer", "format": "int64" }),
            "uuid" => json!({ "type": "string", "format": "uuid" }),
            _ => json!({ "type": "string" }),
        })
    }
}
