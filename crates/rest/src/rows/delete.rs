//! `DELETE /api/{table}/{id}` and `DELETE /api/{table}?filter=…`.

use marmota_http::Status;
use marmota_model::{FilterExpr, NoRows, Table, Value};
use marmota_store::operation::Operation;
use marmota_web::ApiResult;

use crate::protocol::etag::{self, Condition};
use crate::protocol::key;
use crate::request::answer::{Answer, Head, JSON};
use crate::request::call::{Execute, Interrupt, Next, Verb};
use crate::request::params;
use crate::request::request_context::RequestContext;

pub(crate) struct Delete {
    key: Value,
    condition: Condition,
}

impl Delete {
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        params::none(context.request)?;
        let key = key::of_path(context.request, context.table())?;
        Ok(Self { key, condition: etag::condition(context.request, context.table())? })
    }
}

impl Verb for Delete {
    type Subject = Table;

    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let (key, version) = (self.key.as_ref(), self.condition.version);
        execute(&mut Operation::Delete { table: context.table(), key, version }, &mut NoRows)?;
        answer.empty(Head::new(Status::NO_CONTENT, ""));
        Ok(Next::Answered)
    }
}

pub(crate) struct DeleteWhere {
    filter: FilterExpr,
}

impl DeleteWhere {
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        Ok(Self { filter: params::required_filter(context.request, context.table())? })
    }
}

impl Verb for DeleteWhere {
    type Subject = Table;

    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let filter = Some(&self.filter);
        let outcome =
            execute(&mut Operation::DeleteWhere { table: context.table(), filter }, &mut NoRows)?;
        let out = answer.body(Head::new(Status::OK, JSON));
        out.extend_from_slice(format!("{{\"deleted\":{}}}", outcome.rows).as_bytes());
        Ok(Next::Answered)
    }
}
