//! `POST /api/batch`: several writes, over any tables, in one transaction,
//! with a result for each.

use std::sync::Arc;

use marmota_http::Status;
use marmota_model::{Error, FieldSet, NoRows, Scratch, Table, Value, ValueRef, Violation, json};
use marmota_store::operation::{
    BatchMode, Effect, Keys, Link, LinkAt, OnConflict, Operation, Outcome, Write,
};
use marmota_store::prepare::{self, Origin, Stamp};
use marmota_store::registry::Registry;
use marmota_store::write::check_version;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::answer::{Answer, Head, JSON};
use crate::body::{self, empty_row};
use crate::call::{Halt, Next, On, Run, Verb};
use crate::increment::read_by;
use crate::linked::{Linked, operation_of};
use crate::once::{self, Once, Shape};
use crate::params;
use crate::problem::{ApiError, Result, copy_of};
use crate::scrap::Scrap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body<'a> {
    #[serde(default)]
    mode: Mode,
    #[serde(borrow)]
    operations: Vec<&'a RawValue>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    All,
    Each,
}

/// One operation; the member with the verb's name has the table's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Member<'a> {
    #[serde(borrow)]
    insert: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    update: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    patch: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    increment: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    delete: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    key: Option<&'a RawValue>,
    #[serde(borrow)]
    row: Option<&'a RawValue>,
    version: Option<i64>,
    #[serde(borrow)]
    field: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    by: Option<&'a RawValue>,
    #[serde(borrow)]
    on_conflict: Option<std::borrow::Cow<'a, str>>,
}

pub(crate) struct BatchCall {
    mode: Mode,
    linked: Linked,
    /// The errors of operations that were refused before they were tried,
    /// with their places; in mode `each` only.
    refused: Vec<(usize, ApiError)>,
    results: Vec<marmota_model::Result<Outcome>>,
    /// It takes place once.
    once: Option<Once>,
}

impl BatchCall {
    pub(crate) fn of(on: On<'_, Registry>) -> Result<Self> {
        params::none(on.request)?;
        body::check_json(on.request)?;
        let no_batch = |why: &dyn std::fmt::Display| {
            ApiError::bad_request(format!(
                "the body must be such as {{\"operations\":[{{\"delete\":\"person\",\"key\":7}}]}}: \
                 {why}"
            ))
        };
        // serde reads the members out of an array too, and complains of those.
        if on.request.body().trim_ascii_start().first() == Some(&b'[') {
            return Err(no_batch(&"the operations stand in an object, not in an array alone"));
        }
        let body: Body<'_> =
            serde_json::from_slice(on.request.body()).map_err(|error| no_batch(&error))?;
        let most = on.api.batch_operations_max;
        if body.operations.len() > most {
            let count = body.operations.len();
            let message = format!("a batch has at most {most} operations, this one has {count}");
            return Err(ApiError::bad_request(message).with_status(Status::CONTENT_TOO_LARGE));
        }
        let mut batch = Self {
            mode: body.mode,
            linked: Linked::default(),
            refused: Vec::new(),
            results: Vec::new(),
            once: Once::of(on.request, Shape::Results)?,
        };
        for (index, operation) in body.operations.iter().enumerate() {
            match write_of(on.subject, operation, &batch.linked) {
                Ok(write) => batch.linked.add(Some(write)),
                Err(error) if batch.mode == Mode::All => return Err(error.at(index)),
                Err(error) => {
                    batch.linked.add(None);
                    batch.refused.push((index, error));
                }
            }
        }
        Ok(batch)
    }

    /// A row or an array of rows as a batch that takes place once.
    pub(crate) fn of_rows(on: On<'_>, once: Once) -> Result<Self> {
        if on.request.query_params().next().is_some() {
            return Err(ApiError::bad_request(
                "a POST with `Idempotency-Key` takes no parameters; one with `on_conflict` can be \
                 sent again as it is, or stand in a batch",
            ));
        }
        body::check_json(on.request)?;
        let (table, json) = (on.subject, on.request.body());
        let mut linked = Linked::default();
        if once.shape == Shape::Row {
            linked.add(Some(insert_of(table, json, OnConflict::Refuse, &linked)?));
        } else {
            let rows: Vec<&RawValue> = serde_json::from_slice(json)
                .map_err(|error| ApiError::bad_request(format!("the body is not JSON: {error}")))?;
            for (index, row) in rows.iter().enumerate() {
                let json = row.get().as_bytes();
                let insert = insert_of(table, json, OnConflict::Refuse, &Linked::default());
                linked.add(Some(insert.map_err(|error| error.at(index))?));
            }
        }
        let (refused, results) = (Vec::new(), Vec::new());
        Ok(Self { mode: Mode::All, linked, refused, results, once: Some(once) })
    }
}

/// The results of operations, and of those that were refused before.
fn write_results(
    refused: &[(usize, ApiError)],
    writes: &[Write],
    results: &[marmota_model::Result<Outcome>],
    body: &mut Vec<u8>,
) {
    body.extend_from_slice(b"{\"results\":[");
    let total = refused.len() + results.len();
    let mut refused = refused.iter().peekable();
    let mut tried = writes.iter().zip(results);
    for index in 0..total {
        if index > 0 {
            body.push(b',');
        }
        if let Some((_, error)) = refused.next_if(|(at, _)| *at == index) {
            write_error(error, body);
            continue;
        }
        match tried.next() {
            Some((write, Ok(outcome))) => write_outcome(write, outcome, body),
            Some((_, Err(error))) => write_error(&copy_of(error).into(), body),
            None => {}
        }
    }
    body.extend_from_slice(b"]}");
}

impl Verb for BatchCall {
    type Subject = Registry;

    fn step(
        &mut self,
        on: On<'_, Registry>,
        answer: &mut Answer<'_, '_>,
        run: &mut Run<'_>,
    ) -> Result<Next, Halt> {
        if !self.linked.writes.is_empty() || self.once.is_some() {
            let mode = match self.mode {
                Mode::All => BatchMode::AllOrNothing,
                Mode::Each => BatchMode::Each,
            };
            let Self { linked: Linked { writes, links, .. }, refused, results, once, .. } = self;
            let shape = once.as_ref().map_or(Shape::Results, |once| once.shape);
            let mut keep = |results: &[marmota_model::Result<Outcome>]| {
                let write = |body: &mut Vec<u8>| write_results(refused, writes, results, body);
                once::kept(shape, on.request.path(), writes, results, write)
            };
            let once = match once {
                Some(Once { key, answered, .. }) => {
                    Some(on.api.store.once(key, &mut keep, answered)?)
                }
                None => None,
            };
            let ran =
                run(&mut Operation::Batch { writes, links, mode, once, results }, &mut NoRows);
            let is_row = shape == Shape::Row;
            match (ran, self.mode) {
                (Err(Halt::Failed(error)), Mode::All) => {
                    let index = self.results.len().saturating_sub(1);
                    // The batch fails with the error of its last result.
                    return Err(match self.results.pop() {
                        Some(Err(failed)) if is_row => ApiError::from(failed).into(),
                        Some(Err(failed)) => ApiError::from(failed).at(index).into(),
                        _ => error.into(),
                    });
                }
                (Err(halt), _) => return Err(halt),
                (Ok(_), _) => {}
            }
        }
        if let Some(Once { answered: Some(answered), .. }) = &self.once {
            Once::answer(answered, answer)?;
            return Ok(Next::Answered);
        }
        let mut body = Scrap::take();
        write_results(&self.refused, &self.linked.writes, &self.results, &mut body);
        answer.whole(Head::new(Status::OK, JSON), &mut body);
        Ok(Next::Answered)
    }
}

/// Checks an operation and makes it one of the store's, linked to those before.
fn write_of(registry: &Registry, json: &RawValue, linked: &Linked) -> Result<(Write, Vec<Link>)> {
    let member: Member<'_> = serde_json::from_str(json.get()).map_err(|error| {
        ApiError::bad_request(format!("the operation is none of a batch: {error}"))
    })?;
    let Member { insert, update, patch, increment, delete, .. } = &member;
    match (insert, update, patch, increment, delete) {
        (Some(table), None, None, None, None) => {
            only(&member, ["row", "on_conflict"])?;
            of_insert(registry.table(table)?, &member, linked)
        }
        (None, Some(table), None, None, None) => {
            only(&member, ["key", "row", "version"])?;
            of_update(registry.table(table)?, &member, linked, true)
        }
        (None, None, Some(table), None, None) => {
            only(&member, ["key", "row", "version"])?;
            of_update(registry.table(table)?, &member, linked, false)
        }
        (None, None, None, Some(table), None) => {
            only(&member, ["key", "field", "by"])?;
            of_increment(registry.table(table)?, &member, linked)
        }
        (None, None, None, None, Some(table)) => {
            only(&member, ["key", "version"])?;
            let table = registry.table(table)?;
            let (key, links) = key_of(table, &member, linked)?;
            let version = member.version;
            check_version(table, version)?;
            Ok((Write::Delete { table: Arc::clone(table), key, version }, links))
        }
        _ => Err(ApiError::bad_request(
            "an operation has exactly one of insert, update, patch, increment and delete, with \
             the table's name",
        )),
    }
}

/// Refuses members that another verb takes.
fn only<const N: usize>(member: &Member<'_>, taken: [&str; N]) -> Result<()> {
    let there = [
        ("key", member.key.is_some()),
        ("row", member.row.is_some()),
        ("version", member.version.is_some()),
        ("field", member.field.is_some()),
        ("by", member.by.is_some()),
        ("on_conflict", member.on_conflict.is_some()),
    ];
    match there.into_iter().find(|(name, there)| *there && !taken.contains(name)) {
        None => Ok(()),
        Some((name, _)) => Err(ApiError::bad_request(format!(
            "this operation takes {} and no `{name}`",
            taken.join(", ")
        ))),
    }
}

fn needed<'a, T: ?Sized>(member: Option<&'a T>, name: &str) -> Result<&'a T> {
    member.ok_or_else(|| ApiError::bad_request(format!("the operation needs `{name}`")))
}

/// The key, or the link to the operation that makes it.
fn key_of(table: &Table, member: &Member<'_>, linked: &Linked) -> Result<(Value, Vec<Link>)> {
    let json = needed(member.key, "key")?;
    if let Some(operation) = operation_of(json.get()) {
        let link = linked.link(table, LinkAt::Key, operation)?;
        return Ok((Value::Absent, vec![link]));
    }
    let scratch = Scratch::new();
    let field = &table.fields()[table.key()];
    let key = json::read_value(field, json.get(), &scratch)
        .map_err(|violation| Error::invalid(vec![violation]))?;
    Ok((key.to_value(), Vec::new()))
}

fn of_insert(
    table: &Arc<Table>,
    member: &Member<'_>,
    linked: &Linked,
) -> Result<(Write, Vec<Link>)> {
    let json = needed(member.row, "row")?;
    let on_conflict = match &member.on_conflict {
        None => OnConflict::Refuse,
        Some(word) => params::way(word)?,
    };
    insert_of(table, json.get().as_bytes(), on_conflict, linked)
}

/// An insert of the row that an object is.
fn insert_of(
    table: &Arc<Table>,
    json: &[u8],
    on_conflict: OnConflict,
    linked: &Linked,
) -> Result<(Write, Vec<Link>)> {
    let scratch = Scratch::new();
    let mut row = empty_row(table);
    let mut violations = Vec::new();
    body::read_row(table, json, &scratch, &mut row, &mut violations)?;
    let links = linked.take(table, &mut row, &mut violations)?;
    let on_conflict = on_conflict.with_given(table, FieldSet::present(&row));
    let stamp = Stamp::now(table);
    prepare::insert_into(table, &mut row, Origin::Values, stamp, &mut violations);
    finish(table, violations, &links)?;
    let row = row.iter().map(ValueRef::to_value).collect();
    Ok((Write::Insert { table: Arc::clone(table), row, on_conflict }, links))
}

/// What a row still breaks, but for fields whose values are not there yet.
fn finish(table: &Table, mut violations: Vec<Violation>, links: &[Link]) -> Result<()> {
    let is_linked = |name: &str| {
        links.iter().any(|link| match link.at {
            LinkAt::Field(field) => *table.fields()[field].name == *name,
            LinkAt::Key => false,
        })
    };
    violations.retain(|violation| !is_linked(&violation.field));
    Ok(prepare::finish(violations)?)
}

fn of_update(
    table: &Arc<Table>,
    member: &Member<'_>,
    linked: &Linked,
    whole: bool,
) -> Result<(Write, Vec<Link>)> {
    let (key, mut links) = key_of(table, member, linked)?;
    let json = needed(member.row, "row")?;
    let scratch = Scratch::new();
    let mut row = empty_row(table);
    let mut violations = Vec::new();
    body::read_row(table, json.get().as_bytes(), &scratch, &mut row, &mut violations)?;
    links.extend(linked.take(table, &mut row, &mut violations)?);
    if !key.as_ref().is_absent() {
        body::check_same_key(table, &row, key.as_ref())?;
    }
    let version = body::take_version(table, &mut row, member.version, &mut violations)?;
    check_version(table, version)?;
    if whole {
        prepare::fill_for_replace(table, &mut row, &mut violations);
    }
    let stamp = Stamp::now(table);
    prepare::update_into(table, &mut row, Origin::Values, stamp, &mut violations);
    finish(table, violations, &links)?;
    let row = row.iter().map(ValueRef::to_value).collect();
    Ok((Write::Update { table: Arc::clone(table), key, row, version }, links))
}

fn of_increment(
    table: &Arc<Table>,
    member: &Member<'_>,
    linked: &Linked,
) -> Result<(Write, Vec<Link>)> {
    let (key, links) = key_of(table, member, linked)?;
    let field = table.position(needed(member.field.as_deref(), "field")?)?;
    let by = read_by(table, field, needed(member.by, "by")?.get())?;
    let stamp = Stamp::now(table).value().to_value();
    Ok((Write::Increment { table: Arc::clone(table), key, field, by, stamp }, links))
}

pub(crate) fn write_outcome(write: &Write, outcome: &Outcome, body: &mut Vec<u8>) {
    let table = write.table();
    let status = match (write, outcome.effect) {
        (Write::Insert { .. }, Effect::Inserted | Effect::Replaced) => Status::CREATED,
        (Write::Delete { .. }, _) => Status::NO_CONTENT,
        _ => Status::OK,
    };
    body.extend_from_slice(format!("{{\"status\":{}", status.code()).as_bytes());
    let mut version = outcome.version;
    if let Write::Insert { row, on_conflict, .. } = write {
        let key = match &outcome.keys {
            Keys::One(key) => key,
            _ => &row[table.key()],
        };
        body.extend_from_slice(b",\"key\":");
        json::write_value(body, key.as_ref());
        if *on_conflict == OnConflict::Refuse {
            version = table.version().map(|_| 1);
        } else {
            let effect = format!(",\"effect\":\"{}\"", outcome.effect.name());
            body.extend_from_slice(effect.as_bytes());
        }
    }
    if let Write::Increment { .. } = write {
        body.extend_from_slice(b",\"value\":");
        json::write_value(body, outcome.value.as_ref());
    }
    if let Some(version) = version {
        body.extend_from_slice(format!(",\"version\":{version}").as_bytes());
    }
    body.push(b'}');
}

fn write_error(error: &ApiError, body: &mut Vec<u8>) {
    error.log();
    body.extend_from_slice(format!("{{\"status\":{},\"error\":", error.status().code()).as_bytes());
    error.write(body);
    body.push(b'}');
}
