//! A row with its related rows in one request: nested members become operations of one batch.
//!
//! ```text
//! POST /api/issue
//! {"title":"x","project":{"name":"new"},"comment":[{"text":"a"},{"text":"b"}]}
//!
//! HTTP/1.1 201 Created
//! Location: /api/issue/7
//! {"id":7,"project":{"id":3},"comment":[{"id":1},{"id":2}]}
//! ```
//!
//! | member | meaning |
//! |---|---|
//! | a reference with an object | inserts the row and refers to it; with its key, updates the row |
//! | a table that refers to this one, with an array | each row is inserted or, with its key, updated; all refer to this row |
//! | the same with an object | `create` and `update` have rows, `delete` keys; `set` has the rows that remain |
//!
//! Each row is an operation as in a batch (`batch_operation.rs`), with the same checks, and with a
//! link to the key of the row around it. The errors name the place, such as `comment[1].text`.

use std::sync::Arc;

use marmota_http::Status;
use marmota_model::{Comparison, Error, FilterExpr, Kind, NoRows, Scratch, Table, Value, json};
use marmota_store::operation::{BatchMode, Keys, Operation, Outcome, Write};
use marmota_web::ApiResult;
use serde_json::value::RawValue;

use crate::batches::batch_operation::write_of;
use crate::batches::linked::Linked;
use crate::batches::nested_body::{
    Body, Member, Members, Parent, Verbs, at_place, determining, is_object, key_of, list, members,
    quoted, refused,
};
use crate::protocol::body;
use crate::protocol::etag;
use crate::protocol::key;
use crate::protocol::scratch_buffer::ScratchBuffer;
use crate::request::answer::{Answer, Head, JSON};
use crate::request::call::{Execute, Interrupt, Next, Verb};
use crate::request::params;
use crate::request::request_context::RequestContext;
use crate::rows::insert::location;
use crate::rows::once::{Once, Shape, kept_nested};

/// The maximum depth of rows in rows.
const DEPTH_MAX: usize = 4;

/// What a member of a row is.
enum Meaning {
    Value,
    /// A row of this table, to which a field refers.
    Referred(String, usize),
    /// Rows of this table that refer to the row, by this field.
    Referring(Arc<Table>, usize),
}

fn meaning(context: RequestContext<'_>, table: &Table, name: &str, json: &RawValue) -> Meaning {
    if let Some(field) = table.find_written(name) {
        return match &table.fields()[field].kind {
            Kind::Reference { table, .. } if is_object(json) => {
                Meaning::Referred(table.to_string(), field)
            }
            _ => Meaning::Value,
        };
    }
    if !json.get().starts_with(['{', '[']) {
        return Meaning::Value;
    }
    match table.relation(name) {
        // Relations with a name of their own have several steps: each of them is written by name.
        Ok(relation) => match &relation.steps[..] {
            [step] if step.local == table.key() => {
                match context.store.exposed_table(relation.target.name()) {
                    Ok(target) => Meaning::Referring(Arc::clone(target), step.target),
                    Err(_) => Meaning::Value,
                }
            }
            _ => Meaning::Value,
        },
        Err(_) => Meaning::Value,
    }
}

/// Returns true if the body is a row with related rows.
pub(crate) fn is_sent(context: RequestContext<'_>) -> bool {
    let body = context.request.body().trim_ascii();
    // The usual row has no nested value, and is not parsed here.
    if !body.get(1..).is_some_and(has_bracket) {
        return false;
    }
    let Ok(Members(members)) = serde_json::from_slice(body) else { return false };
    members.iter().any(|(name, json)| {
        !matches!(meaning(context, context.table(), name, json), Meaning::Value)
    })
}

/// Returns true if the bytes have a `{` or `[`. They are looked at in pieces without a branch for each
/// byte, which the compiler vectorizes.
fn has_bracket(bytes: &[u8]) -> bool {
    bytes.chunks(1024).any(|piece| {
        piece.iter().fold(false, |found, &byte| found | (byte == b'{') | (byte == b'['))
    })
}

/// A written row, for the answer.
struct Node {
    table: Arc<Table>,
    key: Parent,
    /// The rows in it, by member: one, or several.
    children: Vec<(String, bool, Vec<Node>)>,
}

/// A write of a row with its related rows.
pub(crate) struct Nested {
    linked: Linked,
    /// The place of each operation in the body; empty for the row itself.
    places: Vec<String>,
    results: Vec<marmota_model::Result<Outcome>>,
    root: Option<Node>,
    is_insert: bool,
    once: Option<Once>,
}

impl Nested {
    /// Parses the body of a POST.
    ///
    /// # Errors
    /// 400 for parameters, 413 for too many rows, and the errors of each row with its place.
    pub(crate) fn insert(context: RequestContext<'_>) -> ApiResult<Self> {
        params::none(context.request)?;
        body::check_json(context.request)?;
        let mut nested = Self::new(context, true)?;
        let json = context.request.body();
        let body = Body { json, verb: Verbs::Insert, reference: None };
        nested.root = Some(nested.row(context, context.subject, body, "", 0)?);
        Ok(nested)
    }

    /// Parses the body of a PATCH.
    ///
    /// # Errors
    /// As [`Nested::insert`], and those of conditions.
    pub(crate) fn patch(context: RequestContext<'_>) -> ApiResult<Self> {
        params::none(context.request)?;
        body::check_json(context.request)?;
        let table = context.table();
        let key = key::of_path(context.request, table)?;
        let version = etag::condition(context.request, table)?.version;
        let mut nested = Self::new(context, false)?;
        let mut text = Vec::new();
        json::write_value_as(&mut text, &table.fields()[table.key()].kind, key.as_ref());
        let key = String::from_utf8_lossy(&text).into_owned();
        let (json, verb) = (context.request.body(), Verbs::Patch(key, version));
        let body = Body { json, verb, reference: None };
        nested.root = Some(nested.row(context, context.subject, body, "", 0)?);
        Ok(nested)
    }

    fn new(context: RequestContext<'_>, is_insert: bool) -> ApiResult<Self> {
        let shape = if is_insert { Shape::Created } else { Shape::Results };
        Ok(Self {
            linked: Linked::default(),
            places: Vec::new(),
            results: Vec::new(),
            root: None,
            is_insert,
            once: Once::of(context.request, shape)?,
        })
    }

    fn add(
        &mut self,
        context: RequestContext<'_>,
        place: &str,
        operation: &str,
    ) -> ApiResult<usize> {
        let write = write_of(context.store, operation.as_bytes(), &self.linked);
        let (write, links) = write.map_err(|error| at_place(error, place))?;
        self.push(context, place, write, links)
    }

    fn push(
        &mut self,
        context: RequestContext<'_>,
        place: &str,
        write: Write,
        links: Vec<marmota_store::operation::Link>,
    ) -> ApiResult<usize> {
        let most = context.api.batch_operations_max;
        if self.places.len() >= most {
            let message = format!("a request writes at most {most} rows; send several requests");
            return Err(refused(place, message).with_status(Status::CONTENT_TOO_LARGE));
        }
        self.linked.add(Some((write, links)));
        self.places.push(place.to_owned());
        Ok(self.places.len() - 1)
    }

    /// Adds the operations of a row: those of the rows that it refers to, its own, and those of the
    /// rows that refer to it.
    fn row(
        &mut self,
        context: RequestContext<'_>,
        table: &Arc<Table>,
        Body { json, verb, reference }: Body<'_>,
        place: &str,
        depth: usize,
    ) -> ApiResult<Node> {
        if depth > DEPTH_MAX {
            let message = format!("rows in rows have at most {DEPTH_MAX} levels");
            return Err(refused(place, message));
        }
        let inner_place = |name: &str| match place.is_empty() {
            true => name.to_owned(),
            false => format!("{place}.{name}"),
        };
        let Members(members) = members(json).map_err(|error| at_place(error, place))?;
        let (mut own, mut later, mut children) = (Vec::<Member>::new(), Vec::new(), Vec::new());
        let mut referred = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        for (name, value) in &members {
            let meaning = meaning(context, table, name, value);
            if !matches!(meaning, Meaning::Value) && seen.contains(&&**name) {
                return Err(refused(&inner_place(name), "must occur only once"));
            }
            seen.push(name);
            match meaning {
                Meaning::Value => own.push((name.to_string(), value.get().to_owned())),
                Meaning::Referring(target, field) => later.push((&**name, *value, target, field)),
                Meaning::Referred(target, field) => {
                    let at = inner_place(name);
                    let target = context.store.exposed_table(&target);
                    let target = target.map_err(|error| at_place(error.into(), &at))?;
                    let json = value.get().as_bytes();
                    let verb = Verbs::of(target, json, &at)?;
                    let body = Body { json, verb, reference: None };
                    let node = self.row(context, target, body, &at, depth + 1)?;
                    referred.push((field, node.key.clone()));
                    children.push((name.to_string(), false, vec![node]));
                }
            }
        }
        for (field, key) in &referred {
            if let Some(name) = determining(table, *field).skip(1).find(|name| seen.contains(name))
            {
                let of = &table.fields()[*field].name;
                let message = format!("is set by the row in `{of}`; leave the field out");
                return Err(refused(&inner_place(name), message));
            }
            own.extend(key.members(table, *field, place)?);
        }
        if let Some((field, key)) = reference {
            if let Some(name) = determining(table, field).find(|name| seen.contains(name)) {
                let message = "the row refers to the row around it; leave the field out";
                return Err(refused(&inner_place(name), message));
            }
            own.extend(key.members(table, field, place)?);
        }
        let own: Vec<String> =
            own.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
        let (name, row) = (quoted(table.name()), own.join(","));
        let key = match verb {
            Verbs::Insert | Verbs::Upsert => {
                let or_update = match verb {
                    Verbs::Upsert => ",\"on_conflict\":\"update\"",
                    _ => "",
                };
                let operation = format!("{{\"insert\":{name},\"row\":{{{row}}}{or_update}}}");
                Parent::Operation(self.add(context, place, &operation)?)
            }
            Verbs::Patch(key, version) => {
                let version = version.map_or_else(String::new, |it| format!(",\"version\":{it}"));
                let operation =
                    format!("{{\"patch\":{name},\"key\":{key},\"row\":{{{row}}}{version}}}");
                self.add(context, place, &operation)?;
                Parent::Key(key)
            }
        };
        for (name, value, target, field) in later {
            let at = inner_place(name);
            let rows = self.rows(context, (&target, field), value, &key, (&at, depth + 1))?;
            children.push((name.to_owned(), true, rows));
        }
        Ok(Node { table: Arc::clone(table), key, children })
    }

    /// Adds the operations of the rows that refer to a row.
    fn rows(
        &mut self,
        context: RequestContext<'_>,
        (table, field): (&Arc<Table>, usize),
        value: &RawValue,
        parent: &Parent,
        (place, depth): (&str, usize),
    ) -> ApiResult<Vec<Node>> {
        let mut nodes = Vec::new();
        if !is_object(value) {
            for (at, json) in list(value, place)?.into_iter().enumerate() {
                let place = format!("{place}[{at}]");
                let verb = Verbs::of(table, json.get().as_bytes(), &place)?;
                nodes.push(self.child(
                    context,
                    (table, field),
                    json,
                    verb,
                    parent,
                    (&place, depth),
                )?);
            }
            return Ok(nodes);
        }
        let Members(forms) =
            members(value.get().as_bytes()).map_err(|error| at_place(error, place))?;
        for (form, value) in forms {
            let inner = format!("{place}.{form}");
            if !["create", "update", "delete", "set"].contains(&&*form) {
                let message = "must be create, update, delete or set, each with an array";
                return Err(refused(&inner, message));
            }
            let rows = list(value, &inner)?;
            if form == "delete" || form == "set" {
                self.remove(context, (table, field), &rows, &form, parent, &inner)?;
            }
            if form == "delete" {
                continue;
            }
            for (at, json) in rows.into_iter().enumerate() {
                let place = format!("{inner}[{at}]");
                let verb = match &*form {
                    "create" => Verbs::Insert,
                    "set" => Verbs::of_set(table, json.get().as_bytes(), &place)?,
                    _ => match Verbs::keyed(table, json.get().as_bytes(), &place)? {
                        Some(verb) => verb,
                        None => return Err(refused(&place, "the row to update needs its key")),
                    },
                };
                nodes.push(self.child(
                    context,
                    (table, field),
                    json,
                    verb,
                    parent,
                    (&place, depth),
                )?);
            }
        }
        Ok(nodes)
    }

    /// Adds the operations of one row that refers to its parent.
    fn child(
        &mut self,
        context: RequestContext<'_>,
        (table, field): (&Arc<Table>, usize),
        json: &RawValue,
        verb: Verbs,
        parent: &Parent,
        (place, depth): (&str, usize),
    ) -> ApiResult<Node> {
        let reference = Some((field, parent));
        let body = Body { json: json.get().as_bytes(), verb, reference };
        self.row(context, table, body, place, depth)
    }

    /// Adds the delete of rows that refer to the parent: those with the listed keys (`delete`), or
    /// all but the listed rows (`set`).
    fn remove(
        &mut self,
        context: RequestContext<'_>,
        (table, field): (&Arc<Table>, usize),
        rows: &[&RawValue],
        form: &str,
        parent: &Parent,
        place: &str,
    ) -> ApiResult<()> {
        let Parent::Key(parent) = parent else {
            return match form {
                "delete" => Err(refused(place, "a new row has no related rows to delete")),
                _ => Ok(()),
            };
        };
        let key_field = &table.fields()[table.key()];
        let scratch = Scratch::new();
        let mut keys = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let place = format!("{place}[{at}]");
            let json = match form {
                "delete" => Some(row.get().to_owned()),
                _ => key_of(table, row.get().as_bytes(), &place)?,
            };
            let Some(json) = json else { continue };
            let key = json::read_value(key_field, &json, &scratch)
                .map_err(|violation| at_place(Error::invalid(vec![violation]).into(), &place))?;
            keys.push(key.to_value());
        }
        let reference = &table.fields()[field];
        let value = json::read_value(reference, parent, &scratch)
            .map_err(|violation| at_place(Error::invalid(vec![violation]).into(), place))?;
        let of_parent =
            FilterExpr::Compare { field, comparison: Comparison::Equal, value: value.to_value() };
        let listed = FilterExpr::In { field: table.key(), values: keys };
        let filter = match form {
            "delete" => of_parent.and(listed),
            _ => of_parent.and(FilterExpr::Not(Box::new(listed))),
        };
        filter.check(table).map_err(|error| at_place(error.into(), place))?;
        let table = Table::original_of(table);
        let write = Write::DeleteWhere { table, filter: Some(filter) };
        self.push(context, place, write, Vec::new()).map(drop)
    }
}

/// Writes the keys of a row and of the rows in it.
fn write_node(
    node: &Node,
    writes: &[Write],
    results: &[marmota_model::Result<Outcome>],
    out: &mut Vec<u8>,
) {
    let field = &node.table.fields()[node.table.key()];
    out.push(b'{');
    json::write_string(out, &field.name);
    out.push(b':');
    match &node.key {
        Parent::Key(key) => out.extend_from_slice(key.as_bytes()),
        Parent::Operation(at) => {
            let key = inserted_key(&writes[*at], results.get(*at));
            json::write_value_as(out, &field.kind, key.as_ref());
        }
    }
    for (name, is_list, nodes) in &node.children {
        out.push(b',');
        json::write_string(out, name);
        out.push(b':');
        if *is_list {
            out.push(b'[');
        }
        for (at, node) in nodes.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write_node(node, writes, results, out);
        }
        if *is_list {
            out.push(b']');
        }
    }
    out.push(b'}');
}

fn inserted_key(write: &Write, result: Option<&marmota_model::Result<Outcome>>) -> Value {
    match (write, result) {
        (_, Some(Ok(Outcome { keys: Keys::One(key), .. }))) => key.clone(),
        (Write::Insert { table, row, .. }, _) => row[table.key()].clone(),
        _ => Value::Null,
    }
}

impl Verb for Nested {
    type Subject = Table;

    /// Executes the batch, and answers with the keys of all rows, in the form of the request.
    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let Self { linked: Linked { writes, links, .. }, places, results, root, once, is_insert } =
            self;
        let Some(root) = root else { return Ok(Next::Answered) };
        let shape = if *is_insert { Shape::Created } else { Shape::Results };
        let mut keep = |results: &[marmota_model::Result<Outcome>]| {
            kept_nested(shape, |body| write_node(root, writes, results, body))
        };
        let kept = match once.as_mut() {
            Some(Once { key, answered, .. }) => {
                Some(context.api.store.once(key, &mut keep, answered)?)
            }
            None => None,
        };
        let mode = BatchMode::AllOrNothing;
        let ran = execute(
            &mut Operation::Batch { writes, links, mode, once: kept, results },
            &mut NoRows,
        );
        match ran {
            Err(Interrupt::Failed(error)) => {
                let at = results.len().saturating_sub(1);
                let place = places.get(at).map_or("", |place| &**place);
                return Err(match results.pop() {
                    Some(Err(failed)) => at_place(failed.into(), place).into(),
                    _ => error.into(),
                });
            }
            Err(interrupt) => return Err(interrupt),
            Ok(outcome) => answer.committed(context.store, &outcome),
        }
        if let Some(Once { answered: Some(answered), .. }) = once {
            Once::answer(answered, answer)?;
            return Ok(Next::Answered);
        }
        let mut body = ScratchBuffer::take();
        write_node(root, writes, results, &mut body);
        let status = if *is_insert { Status::CREATED } else { Status::OK };
        let mut head = Head::new(status, JSON);
        if let (true, Parent::Operation(at)) = (*is_insert, &root.key) {
            let key = inserted_key(&writes[*at], results.get(*at));
            head.location = Some(location(context.request.path(), key.as_ref()));
        }
        answer.whole(head, &mut body);
        Ok(Next::Answered)
    }
}
