//! The routes of tables ([`crate::Api`]) in an OpenAPI document.

use marmota_http::Method;
use marmota_model::{Kind, Role, Table};
use marmota_store::Store;
use marmota_store::rights::Right;
use marmota_web::OpenApi;
use serde_json::{Value, json};

use super::{answer, body, fields, in_path, in_query, reference};

/// Adds the routes that the caller may use.
pub(super) fn add(mut document: OpenApi, store: &Store, base: &str) -> OpenApi {
    document = document.operation(
        Method::Get,
        base_or_root(base),
        json!({
            "operationId": "tables",
            "summary": "The tables and their fields",
            "responses": { "200": answer("The tables", &json!({ "type": "object" })) },
        }),
    );
    let mut writes = false;
    for table in store.exposed_tables() {
        let may = |right| store.rights().is_none_or(|rights| rights.allow(table, right));
        let ways = Ways { base, table, document };
        let shown = [Right::Read, Right::Insert, Right::Update, Right::Delete]
            .map(|right| (right, may(right)));
        if shown.iter().all(|(_, may)| !may) {
            document = ways.document;
            continue;
        }
        document = ways.add(&may);
        writes |= shown[1..].iter().any(|(_, may)| *may);
    }
    if writes {
        let operations = json!({ "type": "array", "items": { "type": "object" } });
        let sent = json!({
            "type": "object",
            "required": ["operations"],
            "properties": {
                "mode": { "type": "string", "enum": ["all", "each"], "default": "all" },
                "operations": operations,
            },
        });
        document = document.operation(Method::Post, &format!("{base}/batch"), json!({
            "operationId": "batch",
            "summary": "Several writes over any tables, in one transaction unless `mode` is `each`",
            "requestBody": body(&sent),
            "responses": { "200": answer("The outcome of each", &json!({ "type": "object" })) },
        }));
    }
    document
}

const fn base_or_root(base: &str) -> &str {
    if base.is_empty() { "/" } else { base }
}

/// A table whose routes are being added to the document.
struct Ways<'t> {
    base: &'t str,
    table: &'t Table,
    document: OpenApi,
}

impl Ways<'_> {
    fn add(mut self, may: &impl Fn(Right) -> bool) -> OpenApi {
        let name = self.table.name().to_owned();
        self.document = self.document.schema(&name, fields::row(self.table)).schema(
            &format!("{name}.new"),
            json!({ "allOf": [reference(&name)], "required": fields::required(self.table) }),
        );
        if may(Right::Read) {
            self.list();
            self.on(
                Method::Get,
                "/{key}",
                "get",
                "A row",
                &json!({
                    "parameters": [of_fields()],
                    "responses": { "200": answer("The row", &self.row()) },
                }),
            );
        }
        if may(Right::Insert) {
            self.insert();
        }
        if may(Right::Update) {
            let stored = answer("The row as it is stored now", &self.row());
            let stored = json!({ "200": stored, "201": stored });
            self.on(
                Method::Put,
                "/{key}",
                "replace",
                "Writes the whole row",
                &json!({
                    "requestBody": body(&self.new_row()), "responses": stored,
                }),
            );
            self.on(
                Method::Patch,
                "/{key}",
                "change",
                "Writes the fields that are named",
                &json!({
                    "requestBody": body(&self.row()),
                    "responses": { "200": stored["200"] },
                }),
            );
            self.increments();
        }
        if may(Right::Delete) {
            self.deletes();
        }
        self.blobs(may);
        if self.table.schema().audit && may(Right::History) {
            let page = page(&json!({ "type": "object" }));
            self.on(
                Method::Get,
                "/{key}/history",
                "history",
                "The outcome for a row",
                &json!({
                    "responses": { "200": answer("A page of the history", &page) },
                }),
            );
        }
        self.document
    }

    fn row(&self) -> Value {
        reference(self.table.name())
    }

    fn new_row(&self) -> Value {
        reference(&format!("{}.new", self.table.name()))
    }

    /// Adds an operation of the table or, if the path has a key, of a row.
    fn on(&mut self, method: Method, path: &str, verb: &str, what: &str, operation: &Value) {
        let name = self.table.name();
        let mut operation = operation.clone();
        operation["operationId"] = json!(format!("{name}.{verb}"));
        operation["summary"] = json!(what);
        operation["tags"] = json!([name]);
        if path.starts_with("/{key}") {
            let key = in_path("key", &fields::key(self.table));
            match operation.get_mut("parameters").and_then(Value::as_array_mut) {
                Some(parameters) => parameters.insert(0, key),
                None => operation["parameters"] = json!([key]),
            }
        }
        let path = format!("{}/{name}{path}", self.base);
        let document = std::mem::take(&mut self.document);
        self.document = document.operation(method, &path, operation);
    }

    fn list(&mut self) {
        let text = json!({ "type": "string" });
        let mut parameters = vec![
            in_query("filter", "A condition, such as `name ~ 'noether' and visits > 7`", &text),
            in_query("order", "Fields, each with `-` in front for descending", &text),
            in_query("limit", "Rows in the page", &json!({ "type": "integer", "minimum": 1 })),
            in_query("after", "The end of the previous page, from its `next`", &text),
            of_fields(),
            in_query("count", "Adds the total number of rows", &json!({ "type": "boolean" })),
        ];
        let taken: Vec<Value> = parameters.iter().map(|one| one["name"].clone()).collect();
        for (at, field) in self.table.fields().iter().enumerate() {
            if taken.contains(&json!(field.name)) || matches!(field.kind, Kind::Blob | Kind::Json) {
                continue;
            }
            let mut schema = fields::of_field(self.table, at, field);
            if let Some(schema) = schema.as_object_mut() {
                schema.retain(|name, _| matches!(&**name, "type" | "format" | "enum"));
            }
            parameters.push(in_query(&field.name, "Equal to this", &schema));
        }
        let mut answered = answer("A page, or all rows as lines", &page(&self.row()));
        answered["content"]["application/x-ndjson"] = json!({ "schema": self.row() });
        self.on(
            Method::Get,
            "",
            "list",
            "A page of rows",
            &json!({
                "parameters": parameters, "responses": { "200": answered },
            }),
        );
    }

    fn insert(&mut self) {
        let several = json!({ "type": "array", "items": self.new_row() });
        let mut sent = body(&json!({ "oneOf": [self.new_row(), several] }));
        sent["content"]["application/x-ndjson"] = json!({ "schema": self.new_row() });
        let keys = json!({
            "type": "object",
            "required": ["keys"],
            "properties": { "keys": { "type": "array", "items": fields::key(self.table) } },
        });
        // `anyOf`, since a row without any of its fields also matches the other schema.
        let stored = json!({ "anyOf": [keys, self.row()] });
        let ways = json!({ "type": "string", "enum": ["refuse", "ignore", "replace", "update"] });
        let way = in_query("on_conflict", "The action if the row exists", &ways);
        self.on(
            Method::Post,
            "",
            "insert",
            "Inserts a row, or an array of them",
            &json!({
                "parameters": [way],
                "requestBody": sent,
                "responses": {
                    "200": answer("The row that existed, or the outcomes of the lines", &json!({})),
                    "201": answer("The row as it is stored, or the keys of several", &stored),
                },
            }),
        );
    }

    fn increments(&mut self) {
        for field in self.table.fields() {
            let adds = matches!(field.kind, Kind::Int { .. } | Kind::Currency);
            if !adds || field.role != Role::Plain {
                continue;
            }
            let by = json!({
                "type": "object", "required": ["by"], "properties": { "by": { "type": "number" } },
            });
            let path = format!("/{{key}}/{}/increment", field.name);
            let verb = format!("{}.increment", field.name);
            self.on(
                Method::Post,
                &path,
                &verb,
                "Adds to a number where it is stored",
                &json!({
                    "requestBody": body(&by),
                    "responses": { "200": answer("The sum", &self.row()) },
                }),
            );
        }
    }

    fn deletes(&mut self) {
        let text = json!({ "type": "string" });
        let mut filter = in_query("filter", "Which rows", &text);
        filter["required"] = json!(true);
        let deleted =
            json!({ "type": "object", "properties": { "deleted": { "type": "integer" } } });
        self.on(
            Method::Delete,
            "",
            "delete_where",
            "Deletes all rows that a filter selects",
            &json!({
                "parameters": [filter],
                "responses": { "200": answer("The number of deleted rows", &deleted) },
            }),
        );
        self.on(
            Method::Delete,
            "/{key}",
            "delete",
            "Deletes a row",
            &json!({
                "responses": { "204": { "description": "Done" } },
            }),
        );
    }

    fn blobs(&mut self, may: &impl Fn(Right) -> bool) {
        for field in self.table.fields().iter().filter(|field| field.kind == Kind::Blob) {
            let path = format!("/{{key}}/{}", field.name);
            let bytes = json!({ "application/octet-stream": {} });
            if may(Right::Read) {
                let verb = format!("{}.get", field.name);
                self.on(
                    Method::Get,
                    &path,
                    &verb,
                    "The bytes of a blob",
                    &json!({
                        "responses": { "200": { "description": "The bytes", "content": bytes } },
                    }),
                );
            }
            if may(Right::Update) {
                let verb = format!("{}.put", field.name);
                self.on(
                    Method::Put,
                    &path,
                    &verb,
                    "Writes the bytes of a blob",
                    &json!({
                        "requestBody": { "required": true, "content": { "*/*": {} } },
                        "responses": { "204": { "description": "Done" } },
                    }),
                );
            }
        }
    }
}

fn of_fields() -> Value {
    in_query("fields", "The fields to show, with commas between", &json!({ "type": "string" }))
}

/// Returns the schema of a page of rows.
fn page(of: &Value) -> Value {
    json!({
        "type": "object",
        "required": ["rows", "next"],
        "properties": {
            "rows": { "type": "array", "items": of },
            "next": { "type": ["string", "null"], "description": "The URL of the next page" },
            "count": { "type": "integer" },
        },
    })
}
