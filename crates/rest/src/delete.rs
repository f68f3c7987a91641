//! `DELETE /api/{table}/{id}` and `DELETE /api/{table}?filter=…`.

use marmota_http::Status;
use marmota_model::{FilterExpr, NoRows, Table, Value};
use marmota_store::operation::Operation;

use crate::answer::{Answer, Head, JSON};
use crate::call::{Interrupt, Next, Run, Verb};
use crate::etag::{self, Condition};
use crate::key;
use crate::params;
use crate::problem::Result;
use crate::request_context::RequestContext;

pub(crate) struct Delete {
    key: Value,
    condition: Condition,
}

impl Delete {
    pub(crate) fn of(on: RequestContext<'_>) -> Result<Self> {
        params::none(on.request)?;
        let key = key::of_path(on.request, on.table())?;
        Ok(Self { key, condition: etag::condition(on.request, on.table())? })
    }
}

impl Verb for Delete {
    type Subject = Table;

    fn step(
        &mut self,
        on: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        run: &mut Run<'_>,
    ) -> Result<Next, Interrupt> {
        let (key, version) = (self.key.as_ref(), self.condition.version);
        run(&mut Operation::Delete { table: on.table(), key, version }, &mut NoRows)?;
        answer.empty(Head::new(Status::NO_CONTENT, ""));
        Ok(Next::Answered)
    }
}

pub(crate) struct DeleteWhere {
    filter: FilterExpr,
}

impl DeleteWhere {
    pub(crate) fn of(on: RequestContext<'_>) -> Result<Self> {
        Ok(Self { filter: params::required_filter(on.request, on.table())? })
    }
}

impl Verb for DeleteWhere {
    type Subject = Table;

    fn step(
        &mut self,
        on: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        run: &mut Run<'_>,
    ) -> Result<Next, Interrupt> {
        let filter = Some(&self.filter);
        let outcome = run(&mut Operation::DeleteWhere { table: on.table(), filter }, &mut NoRows)?;
        let out = answer.body(Head::new(Status::OK, JSON));
        out.extend_from_slice(format!("{{\"deleted\":{}}}", outcome.rows).as_bytes());
        Ok(Next::Answered)
    }
}
