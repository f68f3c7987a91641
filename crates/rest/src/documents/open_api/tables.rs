//! The routes of tables ([`crate::Api`]) in an OpenAPI document.
//!
//! ```text
//! {
//!   "openapi": "3.1.0",
//!   "paths": {
//!     "/api": {"get": {"operationId":"tables",…}},
//!     "/api/batch": {"post": {"operationId":"batch",…}},
//!     "/api/person": {
//!       "get": {"operationId":"person.list",…},
//!       "post": {"operationId":"person.insert",…},
//!       "delete": {"operationId":"person.delete_where",…}
//!     },
//!     "/api/person/{key}": {
//!       "get": {"operationId":"person.get",…},
//!       "put": {"operationId":"person.replace",…},
//!       "patch": {"operationId":"person.change",…},
//!       "delete": {"operationId":"person.delete",…}
//!     },
//!     "/api/person/{key}/visits/increment": {"post": {"operationId":"person.visits.increment",…}},
//!     "/api/person/{key}/photo": {
//!       "get": {"operationId":"person.photo.get",…},
//!       "put": {"operationId":"person.photo.put",…}
//!     },
//!     "/api/person/{key}/history": {"get": {"operationId":"person.history",…}}
//!   },
//!   "components": {"schemas": {"person":…, "person.new":…, "person.whole":…, "person.change":…}}
//! }
//! ```
//!
//! Each operation has the name of its table as its tag, by which tools group operations, and an
//! `operationId`, from which they derive the names of functions. Both are part of the API: another
//! `operationId` renames a function of generated clients.
//!
//! A table has four schemas. `person` is the row as it is read; the others are bodies of writes:
//! `person.new` of POST, `person.whole` of PUT, and `person.change` of PATCH.
//!
//! An operation is added if the caller has its right. A caller without any right on a table does
//! not see its name or its fields.

use marmota_http::Method;
use marmota_model::{Field, Kind, OnDelete, Table};
use marmota_store::Store;
use marmota_store::rights::Right;
use marmota_web::OpenApi;
use serde_json::{Value, json};

use super::fields::Body;
use super::{answer, batches, body, fields, in_path, in_query, reference};
use crate::request::answer::JSON_COLUMNS;

/// Adds the routes that the caller may use: the description of the tables, the routes of each
/// table, and batches if the caller may write to any table. `base` is the prefix of the API,
/// without a slash at the end.
///
/// A store without rights permits everything. `rows_max` is the maximum of `limit`.
pub(super) fn add(mut document: OpenApi, store: &Store, base: &str, rows_max: u64) -> OpenApi {
    let has_events = store.position().is_ok();
    let mut responses = json!({ "200": answer("The tables", &json!({ "type": "object" })) });
    if has_events {
        let socket = "A WebSocket with live queries, for a request with `Upgrade: websocket`";
        responses["101"] = json!({ "description": socket });
    }
    document = document.operation(
        Method::Get,
        base_or_root(base),
        json!({
            "operationId": "tables",
            "summary": "The tables and their fields",
            "responses": responses,
        }),
    );
    let mut written = Vec::new();
    for table in store.exposed_tables() {
        let may = |right| store.rights().is_none_or(|rights| rights.allow(table, right));
        let conflicts = conflicts(store, table);
        let ways = Ways { base, table, document, has_events, rows_max, conflicts };
        let shown = [Right::Read, Right::Insert, Right::Update, Right::Delete]
            .map(|right| (right, may(right)));
        if shown.iter().all(|(_, may)| !may) {
            document = ways.document;
            continue;
        }
        document = ways.add(&may);
        if shown[1..].iter().any(|(_, may)| *may) {
            written.push(table);
        }
    }
    if written.is_empty() { document } else { batches::add(document, store, &written, base) }
}

/// Returns the actions of an insert whose row exists. A row is not replaced where the delete in it would
/// change other rows.
pub(super) fn conflicts(store: &Store, table: &Table) -> &'static [&'static str] {
    let acts = |field: &Field| {
        matches!(&field.kind, Kind::Reference { table: to, .. } if **to == *table.name())
            && field.on_delete != OnDelete::Restrict
    };
    let mut others = store.registry().tables().iter();
    match others.any(|other| other.fields().iter().any(acts)) {
        true => &["refuse", "ignore", "update"],
        false => &["refuse", "ignore", "replace", "update"],
    }
}

/// Returns the path of the description of the tables: the prefix, or `/` for an API at the root.
const fn base_or_root(base: &str) -> &str {
    if base.is_empty() { "/" } else { base }
}

/// Adds the description of related rows to a request body.
fn described(mut body: Value) -> Value {
    body["description"] = json!(
        "A row may contain related rows, which the schema leaves out: an object in a reference field \
         inserts the row, or updates it if it has a key; a table that refers to this one is a member \
         with an array of rows, or an object with `create`, `update`, `delete` and `set`. The answer \
         then has the keys of all rows."
    );
    body
}

/// A table whose routes are being added to the document.
///
/// Each method adds the operations of one kind; [`Ways::add`] calls those that the caller's rights
/// permit.
struct Ways<'t> {
    /// The prefix of the API.
    base: &'t str,
    table: &'t Table,
    /// The document so far. [`OpenApi`] adds by value, so it is taken and set again for each
    /// operation.
    document: OpenApi,
    /// True if lists can be kept up to date by events: the store records changes.
    has_events: bool,
    /// The maximum of `limit`.
    rows_max: u64,
    /// The actions of an insert whose row exists.
    conflicts: &'static [&'static str],
}

impl Ways<'_> {
    /// Adds the schemas of the table and all operations for which `may` returns true, and returns
    /// the document.
    ///
    /// | right | operations |
    /// |---|---|
    /// | read | `list`, `get`, and the bytes of blobs |
    /// | insert | `insert` |
    /// | update | `replace`, `change`, `increment`, and the bytes of blobs |
    /// | delete | `delete`, `delete_where` |
    /// | history | `history`, for audited models |
    fn add(mut self, may: &impl Fn(Right) -> bool) -> OpenApi {
        let name = self.table.name().to_owned();
        self.document = self
            .document
            .schema(&name, fields::row(self.table))
            .schema(&format!("{name}.new"), fields::written(self.table, Body::New))
            .schema(&format!("{name}.whole"), fields::written(self.table, Body::Whole))
            .schema(&format!("{name}.change"), fields::written(self.table, Body::Change));
        if may(Right::Read) {
            self.list();
            self.on(
                Method::Get,
                "/{key}",
                "get",
                "A row",
                &json!({
                    "parameters": [of_fields(), of_expand()],
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
                    "requestBody": body(&self.body("whole")), "responses": stored,
                }),
            );
            self.on(
                Method::Patch,
                "/{key}",
                "change",
                "Writes the fields that are named, and related rows",
                &json!({
                    "requestBody": described(body(&self.body("change"))),
                    "responses": { "200": stored["200"] },
                }),
            );
            self.increments();
        }
        if may(Right::Delete) {
            self.deletes();
        }
        self.blobs(may);
        #[cfg(feature = "files")]
        self.files(may);
        if self.table.schema().audit && may(Right::History) {
            let page = page(&json!({ "type": "object" }));
            self.on(
                Method::Get,
                "/{key}/history",
                "history",
                "The history of a row",
                &json!({
                    "responses": { "200": answer("A page of the history", &page) },
                }),
            );
        }
        self.document
    }

    /// Returns a reference to the schema of a row.
    fn row(&self) -> Value {
        reference(self.table.name())
    }

    /// Returns a reference to the schema of a row in a request: `new`, `whole` or `change`.
    fn body(&self, request: &str) -> Value {
        reference(&format!("{}.{request}", self.table.name()))
    }

    /// Adds an operation of the table or, if the path has a key, of a row.
    ///
    /// `path` follows the table's name: empty, `/{key}` or longer. `verb` is the last part of the
    /// `operationId`, and `what` the summary. The parameter of the key is inserted before those of
    /// `operation`, with the type of the table's key.
    ///
    /// ```text
    /// "/api/person/{key}": {
    ///   "patch": {
    ///     "operationId": "person.change",
    ///     "summary": "Writes the fields that are named",
    ///     "tags": ["person"],
    ///     "parameters": [{"name":"key","in":"path","required":true,"schema":{"type":"integer",…}}],
    ///     "requestBody": {"required":true,"content":{"application/json":{"schema":{"$ref":…}}}},
    ///     "responses": {"200":…, "default":…}
    ///   }
    /// }
    /// ```
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

    /// Adds the list of rows, with its parameters ([`crate::request::params`]) and the forms of its
    /// response: a JSON page, lines of rows, and events of a page if the store records changes.
    ///
    /// A field is a parameter, too, that selects rows with this value. It has the type of the field
    /// without limits and rules: a value that no row can have is a valid condition. Fields with the
    /// name of another parameter are left out, since that parameter has precedence. So are blobs
    /// and JSON, which cannot be compared.
    ///
    /// ```text
    /// "parameters": [
    ///   {"name":"filter","in":"query","description":"A condition, such as …","schema":{"type":"string"}},
    ///   …,
    ///   {"name":"visits","in":"query","description":"Equal to this","schema":{"type":"integer",…}}
    /// ]
    /// ```
    fn list(&mut self) {
        let text = json!({ "type": "string" });
        let mut parameters = vec![
            in_query(
                "filter",
                "A condition, such as `name ~ 'noether' and visits > 7`, or `near(lat, lon, 48.1, \
                 11.5, 5000)`, the rows at most 5,000 m away",
                &text,
            ),
            in_query(
                "order",
                "Fields, each with `-` in front for descending; or `rank`, the relevance for the \
                 searches of the filter; or `near(field,[0.5,-1],cosine)`, the distance of a vector; or \
                 `near(lat,lon,48.1,11.5)`, that of a point in degrees",
                &text,
            ),
            in_query(
                "limit",
                "Rows in the page; 0 only with `count=true`",
                &json!({ "type": "integer", "minimum": 0, "maximum": self.rows_max }),
            ),
            in_query("after", "The end of the previous page, from its `next`", &text),
            of_fields(),
            in_query("count", "Adds the total number of rows", &json!({ "type": "boolean" })),
            of_expand(),
            in_query(
                "snippet",
                "Adds extracts of these fields with the words that were found, as HTML",
                &text,
            ),
            in_query(
                "group",
                "Groups rows by these fields, with commas between. A path such as \
                 `customer.country` leads through references to a field of a related row",
                &text,
            ),
            in_query(
                "select",
                "The values of each group, such as `count,sum(visits),last:max(visits)`",
                &text,
            ),
            in_query("having", "A condition on groups, such as `count > 3`", &text),
        ];
        let taken: Vec<Value> = parameters.iter().map(|one| one["name"].clone()).collect();
        for (at, field) in self.table.fields().iter().enumerate() {
            if taken.contains(&json!(field.name))
                || !self.table.is_readable(at)
                || matches!(
                    field.kind,
                    Kind::Blob | Kind::Json | Kind::File { .. } | Kind::Vector { .. }
                )
            {
                continue;
            }
            let schema = fields::compared(self.table, at, field);
            parameters.push(in_query(&field.name, "Equal to this", &schema));
        }
        parameters.push(json!({
            "name": "Prefer",
            "in": "header",
            "description": "`count=exact` or `count=estimated` adds the number of rows; `replica` \
                            reads from a replica",
            "schema": text,
        }));
        if self.has_events {
            parameters.push(json!({
                "name": "Marmota-After",
                "in": "header",
                "description": "A `Marmota-Position`: the rows are read once it is reached here",
                "schema": { "type": "string", "pattern": "^[0-9a-f]{32}$" },
            }));
        }
        let mut answered = answer("A page, or all rows as lines", &page(&self.row()));
        answered["content"]["application/x-ndjson"] = json!({ "schema": self.row() });
        answered["content"][JSON_COLUMNS] = json!({ "schema": page_in_columns() });
        if self.has_events {
            let events = "Server-sent events: `snapshot` with the page, then a `patch` (RFC 6902) \
                          for each commit that changes it";
            answered["content"]["text/event-stream"] =
                json!({ "schema": { "type": "string", "description": events } });
        }
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

    /// Adds the insert of one row, an array of rows, or lines of rows.
    ///
    /// The response depends on the request: 201 with the row or the keys, and 200 with a row that
    /// existed or the effects. A generator sees alternatives.
    ///
    /// ```text
    /// "requestBody": {"required":true, "content": {
    ///   "application/json": {"schema":{"oneOf":[{"$ref":"#/components/schemas/person.new"},…]}},
    ///   "application/x-ndjson": {"schema":{"$ref":"#/components/schemas/person.new"}}
    /// }}
    /// ```
    fn insert(&mut self) {
        let new_row = self.body("new");
        let several = json!({ "type": "array", "items": new_row });
        let mut sent = body(&json!({ "oneOf": [new_row, several] }));
        sent["content"]["application/x-ndjson"] = json!({ "schema": new_row });
        let sent = described(sent);
        let keys = json!({
            "type": "object",
            "required": ["keys"],
            "properties": { "keys": { "type": "array", "items": fields::key(self.table) } },
        });
        // `anyOf`, since a row without any of its fields also matches the other schema.
        let stored = json!({ "anyOf": [keys, self.row()] });
        let ways = json!({ "type": "string", "enum": self.conflicts });
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

    /// Adds an increment for each number that a caller may add to. Each field has a path of its own,
    /// because a template would also match other fields.
    ///
    /// ```text
    /// "/api/person/{key}/visits/increment": {"post": {"operationId":"person.visits.increment",…}}
    /// ```
    fn increments(&mut self) {
        for (at, field) in self.table.fields().iter().enumerate() {
            if !fields::takes_increments(self.table, at) {
                continue;
            }
            let is_currency = field.kind == Kind::Currency;
            let sum = fields::of_field(self.table, at, field);
            let by = if is_currency { fields::amount() } else { fields::int64() };
            let by = json!({
                "type": "object",
                "required": ["by"],
                "properties": { "by": by },
                "additionalProperties": false,
            });
            let sum = json!({
                "type": "object", "required": [field.name], "properties": { (&*field.name): sum },
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
                    "responses": { "200": answer("The sum", &sum) },
                }),
            );
        }
    }

    /// Adds the deletion of a row, and that of all rows that a filter selects. The filter is
    /// required, so that a request without parameters does not delete the table.
    ///
    /// The deletion of a row is answered with 204, the other with the number of deleted rows.
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

    /// Adds the reading and writing of the bytes of each blob, each with the right that it
    /// requires. A write accepts any media type and stores the bytes only; a read returns
    /// `application/octet-stream`.
    fn blobs(&mut self, may: &impl Fn(Right) -> bool) {
        for (at, field) in self.table.fields().iter().enumerate() {
            if field.kind != Kind::Blob || !self.table.is_readable(at) {
                continue;
            }
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

#[cfg(feature = "files")]
impl Ways<'_> {
    /// Adds the routes of each file field, each with the right that it requires.
    fn files(&mut self, may: &impl Fn(Right) -> bool) {
        for (at, field) in self.table.fields().iter().enumerate() {
            if !matches!(field.kind, Kind::File { .. }) || !self.table.is_readable(at) {
                continue;
            }
            let (name, path) = (&field.name, format!("/{{key}}/{}", field.name));
            let types = match &field.kind {
                Kind::File { types, .. } if !types.is_empty() => {
                    types.iter().map(|media_type| (media_type.to_string(), json!({}))).collect()
                }
                _ => serde_json::Map::from_iter([("*/*".to_owned(), json!({}))]),
            };
            let description = fields::of_field(self.table, at, field);
            let text = json!({ "type": "string" });
            if may(Right::Read) {
                let parameters = [
                    in_query("download", "To be saved instead of shown", &json!({ "enum": ["1"] })),
                    in_query(
                        "thumbnail",
                        "A smaller version of an image: 200x200",
                        &json!({ "type": "string", "pattern": "^[1-9][0-9]{1,3}x[1-9][0-9]{1,3}$" }),
                    ),
                    in_query("expires", "Of a signed URL", &json!({ "type": "integer" })),
                    in_query("signature", "Of a signed URL", &text),
                ];
                self.on(Method::Get, &path, &format!("{name}.get"), "The bytes of a file", &json!({
                    "parameters": parameters,
                    "responses": {
                        "200": { "description": "The bytes", "content": types.clone() },
                        "206": { "description": "The part in `Range`", "content": types.clone() },
                    },
                }));
                let signed = json!({ "type": "object", "properties": {
                    "url": text, "expires": { "type": "string", "format": "date-time" },
                }});
                let seconds = json!({ "type": "integer", "minimum": 1, "maximum": 604_800 });
                let verb = format!("{name}.sign");
                self.on(
                    Method::Post,
                    &format!("{path}/signed-url"),
                    &verb,
                    "A signed URL",
                    &json!({
                        "parameters": [in_query("expires_in", "Its lifetime in seconds", &seconds)],
                        "responses": { "200": answer("The URL", &signed) },
                    }),
                );
            }
            if may(Right::Update) {
                self.on(
                    Method::Put,
                    &path,
                    &format!("{name}.put"),
                    "Writes a file",
                    &json!({
                        "requestBody": { "required": true, "content": types },
                        "responses": { "200": answer("The description of the file", &description) },
                    }),
                );
                self.on(
                    Method::Delete,
                    &path,
                    &format!("{name}.delete"),
                    "Removes a file",
                    &json!({
                        "responses": { "204": { "description": "Done" } },
                    }),
                );
                let verb = format!("{name}.upload");
                let about = "Begins a resumable upload (tus 1.0)";
                self.on(
                    Method::Post,
                    &format!("{path}/uploads"),
                    &verb,
                    about,
                    &json!({
                        "parameters": [
                            { "name": "Tus-Resumable", "in": "header", "required": true,
                              "schema": { "enum": ["1.0.0"] } },
                            { "name": "Upload-Length", "in": "header", "required": true,
                              "schema": { "type": "integer" } },
                        ],
                        "responses": { "201": { "description": "Its URL is in `Location`" } },
                    }),
                );
            }
        }
    }
}

/// Returns the parameter `fields`, of lists and of single rows.
fn of_fields() -> Value {
    let what = "The fields to show, with commas between; a row has no others then, although its \
                schema requires them";
    in_query("fields", what, &json!({ "type": "string" }))
}

/// Returns the parameter `expand`, of lists and of single rows.
fn of_expand() -> Value {
    let what = "Relations whose rows are added as the member `expand`, such as \
                `author(fields=name),comment(order=-id,limit=3)`";
    in_query("expand", what, &json!({ "type": "string" }))
}

/// Returns the schema of a page: `rows` of the schema `of`, `next` with a URL or null, and `count`,
/// which is present only if it was requested.
fn page(of: &Value) -> Value {
    // A group has the fields and values that were requested.
    page_of(&json!({ "anyOf": [of, { "type": "object", "title": "group" }] }))
}

/// Returns the schema of a page whose rows are arrays of values.
fn page_in_columns() -> Value {
    let mut page = page_of(&json!({ "type": "array", "description": "A value for each column" }));
    page["required"] = json!(["columns", "rows"]);
    page["properties"]["columns"] = json!({ "type": "array", "items": { "type": "string" } });
    page
}

/// Returns the schema of a page with these rows.
fn page_of(row: &Value) -> Value {
    json!({
        "type": "object",
        "required": ["rows"],
        "properties": {
            "rows": {
                "type": "array",
                "items": row,
            },
            "next": { "type": ["string", "null"], "description": "The URL of the next page" },
            "count": { "type": "integer" },
            "scores": {
                "type": "array",
                "items": { "type": "number" },
                "description": "The score of each row, in a computed order",
            },
            "snippets": {
                "type": "array",
                "items": { "type": "object" },
                "description": "The extracts of each row, escaped for HTML, with `<mark>`",
            },
        },
    })
}
