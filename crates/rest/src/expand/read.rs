//! Reads the related rows of a request: one operation for each step of a relation (and each 400
//! different keys), never one for each row.

use std::ops::ControlFlow;

use marmota_model::{ErrorKind, FieldSet, RowQuery, Value, ValueRef, json};
use marmota_store::related::{RelatedRead, ValueNumbers};
use marmota_web::ApiResult;

use super::limits::{ROWS_MAX, refused};
use super::parse::items;
use super::plan::{Node, Plan};
use super::rows::{Lists, Rows};
use crate::request::call::{Execute, Interrupt};
use crate::request::request_context::RequestContext;

/// The related rows of a request, as far as they are read.
#[derive(Debug)]
pub(crate) struct Expansion {
    pub(super) plan: Plan,
    /// The fields by which the rows of the request find theirs.
    locals: Vec<usize>,
    /// The rows of the request.
    pub(super) rows: Rows,
    /// The values by which the first step of each relation is read.
    keys: Vec<ValueNumbers>,
    /// The related rows of each relation.
    pub(super) related: Vec<Related>,
    /// The relation that is being read.
    at: usize,
    /// The number of rows read, including those between the steps of a relation.
    count: u64,
}

/// The rows of a relation.
#[derive(Debug)]
pub(super) struct Related {
    /// The step that is being read; after the last one, all rows are read.
    step: usize,
    reading: Option<RelatedRead>,
    /// The values by which the next step is read.
    next: ValueNumbers,
    /// For each step, the numbers that a value leads to: of the values of the next step, or of the
    /// rows.
    pub(super) steps: Vec<Lists>,
    pub(super) rows: Rows,
    /// The values of the order of each row, if several operations read the rows of several steps.
    order: Vec<Vec<Value>>,
    /// The place of each row in the order, if it is not the number of the row.
    pub(super) places: Option<Vec<usize>>,
}

impl Expansion {
    /// Parses the parameter `expand` for rows of the request's table.
    ///
    /// # Errors
    /// 400 with the place of the invalid part.
    pub(crate) fn of(context: RequestContext<'_>, text: &str) -> ApiResult<Self> {
        let plan = Plan::new(context, items(text, "", 1)?)?;
        let related = |node: &Node| Related {
            step: 0,
            reading: None,
            next: ValueNumbers::default(),
            steps: Vec::with_capacity(node.steps.len()),
            rows: Rows::new(node.children.len()),
            order: Vec::new(),
            places: None,
        };
        Ok(Self {
            locals: plan.locals(&plan.children),
            rows: Rows::new(plan.children.len()),
            keys: plan.nodes.iter().map(|_| ValueNumbers::default()).collect(),
            related: plan.nodes.iter().map(related).collect(),
            plan,
            at: 0,
            count: 0,
        })
    }

    /// Returns the fields that the rows of the request need in addition to those of their answer.
    pub(crate) fn fields(&self) -> FieldSet {
        self.locals.iter().copied().collect()
    }

    /// Adds a row of the request, whose JSON `write` appends.
    pub(crate) fn add(&mut self, row: &[ValueRef<'_>], write: impl FnOnce(&mut Vec<u8>)) {
        self.rows.add(write);
        for (&child, &local) in self.plan.children.iter().zip(&self.locals) {
            self.rows.add_local(&mut self.keys[child], row[local]);
        }
    }

    /// Executes the next operation. Returns true if all rows are read.
    ///
    /// # Errors
    /// Those of `execute`, and 400 for too many rows.
    pub(crate) fn step(&mut self, execute: &mut Execute<'_>) -> Result<bool, Interrupt> {
        if self.at < self.plan.nodes.len() && self.read_next(self.at, execute)? {
            self.at += 1;
        }
        Ok(self.at == self.plan.nodes.len())
    }

    /// Executes the next operation of a relation. Returns true if its rows are read.
    fn read_next(&mut self, at: usize, execute: &mut Execute<'_>) -> Result<bool, Interrupt> {
        let (node, related) = (&self.plan.nodes[at], &mut self.related[at]);
        let step = related.step;
        let is_last = step + 1 == node.steps.len();
        let reading = match &mut related.reading {
            Some(reading) => reading,
            None => {
                let keys = match step {
                    0 => std::mem::take(&mut self.keys[at]),
                    _ => std::mem::take(&mut related.next),
                };
                related.steps.push(Lists::default());
                related.reading.insert(read_of(node, step, keys))
            }
        };
        let locals = self.plan.locals(&node.children);
        let order: Vec<usize> = match is_sorted_here(node, reading) {
            true => node.query.order_with_key(node.target()).iter().map(|by| by.field).collect(),
            false => Vec::new(),
        };
        let (count, keys_of) = (&mut self.count, &mut self.keys);
        let Related { next, rows, steps, order: orders, .. } = related;
        let (target, mut writer) = (node.steps[step].target, json::RowWriter::new());
        let mut near = 0;
        let ran = reading.with_operation(|operation, keys| {
            let mut sink = |row: &[ValueRef<'_>]| {
                *count += 1;
                if *count > ROWS_MAX {
                    return ControlFlow::Break(());
                }
                let Some(key) = keys.find_near(row[target], near) else {
                    return ControlFlow::Continue(());
                };
                near = key;
                let found = if is_last {
                    let found = rows.add(|json| writer.write(json, node.target(), node.shown, row));
                    for (&child, &local) in node.children.iter().zip(&locals) {
                        rows.add_local(&mut keys_of[child], row[local]);
                    }
                    if !order.is_empty() {
                        orders.push(order.iter().map(|&field| row[field].to_value()).collect());
                    }
                    Some(found)
                } else {
                    next.add(row[node.steps[step + 1].local])
                };
                if let Some(found) = found {
                    steps[step].push(key, found);
                }
                ControlFlow::Continue(())
            };
            execute(operation, &mut sink)
        });
        let done = match ran {
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
            related.reading = None;
            related.step += 1;
            if is_last {
                related.sort(node);
            }
        }
        Ok(done && is_last)
    }
}

/// Returns whether the rows have to be sorted here: several operations read them, and a row can be
/// related to one by several values.
fn is_sorted_here(node: &Node, reading: &RelatedRead) -> bool {
    node.steps.len() > 1 && !reading.is_one_operation()
}

/// Returns the read of a step with these keys.
fn read_of(node: &Node, step: usize, keys: ValueNumbers) -> RelatedRead {
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
    /// Sorts the rows whose order was kept.
    fn sort(&mut self, node: &Node) {
        if self.order.is_empty() {
            return;
        }
        let (table, order) = (node.target(), node.query.order_with_key(node.target()));
        let mut sorted: Vec<usize> = (0..self.rows.len()).collect();
        sorted.sort_by(|&a, &b| {
            for (by, (a, b)) in order.iter().zip(self.order[a].iter().zip(&self.order[b])) {
                let collation = table.fields()[by.field].kind.collation();
                let order = collation.order(a.as_ref(), b.as_ref());
                if order.is_ne() {
                    return if by.descending { order.reverse() } else { order };
                }
            }
            std::cmp::Ordering::Equal
        });
        let mut places = vec![0; sorted.len()];
        for (place, row) in sorted.into_iter().enumerate() {
            places[row] = place;
        }
        self.places = Some(places);
        self.order = Vec::new();
    }
}
