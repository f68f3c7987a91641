//! Reads the related rows of a request: one operation for each step of a relation (and each 400
//! different keys), never one for each row.

use std::collections::HashMap;
use std::ops::ControlFlow;

use marmota_model::binary::put_value;
use marmota_model::{ErrorKind, FieldSet, RowQuery, Value, ValueRef, json};
use marmota_store::related::RelatedRead;
use marmota_web::ApiResult;

use super::limits::{ROWS_MAX, refused};
use super::parse::items;
use super::plan::{Node, Plan};
use crate::request::call::{Execute, Interrupt};
use crate::request::request_context::RequestContext;

/// The related rows of a request, as far as they are read.
#[derive(Debug)]
pub(crate) struct Expansion {
    pub(super) plan: Plan,
    /// The fields by which the rows of the request find theirs.
    locals: Vec<usize>,
    /// The rows of the request.
    pub(super) rows: Vec<ReadRow>,
    /// The related rows of each relation.
    pub(super) related: Vec<Related>,
    /// The relation that is being read, and its step.
    at: usize,
    step: usize,
    reading: Option<RelatedRead>,
    /// The number of rows read, including those between the steps of a relation.
    count: u64,
}

/// A row, with what it needs to find its related rows.
#[derive(Debug)]
pub(super) struct ReadRow {
    pub(super) json: Vec<u8>,
    /// The values by which it finds its related rows: one for each relation.
    pub(super) locals: Vec<Value>,
    /// The value by which it is found.
    by: Value,
    /// The values of its order, if it is sorted here.
    order: Vec<Value>,
}

/// The rows of a relation.
#[derive(Debug, Default)]
pub(super) struct Related {
    /// For each step but the last, the values that lead from a row to the rows of the next step.
    pub(super) hops: Vec<HashMap<Vec<u8>, Vec<Value>>>,
    pub(super) rows: Vec<ReadRow>,
    /// The rows with a value.
    pub(super) found: HashMap<Vec<u8>, Vec<usize>>,
}

/// Returns a value as the key of a map.
pub(super) fn key_of(value: &Value) -> Vec<u8> {
    let mut key = Vec::new();
    put_value(&mut key, value.as_ref());
    key
}

fn values(row: &[ValueRef<'_>], fields: &[usize]) -> Vec<Value> {
    fields.iter().map(|&field| row[field].to_value()).collect()
}

impl Expansion {
    /// Parses the parameter `expand` for rows of the request's table.
    ///
    /// # Errors
    /// 400 with the place of the invalid part.
    pub(crate) fn of(context: RequestContext<'_>, text: &str) -> ApiResult<Self> {
        let plan = Plan::new(context, items(text, "", 1)?)?;
        let locals = plan.locals(&plan.children);
        let related = plan.nodes.iter().map(|_| Related::default()).collect();
        let (rows, reading) = (Vec::new(), None);
        Ok(Self { plan, locals, rows, related, at: 0, step: 0, reading, count: 0 })
    }

    /// Returns the fields that the rows of the request need in addition to those of their answer.
    pub(crate) fn fields(&self) -> FieldSet {
        self.locals.iter().copied().collect()
    }

    /// Adds a row of the request.
    pub(crate) fn add(&mut self, json: Vec<u8>, row: &[ValueRef<'_>]) {
        let locals = values(row, &self.locals);
        self.rows.push(ReadRow { json, locals, by: Value::Null, order: Vec::new() });
    }

    /// Executes the next operation. Returns true if all rows are read.
    ///
    /// # Errors
    /// Those of `execute`, and 400 for too many rows.
    pub(crate) fn step(&mut self, execute: &mut Execute<'_>) -> Result<bool, Interrupt> {
        let Some(node) = self.plan.nodes.get(self.at) else { return Ok(true) };
        let step = self.step;
        let is_last = step + 1 == node.steps.len();
        if self.reading.is_none() {
            let keys = match step {
                0 => self.parent_values(node),
                _ => self.related[self.at].hops[step - 1].values().flatten().cloned().collect(),
            };
            self.reading = Some(read_of(node, step, keys));
        }
        let Some(reading) = &mut self.reading else { return Ok(false) };
        let related = &mut self.related[self.at];
        let locals = self.plan.locals(&node.children);
        let order: Vec<usize> = match node.steps.len() {
            1 => Vec::new(),
            _ => node.query.order_with_key(node.target()).iter().map(|by| by.field).collect(),
        };
        if !is_last && related.hops.len() == step {
            related.hops.push(HashMap::new());
        }
        let (count, mut writer) = (&mut self.count, json::RowWriter::new());
        let target = node.steps[step].target;
        let mut sink = |row: &[ValueRef<'_>]| {
            *count += 1;
            if *count > ROWS_MAX {
                return ControlFlow::Break(());
            }
            let by = row[target].to_value();
            if is_last {
                let mut json = Vec::new();
                writer.write(&mut json, node.target(), node.shown, row);
                let (locals, order) = (values(row, &locals), values(row, &order));
                related.rows.push(ReadRow { json, locals, by, order });
            } else {
                let next = row[node.steps[step + 1].local].to_value();
                related.hops[step].entry(key_of(&by)).or_default().push(next);
            }
            ControlFlow::Continue(())
        };
        let done = match reading.with_operation(|operation| execute(operation, &mut sink)) {
            Some(Ok(_)) => {
                reading.advance();
                false
            }
            // The caller may read no row of the table.
            Some(Err(Interrupt::Failed(error)))
                if matches!(
                    error.error().kind(),
                    ErrorKind::Denied | ErrorKind::Unauthenticated
                ) =>
            {
                true
            }
            Some(Err(interrupt)) => return Err(interrupt),
            None => true,
        };
        if self.count > ROWS_MAX {
            return Err(too_many(&node.place).into());
        }
        if done {
            self.reading = None;
            if is_last {
                self.related[self.at].sort(node);
                (self.at, self.step) = (self.at + 1, 0);
            } else {
                self.step += 1;
            }
        }
        Ok(self.at == self.plan.nodes.len())
    }

    /// Returns the values by which the rows around a relation find its rows.
    fn parent_values(&self, node: &Node) -> Vec<Value> {
        let (rows, children) = match node.parent {
            Some(parent) => (&self.related[parent].rows, &self.plan.nodes[parent].children),
            None => (&self.rows, &self.plan.children),
        };
        let place = children.iter().position(|&child| child == self.at).unwrap_or_default();
        rows.iter().map(|row| row.locals[place].clone()).collect()
    }
}

/// Returns the read of a step with these keys.
fn read_of(node: &Node, step: usize, keys: Vec<Value>) -> RelatedRead {
    let table = std::sync::Arc::clone(&node.tables[step]);
    let by = node.steps[step].target;
    if step + 1 < node.steps.len() {
        let fields = FieldSet::EMPTY.with(by).with(node.steps[step + 1].local);
        let query = RowQuery { fields: Some(fields), ..RowQuery::new() };
        return RelatedRead::new(table, by, query, None, keys);
    }
    // The rows of several steps are limited when they are written, for each row around them.
    let limit = (node.steps.len() == 1 && !node.to_one).then_some(node.limit);
    RelatedRead::new(table, by, node.query.clone(), limit, keys)
}

/// Returns the error for more related rows than an answer may have.
pub(super) fn too_many(place: &str) -> marmota_web::ApiError {
    let message = format!(
        "an answer contains at most {ROWS_MAX} related rows; set a lower `limit`, or read fewer rows"
    );
    refused(place, "range", message)
}

impl Related {
    /// Sorts the rows, if they were read by several operations, and makes them be found.
    fn sort(&mut self, node: &Node) {
        if node.steps.len() > 1 {
            let (table, order) = (node.target(), node.query.order_with_key(node.target()));
            self.rows.sort_by(|a, b| {
                for (by, (a, b)) in order.iter().zip(a.order.iter().zip(&b.order)) {
                    let collation = table.fields()[by.field].kind.collation();
                    let order = collation.order(a.as_ref(), b.as_ref());
                    if order.is_ne() {
                        return if by.descending { order.reverse() } else { order };
                    }
                }
                std::cmp::Ordering::Equal
            });
        }
        for (at, row) in self.rows.iter().enumerate() {
            self.found.entry(key_of(&row.by)).or_default().push(at);
        }
    }
}
