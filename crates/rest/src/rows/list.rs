//! `GET /api/{table}`: a page of rows.
//!
//! The page is written into a thread-local buffer, and copied once after the head: the `Link`
//! header precedes the rows, but its content is known only after them.
//!
//! ```text
//! GET /api/person?order=-name&limit=1&fields=name&count=true
//!
//! HTTP/1.1 200 OK
//! Link: </api/person?order=-name&limit=1&fields=name&count=true&after=WyJB…>; rel="next"
//! Content-Type: application/json
//!
//! {"rows":[{"name":"Emmy Noether"}],"next":"/api/person?order=-name&…&after=WyJB…","count":2}
//! ```
//!
//! The parameters are those of [`params::list`]. `next` is the URL of the next page or null; `Link`
//! (RFC 8288) has the same URL. A page continues after the last row of the previous one (keyset
//! pagination), so inserts and deletes between two requests do not shift it.
//!
//! If the store has a cache, a page has an `ETag`, and a client that sends it in `If-None-Match`
//! gets 304 while the table is unchanged. A page that [`crate::request::pages`] has kept is written
//! without the store. Otherwise the steps are: count the rows if the client requests it, then read
//! the rows, one more than the page has.
//!
//! If the rows are counted, their number is in `Marmota-Count`, too; HEAD always counts them. With
//! `limit=0&count=true` only the count is read. `Prefer: count=estimated`
//! counts by the statistics of the database, if it has them; `Preference-Applied` names how the
//! rows were counted.
//!
//! In the order `rank`, the page has the scores of its rows, and with `snippet` extracts of fields
//! ([`crate::request::ranked`]).
//!
//! With `Accept: application/json; profile=columns` the names of the fields come once, and each row
//! is an array of values. Such a page has no `ETag`, and no related rows.
//!
//! The history of a row ([`crate::rows::history`]) is a list, too, of a table with a fixed filter.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_http::{Method, Status};
use marmota_model::{FilterExpr, NoRows, RelatedField, RowQuery, SortKey, Table, ValueRef, json};
use marmota_store::operation::Operation;
use marmota_web::ApiResult;

use crate::expand::read::Expansion;
use crate::protocol::cursor;
use crate::protocol::etag::{self, Etag};
use crate::protocol::scratch_buffer::ScratchBuffer;
use crate::request::accept;
use crate::request::answer::{Answer, Head, JSON, JSON_COLUMNS};
use crate::request::call::{Execute, Interrupt, Next, Verb};
use crate::request::pages::{Page, PageName};
use crate::request::params::{self, CountKind, ListParams};
use crate::request::ranked::Computed;
use crate::request::request_context::RequestContext;
use crate::rows::page_document;

/// The answer to a list request, as far as it is known from its head.
pub(crate) enum List {
    /// The page is known: it is cached, or the client has it (`page` is `None`, and the answer is
    /// 304).
    Identity { etag: Etag, page: Option<Arc<Page>> },
    /// The page must be read.
    Read(Box<Reading>),
}

/// A page that is being read. It is filled by the sink of the operation, row by row, and is kept
/// between the steps of a request that has to wait.
pub(crate) struct Reading {
    /// The name for caching it, if it can be cached.
    ///
    /// A store without a cache has no names: its pages are neither kept nor tagged.
    name: Option<PageName>,
    /// The parameters; the limit of their query is one row more than that of the page.
    params: ListParams,
    /// The order with the key as its last part, so that each row has one place.
    order: Vec<SortKey>,
    /// The fields of related rows in the order, for cursors: the sink does not see the query.
    related: Vec<RelatedField>,
    /// The total number of rows, once they are counted.
    ///
    /// It is kept between the steps.
    count: Option<u64>,
    /// True if the rows are counted: for the body, or for HEAD.
    counts: bool,
    /// The preference `count` of the request.
    preferred: Option<CountKind>,
    writer: json::RowWriter,
    /// True if each row is an array of values, after the names of the columns.
    in_columns: bool,
    /// The body so far.
    body: ScratchBuffer,
    /// The number of rows in the body.
    ///
    /// It is compared with the limit of the page, not with that of the query.
    rows: u64,
    /// The cursor of the page's last row. It is written when that row is read, since rows are
    /// borrowed.
    next: Option<String>,
    /// The scores and extracts of the rows so far, if the page has them.
    computed: Option<Box<Computed>>,
    /// The relations of `expand`, and their rows. The rows of the page are in it instead of the
    /// body.
    expansion: Option<Box<Expansion>>,
    /// True once the rows of the page are read.
    is_read: bool,
    /// True if a row follows the page.
    ///
    /// If the page is full and this is false, the page is the last one.
    more: bool,
}

impl List {
    /// Returns the list of the requested page.
    ///
    /// # Errors
    /// 400 for an invalid parameter, with its name, its value and the permitted values.
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        Self::among(context, None)
    }

    /// Returns a list of the rows that `only` selects, in addition to the filter of the request.
    ///
    /// A page that is known is answered before the parameters are parsed: its name contains the
    /// request's target, so that the parameters were valid when it was kept.
    ///
    /// # Errors
    /// As [`List::of`].
    pub(crate) fn among(context: RequestContext<'_>, only: Option<FilterExpr>) -> ApiResult<Self> {
        let pages = &context.api.pages;
        let preferred = params::preferred_count(context.request)?;
        // The name of a page consists of its URL, which has neither the preferences nor the form.
        let name = match preferred {
            _ if accept::prefers_columns(context.request) => None,
            None => pages.name(context.store, context.table(), context.request),
            Some(_) => None,
        };
        if let Some(name) = name {
            if etag::none_match(context.request, name.etag) {
                return Ok(Self::Identity { etag: name.etag, page: None });
            }
            // A cached page does not have the number of rows, which HEAD returns.
            if context.request.method() != Method::Head
                && let Some(page) = pages.get(name, context.request)
            {
                return Ok(Self::Identity { etag: name.etag, page: Some(page) });
            }
        }
        Ok(Self::Read(Box::new(Reading::new(context, name, preferred, only)?)))
    }
}

impl Reading {
    /// Parses the parameters and begins the body.
    fn new(
        context: RequestContext<'_>,
        name: Option<PageName>,
        preferred: Option<CountKind>,
        only: Option<FilterExpr>,
    ) -> ApiResult<Self> {
        let mut params = params::list(context.request.query(), context.table(), context.api)?;
        let name = name.and_then(|name| name.filtered_by(params.query.filter.as_ref()));
        if let Some(only) = only {
            params.query.filter = Some(match params.query.filter.take() {
                Some(filter) => only.and(filter),
                None => only,
            });
        }
        params.count |= preferred.is_some();
        let counts = params.count || context.request.method() == Method::Head;
        let expansion =
            params.expand.take().map(|text| Expansion::of(context, &text)).transpose()?;
        let in_columns = accept::prefers_columns(context.request);
        if expansion.is_some() {
            accept::refuse_columns(context.request, "`expand`")?;
        }
        if let (Some(expansion), Some(fields)) = (&expansion, &mut params.query.fields) {
            *fields = fields.union(expansion.fields());
        }
        // The version of a table does not cover the related rows.
        let name = name.filter(|_| expansion.is_none() && params.query.related.is_empty());
        // One row more shows whether there is a next page.
        params.query.limit = Some(params.rows_max + 1);
        let order = params.query.order_with_key(context.table());
        let related = params.query.related.clone();
        let has_computed = params.ranked.is_some() || params.snippets.is_some();
        let new = || Box::new(Computed::new(context.table(), params.ranked.as_ref()));
        let computed = has_computed.then(new);
        let mut body = ScratchBuffer::take();
        match in_columns {
            true => page_document::begin_columns(&mut body, context.table(), params.shown),
            false => body.extend_from_slice(page_document::BEGIN),
        }
        let writer = json::RowWriter::new();
        Ok(Self {
            name,
            params,
            order,
            related,
            count: None,
            counts,
            preferred,
            writer,
            in_columns,
            body,
            rows: 0,
            next: None,
            computed,
            expansion: expansion.map(Box::new),
            is_read: false,
            more: false,
        })
    }

    /// Appends a row to the page, or ends the list at the row after the page.
    ///
    /// The engine stops reading when this returns `Break`. The row after the page is not written:
    /// its existence is enough to know that another page follows.
    fn take_row(&mut self, table: &Table, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        if self.rows == self.params.rows_max {
            self.more = true;
            return ControlFlow::Break(());
        }
        self.rows += 1;
        let place = match &mut self.computed {
            Some(computed) => computed.add(table, self.params.snippets.as_ref(), row),
            None => None,
        };
        if let Some(expansion) = &mut self.expansion {
            expansion.add(row, |json| self.writer.write(json, table, self.params.shown, row));
        } else {
            if self.rows > 1 {
                self.body.push(b',');
            }
            match self.in_columns {
                true => json::write_values(&mut self.body, table, self.params.shown, row),
                false => self.writer.write(&mut self.body, table, self.params.shown, row),
            }
        }
        if self.rows == self.params.rows_max {
            self.next = Some(match (&place, &self.params.ranked) {
                (Some(place), Some(order)) => cursor::write_place(table, &order.by, place),
                _ => cursor::write(table, &self.order, &self.related, row),
            });
        }
        ControlFlow::Continue(())
    }

    /// Completes the body and responds with 200. The page is kept for later requests if it has a
    /// name and its table was not written to since the name was created; only then it has an
    /// `ETag`.
    ///
    /// The body has the members `rows`, `next` and, if requested, `count`. `next` is set only if a
    /// row was found after the page, so that the last page never leads to an empty one.
    ///
    /// The tag is computed before the rows are read and verified after them: a page that was read
    /// during a write must not be found under the tag of the old or of the new version.
    fn end(&mut self, context: RequestContext<'_>, answer: &mut Answer<'_, '_>) {
        let next = match (self.more, &self.next) {
            (true, Some(cursor)) => {
                let (path, query) = (context.request.path(), context.request.query());
                Some(page_document::next_url(path, query, cursor))
            }
            _ => None,
        };
        let count = self.count.filter(|_| self.params.count);
        let has_snippets = self.params.snippets.is_some();
        let computed = self.computed.take();
        let members = computed.map_or(Vec::new(), |computed| computed.members(has_snippets));
        page_document::write_end(&mut self.body, next.as_deref(), count, &members);
        let link = next.map(|url| format!("<{url}>; rel=\"next\""));
        let source = (context.store, context.table());
        // A page that was read during a write may match neither version, so it gets no tag.
        let name = self.name.filter(|&name| {
            context.api.pages.keep(name, source, context.request, link.as_deref(), &self.body)
        });
        let media_type = if self.in_columns { JSON_COLUMNS } else { JSON };
        let mut head = Head::new(Status::OK, media_type).etag(name.map(|name| name.etag)).list();
        head.link = link;
        self.count_in(context, &mut head);
        answer.whole(head, &mut self.body);
    }

    /// Adds the number of rows to a head, and how it was counted.
    fn count_in(&self, context: RequestContext<'_>, head: &mut Head) {
        head.count = self.count;
        head.counted = self.preferred.map(|_| match self.estimates(context) {
            true => "count=estimated",
            false => "count=exact",
        });
    }

    /// Returns true if the number of rows is an estimate.
    fn estimates(&self, context: RequestContext<'_>) -> bool {
        self.preferred == Some(CountKind::Estimated) && context.store.capability().estimates
    }

    /// Executes the next operation: the count, if requested and unknown, or the list.
    ///
    /// The count has the filter of the list, but not its cursor: it is the number of rows in all
    /// pages at the time of this request. It is not in the same transaction as the page.
    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let table = context.table();
        if self.counts && self.count.is_none() {
            let filter = self.params.query.filter.as_ref();
            let mut operation = match self.estimates(context) {
                true => Operation::Estimate { table, filter },
                false => Operation::Count { table, filter },
            };
            self.count = Some(execute(&mut operation, &mut NoRows)?.rows);
            return Ok(Next::Step);
        }
        if self.params.rows_max == 0 {
            self.end(context, answer);
            return Ok(Next::Answered);
        }
        if !self.is_read {
            // The sink modifies all parameters except the query.
            let query: RowQuery = std::mem::take(&mut self.params.query);
            let ranked = self.params.ranked.clone();
            let mut sink = |row: &[ValueRef<'_>]| self.take_row(table, row);
            let ran = match ranked {
                Some(ranked) => {
                    let query = &ranked.query(&query);
                    execute(&mut Operation::ListRanked { table, query }, &mut sink)
                }
                None => execute(&mut Operation::List { table, query: &query }, &mut sink),
            };
            self.params.query = query;
            ran?;
            self.is_read = true;
        }
        if let Some(expansion) = &mut self.expansion {
            if !expansion.step(execute)? {
                return Ok(Next::Step);
            }
            expansion.write(&mut self.body)?;
        }
        self.end(context, answer);
        Ok(Next::Answered)
    }
}

impl Verb for List {
    type Subject = Table;

    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        match self {
            Self::Read(reading) => return reading.step(context, answer, execute),
            Self::Identity { etag, page: None } => {
                answer.empty(Head::new(Status::NOT_MODIFIED, "").etag(Some(*etag)).list());
            }
            Self::Identity { etag, page: Some(page) } => {
                let mut head = Head::new(Status::OK, JSON).etag(Some(*etag)).list();
                head.link.clone_from(&page.link);
                answer.body(head).extend_from_slice(&page.body);
            }
        }
        Ok(Next::Answered)
    }
}
