//! `GET /api`: the tables and their fields, for humans; `GET /api/openapi.json`, for tools.
//!
//! ```text
//! GET /api
//!
//! HTTP/1.1 200 OK
//! ETag: "h5d0c7be19a3f2486"
//! Content-Type: application/json
//!
//! {"tables":[{
//!   "name":"person", "href":"/api/person", "key":"id", "key_given_by":"service",
//!   "fields":[
//!     {"name":"id","kind":"integer","nullable":false,"unique":true,"role":"key"},
//!     {"name":"name","kind":"text","nullable":false,"unique":false,"max":40,
//!      "rules":[{"rule":"not_empty"}]}],
//!   "indexes":[{"fields":["name"],"unique":false}],
//!   "history":"/api/person/{key}/history"}]}
//! ```
//!
//! Both routes accept no parameters, and answer 304 to a client that has the document. The
//! documents depend on the rights of the caller: a table without any right is left out, and `GET
//! /api` lists the `rights` on each other one. They are built for each request, because rights can
//! change, and requests for them are rare.
//!
//! This document has the terms of the models: kinds, roles and rules. OpenAPI has those of JSON
//! Schema, which cannot express all of them.

use marmota_http::Request;
use marmota_model::{Collation, Field, FieldSet, KeyKind, Kind, Role, Rule, Table, json};
use marmota_store::Store;
use marmota_store::rights::Right;
use marmota_web::OpenApi;
use serde_json::{Map, Value, json};

use crate::documents::open_api;
use crate::protocol::etag::{self, Etag};
use crate::request::answer::{Head, JSON, Out, refuse};
use crate::request::params;

/// The path of the OpenAPI document, after the prefix.
///
/// The document of an API under `/api` is at `/api/openapi.json`.
pub(crate) const OPEN_API: &str = "/openapi.json";

/// Responds with the description of the tables. The URLs in it start with the path of the request,
/// so that they are right for any prefix and any tenant.
///
/// If callers are authenticated, `security` states how: with a bearer token or a cookie, each with
/// the URL of the login.
///
/// # Errors
/// 400 for a parameter.
pub(crate) fn answer(store: &Store, request: &Request, out: &mut Out<'_, '_>) {
    if let Err(error) = params::none(request) {
        return refuse(error, out);
    }
    let base = request.path().trim_end_matches('/');
    let mut document = json!({ "tables": [] });
    let mut tables = Vec::new();
    for table in store.exposed_tables() {
        let Some(rights) = store.rights() else {
            tables.push(of_table(table, base));
            continue;
        };
        let allowed = Right::ALL.into_iter().filter(|right| rights.allow(table, *right));
        let allowed: Vec<&str> = allowed.map(Right::name).collect();
        let mut shown = of_table(table, base);
        shown["rights"] = json!(allowed);
        tables.push(shown);
    }
    document["tables"] = Value::Array(tables);
    if store.rights().is_some() {
        document["security"] = json!([
            { "type": "http", "scheme": "bearer", "login": format!("{base}/auth/login") },
            { "type": "cookie", "name": "__Host-marmota_session", "login": format!("{base}/auth/login") },
        ]);
    }
    give(&document, store, request, out);
}

/// Responds with the OpenAPI document of the tables and the additional operations, for the caller's
/// rights. `rows_max` is the maximum number of rows in a page.
///
/// # Errors
/// 400 for a parameter.
pub(crate) fn open_api(
    store: &Store,
    rows_max: u64,
    additions: &OpenApi,
    request: &Request,
    out: &mut Out<'_, '_>,
) {
    if let Err(error) = params::none(request) {
        return refuse(error, out);
    }
    let base = request.path().strip_suffix(OPEN_API).unwrap_or_default();
    give(&open_api::of_store(store, base, rows_max, additions).document(), store, request, out);
}

/// Responds with a document: 200 with the hash of its text as the `ETag`, or 304 without a body if
/// `If-None-Match` has this tag.
fn give(document: &Value, store: &Store, request: &Request, out: &mut Out<'_, '_>) {
    let mut body = document.to_string().into_bytes();
    let etag = Some(Etag::of_bytes(&body));
    let mut answer = out.begin(store.rights().is_some());
    if etag.is_some_and(|etag| etag::none_match(request, etag)) {
        answer.empty(Head::new(marmota_http::Status::NOT_MODIFIED, "").etag(etag));
    } else {
        answer.whole(Head::new(marmota_http::Status::OK, JSON).etag(etag), &mut body);
    }
    let kept = answer.into_kept();
    out.end(kept);
}

/// Returns the fields of a table that the caller may read or write.
pub(crate) fn shown_fields(table: &Table) -> impl Iterator<Item = (usize, &Field)> {
    let fields = table.fields().iter().enumerate();
    fields.filter(|(_, field)| table.find_written(&field.name).is_some())
}

/// Returns the description of a table: its URL, its key and who assigns it, its fields and its
/// indexes. `key_fields` is present for composite keys, `relations` for models with named relations, `history` for audited ones,
/// `search_language` for those whose searches find other forms of a word.
///
/// The order of members in the JSON text is not fixed.
fn of_table(table: &Table, base: &str) -> Value {
    let name = |position: usize| &*table.fields()[position].name;
    let indexes: Vec<Value> = table
        .indexes()
        .iter()
        .filter(|index| {
            let filter = table.index_filter(index);
            let used = filter.map_or(FieldSet::EMPTY, |filter| filter.fields(table.original()));
            used.iter().chain(index.fields.iter().copied()).all(|field| table.is_readable(field))
        })
        .map(|index| {
            let fields: Vec<&str> = index.fields.iter().map(|&field| name(field)).collect();
            let mut out = json!({ "fields": fields, "unique": index.unique });
            if let Some(filter) = &index.filter {
                out["where"] = json!(filter);
            }
            out
        })
        .collect();
    let fields: Vec<Value> =
        shown_fields(table).map(|(at, field)| of_field(table, at, field)).collect();
    let mut out = json!({
        "name": table.name(),
        "href": format!("{base}/{}", table.name()),
        "key": name(table.key()),
        "key_given_by": match table.key_kind() {
            KeyKind::Text if table.has_composite_key() => "service",
            KeyKind::Auto | KeyKind::Uuid => "service",
            KeyKind::Text => "client",
        },
        "fields": fields,
        "indexes": indexes,
    });
    if table.has_composite_key() {
        let fields = table.key_fields().iter().filter(|&&field| table.is_readable(field));
        out["key_fields"] = fields.map(|&field| json!(name(field))).collect();
    }
    // Those that lead through tables or fields without a right do not exist for the caller.
    let named = table.schema().relations.iter();
    let named: Vec<Value> = named
        .filter(|relation| table.relation(&relation.name).is_ok())
        .map(|relation| json!({ "name": relation.name, "path": relation.path }))
        .collect();
    if !named.is_empty() {
        out["relations"] = Value::Array(named);
    }
    if let Some(language) = table.schema().search_language
        && table.search_fields().next().is_some()
    {
        out["search_language"] = json!(language.name());
    }
    if table.schema().audit {
        out["history"] = json!(format!("{base}/{}/{{key}}/history", table.name()));
    }
    out
}

/// Returns the description of a field. `name`, `kind`, `nullable` and `unique` are always present;
/// others only where they apply:
///
/// - `readable: false` and `updatable: false` for a field that the caller may not read, or may not
///   change in a row;
/// - `search` for a field of the search index, `immutable` for one that is fixed after the insert;
/// - `max` (characters) and `collation` of a text, `range` of an integer, `values` of an
///   enumeration, `table` of a reference, and
///   `dimensions` of a vector;
/// - `role` of a field that the store writes, `default`, `default_expression` and `computed` (empty
///   if the expression uses fields that the caller may not read), and `rules`.
pub(crate) fn of_field(table: &Table, position: usize, field: &Field) -> Value {
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| {
        out.insert(name.to_owned(), value);
    };
    put("name", json!(field.name));
    put("kind", json!(field.kind.name()));
    put("nullable", json!(field.nullable));
    put("unique", json!(field.unique || position == table.key()));
    if !table.is_readable(position) {
        put("readable", json!(false));
    }
    if !table.is_updated(position) && field.role == Role::Plain {
        put("updatable", json!(false));
    }
    if field.search {
        put("search", json!(true));
    }
    if field.immutable {
        put("immutable", json!(true));
    }
    match &field.kind {
        Kind::Text { chars_max, collation } => {
            if *chars_max > 0 {
                put("max", json!(chars_max));
            }
            if *collation == Collation::NoCase {
                put("collation", json!("nocase"));
            }
        }
        Kind::Int { min, max } if (*min, *max) != (i64::MIN, i64::MAX) => {
            put("range", json!([min, max]));
        }
        Kind::Enum { variants, .. } => {
            let names: Vec<&str> = variants.iter().map(|variant| &*variant.name).collect();
            put("values", json!(names));
        }
        Kind::Reference { table, .. } => put("table", json!(table)),
        Kind::Vector { dimensions } => put("dimensions", json!(dimensions)),
        Kind::File { bytes_max, types } => {
            put("bytes_max", json!(bytes_max));
            put("types", json!(types));
        }
        _ => {}
    }
    let role = match field.role {
        Role::Plain => None,
        Role::Key => Some("key"),
        Role::CreatedAt => Some("created_at"),
        Role::UpdatedAt => Some("updated_at"),
        Role::Version => Some("version"),
    };
    if let Some(role) = role {
        put("role", json!(role));
    }
    if let Some(default) = table.default(position).filter(|_| field.computed.is_none()) {
        let mut text = Vec::new();
        json::write_value_as(&mut text, &field.kind, default);
        put("default", serde_json::from_slice(&text).unwrap_or_default());
    }
    if let Some(expression) = table.default_expression(position) {
        put("default_expression", json!(expression));
    }
    if let Some(expression) = table.computed(position) {
        put("computed", json!(expression));
    }
    if field.generated.is_some() {
        put("generated", json!(true));
    }
    if !field.sanitizers.is_empty() {
        put("sanitizers", field.sanitizers.iter().map(|one| json!(one.name())).collect());
    }
    if !field.rules.is_empty() {
        put("rules", field.rules.iter().map(of_rule).collect());
    }
    Value::Object(out)
}

/// Returns the description of a rule: its name and its arguments. A custom check has only a name.
///
/// ```text
/// {"rule":"length","min":2,"max":40}
/// {"rule":"range","min":1,"max":null}
/// {"rule":"pattern","pattern":"^[A-Z]{3}$"}
/// ```
///
/// An open end of a range is null. A pattern is written in the syntax of the server's regular
/// expressions.
fn of_rule(rule: &Rule) -> Value {
    let end = |end: &Option<marmota_model::Literal>| {
        let mut text = Vec::new();
        let value = end.as_ref().map_or(marmota_model::ValueRef::Null, |literal| literal.value());
        json::write_value(&mut text, value);
        serde_json::from_slice::<Value>(&text).unwrap_or_default()
    };
    match rule {
        Rule::NotEmpty => json!({ "rule": "not_empty" }),
        Rule::Length { min, max } => json!({ "rule": "length", "min": min, "max": max }),
        Rule::Range { min, max } => json!({ "rule": "range", "min": end(min), "max": end(max) }),
        Rule::Pattern(pattern) => json!({ "rule": "pattern", "pattern": pattern }),
        Rule::Email => json!({ "rule": "email" }),
        Rule::Url => json!({ "rule": "url" }),
        Rule::Ip => json!({ "rule": "ip" }),
        Rule::Count { class, min, max } => {
            json!({ "rule": "count", "class": class.name(), "min": min, "max": max })
        }
        Rule::Check { name, .. } => json!({ "rule": name }),
        _ => json!({ "rule": "other" }),
    }
}
