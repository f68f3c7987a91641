//! OpenAPI documents of services: their contracts and routes.

use marmota_http::Method;
use marmota_web::OpenApi;
use serde_json::{Map, Value, json};

use super::body;
use super::json_type::{is_option, item_of, schema_of};
use crate::contract::{self, Contract, Parameter};
use crate::services::Services;
use crate::transfer::TransferForm;

impl Services {
    /// Returns the operations of [`Services::router`] for an OpenAPI document: a separate one
    /// ([`OpenApi::document`]) or together with those of tables (`rest::Api::openapi`).
    ///
    /// Parameters and results have schemas if their types are known by name: numbers, strings,
    /// booleans, `Option`, `Vec`, maps and tuples. Other types may be any JSON.
    ///
    /// ```
    /// use marmota_derive::service;
    /// use marmota_model::Result;
    /// use marmota_service::Services;
    ///
    /// #[service]
    /// trait Calculator {
    ///     async fn add(&self, a: i32, b: Option<i32>) -> Result<i32>;
    /// }
    ///
    /// let services = Services::new().service(CalculatorService::mock().hosted())?;
    /// let document = services.open_api().document();
    /// let sent = &document["paths"]["/api/calculator/add"]["post"]["requestBody"]["content"];
    /// assert_eq!(sent["application/json"]["schema"]["required"], serde_json::json!(["a"]));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn open_api(&self) -> OpenApi {
        self.open_api_at("/api")
    }

    /// Returns the operations of [`Services::router_at`].
    pub fn open_api_at(&self, prefix: &str) -> OpenApi {
        let prefix = prefix.trim_end_matches('/');
        let document = OpenApi::new().title("Services");
        let mut document = if self.0.auth.is_some() { document.secured() } else { document };
        let mut names = Vec::new();
        for hosted in &self.0.hosted {
            let Contract { name, methods } = hosted.contract;
            let root = format!("{prefix}/{name}");
            if hosted.is_method {
                let Some(method) = methods.first() else { continue };
                names.push((*name).to_owned());
                document = add(document, &root, (name, name), method);
                if !method.has_streams() {
                    document = document.operation(Method::Get, &root, by_query(name, method));
                }
                continue;
            }
            document = document.operation(
                Method::Get,
                &root,
                json!({
                    "operationId": format!("{name}.contract"),
                    "summary": "The methods, as they were written",
                    "tags": [name],
                    "security": [],
                    "responses": { "200": answer("The contract", &json!({ "type": "object" })) },
                }),
            );
            for method in *methods {
                let (path, id) =
                    (format!("{root}/{}", method.name), format!("{name}.{}", method.name));
                document = add(document, &path, (name, &id), method);
                names.push(id);
            }
        }
        document.operation(Method::Post, &format!("{prefix}/-/rpc"), json_rpc(&names))
    }
}

fn add(
    document: OpenApi,
    path: &str,
    (tag, id): (&str, &str),
    method: &'static contract::MethodContract,
) -> OpenApi {
    let mut operation = json!({
        "operationId": id,
        "summary": method.to_string(),
        "tags": [tag],
        "responses": { "200": result(method) },
    });
    let all: Vec<&Parameter> = method.parameters.iter().collect();
    if !all.is_empty() {
        let needed = all.iter().any(|one| is_needed(one));
        operation["requestBody"] = json!({
            "required": needed,
            "content": { "application/json": { "schema": object(&all) } },
        });
    }
    if let Some(form) = body::of_method(method) {
        // The stream is the body; the other parameters are in the query.
        let others = all.iter().filter(|one| one.form.is_value());
        let what = "If the body is the stream itself";
        operation["parameters"] = others.map(|one| in_query(one, Some(what))).collect();
        let item = all.iter().find(|one| !one.form.is_value()).map(|one| one.type_name);
        let stream = json!({ "schema": lines(form, item.unwrap_or_default()) });
        operation["requestBody"]["content"][body::media_type(form)] = stream;
    }
    document.operation(Method::Post, path, operation)
}

/// Returns the operation for a `#[method]` called with GET.
fn by_query(name: &str, method: &contract::MethodContract) -> Value {
    let parameters: Vec<Value> = method.parameters.iter().map(|one| in_query(one, None)).collect();
    json!({
        "operationId": format!("{name}.get"),
        "summary": method.to_string(),
        "tags": [name],
        "parameters": parameters,
        "responses": { "200": result(method) },
    })
}

fn is_needed(parameter: &Parameter) -> bool {
    !parameter.form.is_value() || !is_option(parameter.type_name)
}

/// Returns the schema of an object with the parameters as members.
fn object(parameters: &[&Parameter]) -> Value {
    let of = |one: &&Parameter| (one.name.to_owned(), in_json(one));
    let properties: Map<String, Value> = parameters.iter().map(of).collect();
    let needed = parameters.iter().filter(|one| is_needed(one));
    let required: Vec<&str> = needed.map(|one| one.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Returns the schema of a parameter in JSON, also of a stream.
fn in_json(parameter: &Parameter) -> Value {
    match parameter.form {
        TransferForm::Value => schema_of(parameter.type_name),
        TransferForm::Bytes => json!({ "type": "string", "contentEncoding": "base64url" }),
        TransferForm::Items => json!({
            "type": "array",
            "items": item_of(parameter.type_name).map_or_else(|| json!({}), schema_of),
        }),
    }
}

/// Returns a parameter in the query: text as it is, other types as JSON. With a description in
/// `sometimes` the parameter is optional.
fn in_query(parameter: &Parameter, sometimes: Option<&str>) -> Value {
    let schema = schema_of(parameter.type_name);
    let mut described = json!({ "name": parameter.name, "in": "query" });
    described["required"] = json!(sometimes.is_none() && is_needed(parameter));
    if let Some(what) = sometimes {
        described["description"] = json!(what);
    }
    let is_plain = match &schema["type"] {
        Value::String(kind) => !matches!(kind.as_str(), "array" | "object"),
        Value::Array(kinds) => !kinds.iter().any(|kind| kind == "array" || kind == "object"),
        _ => false,
    };
    match is_plain {
        true => described["schema"] = schema,
        false => described["content"] = json!({ "application/json": { "schema": schema } }),
    }
    described
}

/// Returns the media type of a body that is a stream.
fn lines(form: TransferForm, type_name: &str) -> Value {
    match (form, item_of(type_name)) {
        (TransferForm::Items, Some(item)) => {
            json!({ "type": "string", "description": format!("A line of JSON for each `{item}`") })
        }
        (TransferForm::Items, None) => {
            json!({ "type": "string", "description": "A line of JSON for each" })
        }
        // Binary data has no schema.
        _ => json!({}),
    }
}

fn answer(what: &str, schema: &Value) -> Value {
    json!({ "description": what, "content": { "application/json": { "schema": schema } } })
}

fn result(method: &contract::MethodContract) -> Value {
    match method.result_form {
        TransferForm::Value => answer(
            "The result",
            &json!({
                "type": "object",
                "required": ["result"],
                "properties": { "result": schema_of(method.result) },
            }),
        ),
        form => json!({
            "description": "A stream; an error in the middle ends it",
            "content": { body::media_type(form): { "schema": lines(form, method.result) } },
        }),
    }
}

fn json_rpc(names: &[String]) -> Value {
    let id = json!({ "type": ["integer", "string", "null"] });
    let version = json!({ "const": "2.0" });
    let method = match names {
        [] => json!({ "type": "string" }),
        names => json!({ "type": "string", "enum": names }),
    };
    let call = json!({
        "type": "object",
        "required": ["jsonrpc", "method"],
        "properties": {
            "jsonrpc": version,
            "method": method,
            "params": { "type": ["object", "array"] },
            "id": id,
        },
    });
    let answered = json!({
        "type": "object",
        "required": ["jsonrpc", "id"],
        "properties": {
            "jsonrpc": version,
            "result": {},
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {
                    "code": { "type": "integer" },
                    "message": { "type": "string" },
                    "data": { "type": "object" },
                },
            },
            "id": id,
        },
    });
    let or_several = |one: Value| json!({ "oneOf": [one, { "type": "array", "items": one }] });
    let sent = json!({ "application/json": { "schema": or_several(call) } });
    json!({
        "operationId": "rpc",
        "summary": "JSON-RPC 2.0: a call, or a batch of them",
        "tags": ["json-rpc"],
        "requestBody": { "required": true, "content": sent },
        "responses": {
            "200": answer("The answers, errors too", &or_several(answered)),
            "204": { "description": "Nothing but notifications was sent" },
        },
    })
}
