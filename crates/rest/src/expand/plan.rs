//! The relations of a request: items resolved to steps between tables, with checked options.

use std::sync::Arc;

use marmota_model::{FieldSet, RelationStep, RowQuery, Table, json};
use marmota_store::rights::is_internal;
use marmota_web::{ApiError, ApiResult};

use super::limits::{LIMIT_DEFAULT, RELATIONS_MAX, refused};
use super::parse::Item;
use crate::request::params;
use crate::request::request_context::RequestContext;

/// A relation to expand.
#[derive(Debug)]
pub(super) struct Node {
    /// The relation, as in the request.
    pub(super) name: String,
    /// The name of the member of the answer as JSON, with its colon.
    pub(super) member: Vec<u8>,
    /// The place in the request, for errors.
    pub(super) place: String,
    pub(super) steps: Vec<RelationStep>,
    /// The table of each step.
    pub(super) tables: Vec<Arc<Table>>,
    /// The fields in the answer.
    pub(super) shown: FieldSet,
    /// The query of the last step, without its keys.
    pub(super) query: RowQuery,
    /// The maximum number of related rows for each row.
    pub(super) limit: u64,
    pub(super) to_one: bool,
    pub(super) children: Vec<usize>,
}

impl Node {
    /// Returns the table of the related rows.
    pub(super) fn target(&self) -> &Arc<Table> {
        &self.tables[self.tables.len() - 1]
    }

    /// Returns the field of the last step in the table of the related rows.
    pub(super) fn by(&self) -> usize {
        self.steps[self.steps.len() - 1].target
    }
}

/// The relations of a request. Those within a relation come after it.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) nodes: Vec<Node>,
    /// The relations of the rows of the request.
    pub(super) children: Vec<usize>,
}

impl Plan {
    /// Resolves items.
    ///
    /// # Errors
    /// 400 with the place of the invalid item.
    pub(super) fn new(context: RequestContext<'_>, items: Vec<Item<'_>>) -> ApiResult<Self> {
        let mut plan = Self::default();
        check_member(context.table(), "")?;
        plan.children = plan.add(context, context.table(), None, items)?;
        for at in 0..plan.nodes.len() {
            let locals = plan.locals(&plan.nodes[at].children);
            let node = &mut plan.nodes[at];
            let order = node.query.order_with_key(node.target());
            let sorted = order.iter().map(|by| by.field);
            let needed = sorted.chain(locals).chain([node.by()]);
            node.query.fields = Some(needed.fold(node.shown, FieldSet::with));
        }
        Ok(plan)
    }

    /// Returns the fields by which rows find those of these relations.
    pub(super) fn locals(&self, children: &[usize]) -> Vec<usize> {
        children.iter().map(|&child| self.nodes[child].steps[0].local).collect()
    }

    fn add(
        &mut self,
        context: RequestContext<'_>,
        table: &Table,
        parent: Option<usize>,
        items: Vec<Item<'_>>,
    ) -> ApiResult<Vec<usize>> {
        let mut added: Vec<usize> = Vec::new();
        for mut item in items {
            if added.iter().any(|&other| self.nodes[other].name == item.relation) {
                let message = "the relation occurs twice".to_owned();
                return Err(refused(&item.place, "twice", message));
            }
            if self.nodes.len() == RELATIONS_MAX {
                let message = format!("a request expands at most {RELATIONS_MAX} relations");
                return Err(refused(&item.place, "range", message));
            }
            let inner = std::mem::take(&mut item.expand);
            let node = node(context, table, &item)?;
            if let Some(parent) = parent {
                check_cycle(&self.nodes[parent], table, &node)?;
            }
            let target = Arc::clone(node.target());
            if !inner.is_empty() {
                check_member(&target, &item.place)?;
            }
            let at = self.nodes.len();
            self.nodes.push(node);
            added.push(at);
            self.nodes[at].children = self.add(context, &target, Some(at), inner)?;
        }
        Ok(added)
    }
}

/// Resolves an item to its relation, and parses its options.
fn node(context: RequestContext<'_>, table: &Table, item: &Item<'_>) -> ApiResult<Node> {
    let place = &item.place;
    let invalid = |error: marmota_model::Error| {
        let why = error.violations().first().map(|one| format!("`{}` {}", one.field, one.message));
        refused(place, "invalid", why.unwrap_or_else(|| error.message().to_owned()))
    };
    let of_option = |error: ApiError| {
        let (rule, why) = match error.error().violations().first() {
            Some(one) => (one.rule.clone(), format!("`{}` {}", one.field, one.message)),
            None => ("invalid".to_owned(), error.error().message().to_owned()),
        };
        refused(place, &rule, why)
    };
    let relation = table
        .relation(item.relation)
        .map_err(|error| refused(place, "unknown", error.message().to_owned()))?;
    let mut tables = Vec::with_capacity(relation.steps.len());
    for step in &relation.steps {
        let found = context.store.registry().table(&step.table).map_err(invalid)?;
        if is_internal(found) {
            let message = format!("the relation leads through `{}`, which is internal", step.table);
            return Err(refused(place, "unknown", message));
        }
        tables.push(Arc::clone(context.store.view_of(found)));
    }
    let (target, to_one) = (Arc::clone(&relation.target), relation.to_one());
    if to_one && (item.order.is_some() || item.limit.is_some()) {
        let message = "the relation leads to one row, which has neither `order` nor `limit`";
        return Err(refused(place, "unknown", message.to_owned()));
    }
    let text = |option: &Option<String>| option.as_deref().unwrap_or_default().to_owned();
    let shown = match &item.fields {
        Some(fields) => params::parse_fields(&target, fields).map_err(of_option)?,
        None => target.read_by_default(),
    };
    let mut query = RowQuery::new();
    if item.filter.is_some() {
        let filter = params::of_filter(&target, &text(&item.filter)).map_err(of_option)?;
        filter.check(&target).map_err(invalid)?;
        query.filter = Some(filter);
    }
    if item.order.is_some() {
        query.order = params::of_order(&target, &text(&item.order)).map_err(invalid)?;
    }
    let limit = match &item.limit {
        Some(limit) => params::of_limit(limit, context.api.page_rows_max).map_err(of_option)?,
        None => LIMIT_DEFAULT.min(context.api.page_rows_max),
    };
    if limit == 0 {
        let message =
            format!("`limit` must be an integer between 1 and {}", context.api.page_rows_max);
        return Err(refused(place, "range", message));
    }
    let mut member = Vec::new();
    json::write_string(&mut member, item.relation);
    member.push(b':');
    Ok(Node {
        name: item.relation.to_owned(),
        member,
        place: place.clone(),
        steps: relation.steps,
        tables,
        shown,
        query,
        limit,
        to_one,
        children: Vec::new(),
    })
}

/// Refuses a relation that leads back to the rows where the one around it began.
fn check_cycle(around: &Node, table: &Table, inner: &Node) -> ApiResult<()> {
    let ([outer], [back]) = (&around.steps[..], &inner.steps[..]) else { return Ok(()) };
    let is_back =
        outer.table == table.name() && outer.local == back.target && outer.target == back.local;
    if is_back && back.to_one {
        let message = format!(
            "leads back to the rows of `{}` that contain it; leave it out",
            inner.target().name()
        );
        return Err(refused(&inner.place, "cycle", message));
    }
    Ok(())
}

/// Refuses a table whose rows have a member `expand` of their own.
fn check_member(table: &Table, place: &str) -> ApiResult<()> {
    if table.find("expand").is_none() {
        return Ok(());
    }
    let message = format!(
        "rows of `{}` have a field `expand`, so they cannot contain related rows",
        table.name()
    );
    Err(refused(place, "unknown", message))
}
