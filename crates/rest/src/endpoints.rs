//! The endpoint of each route: finds the store for the caller, and calls the verb.

use std::sync::Arc;

use marmota_http::{Compression, Endpoint, Flow, Method, Request, ResponseWriter, Status};
#[cfg(feature = "auth")]
use marmota_http::{IntoResponse, Response};
use marmota_model::{Error, ErrorKind, Table};
use marmota_store::Store;
use marmota_store::registry::Registry;
use marmota_web::{ApiError, ApiResult, OpenApi};

use crate::batches::batch::BatchCall;
use crate::batches::batch_lines;
use crate::batches::insert_lines;
use crate::batches::row_lines::RowLines;
use crate::documents::schema_document;
use crate::protocol::ndjson;
use crate::request::accept::{self, Offer};
use crate::request::admission::{CallerStore, admit};
use crate::request::answer::{Out, refuse};
use crate::request::call::{Verb, execute_verb};
use crate::request::request_context::RequestContext;
use crate::request::state::{ApiSource, ApiState, Found};
use crate::rows::blob::BlobGet;
use crate::rows::history;
use crate::rows::list::List;
use crate::rows::once::{Once, Shape};

/// A request, and the store with the rights of its caller.
#[derive(Clone, Copy)]
struct Call<'c> {
    api: &'c Arc<ApiState>,
    store: &'c Store,
    request: &'c Request,
}

impl<'c> Call<'c> {
    const fn context<S>(self, subject: &'c Arc<S>) -> RequestContext<'c, S> {
        let Self { api, store, request } = self;
        RequestContext { api, store, request, subject }
    }
}
/// Creates the endpoints of an API.
pub(crate) struct Endpoints {
    pub(crate) source: ApiSource,
    pub(crate) body_bytes_max: Option<usize>,
    pub(crate) lines_bytes_max: u64,
    pub(crate) compression: bool,
}

impl Endpoints {
    fn endpoint(
        &self,
        offer: Offer,
        handler: impl Fn(Call<'_>, &mut Out<'_, '_>) -> Flow + Send + Sync + 'static,
    ) -> Endpoint {
        let handler = Arc::new(handler);
        let answer = move |api: &Arc<ApiState>, request: &Request, out: &mut Out<'_, '_>| {
            if let Err(error) = accept::check(request, offer) {
                return refused(error, out);
            }
            if let Some(CallerStore(store)) = request.extension() {
                return handler(Call { api, store, request }, out);
            }
            match api.store_for(request) {
                Ok(Found::Now(store)) => handler(Call { api, store: &store, request }, out),
                #[cfg(feature = "auth")]
                Ok(Found::Later(finding)) => later(&handler, api, request, finding),
                Err(error) => refused(error, out),
            }
        };
        let source = self.source.clone();
        let endpoint = Endpoint::direct(move |request: &Request, out: &mut ResponseWriter<'_>| {
            let out = &mut Out::Direct(out);
            match source.state(request) {
                Ok(api) => answer(&api, request, out),
                Err(error) => refused(error, out),
            }
        });
        let source = self.source.clone();
        let endpoint = endpoint.before_body(move |request| admit(&source, request));
        let endpoint = match self.compression {
            true => endpoint.layer(Compression::new()),
            false => endpoint,
        };
        match self.body_bytes_max {
            Some(bytes) => endpoint.body_bytes_max(bytes),
            None => endpoint,
        }
    }

    /// A verb on the table named in the path.
    pub(crate) fn table<V: Verb<Subject = Table>>(
        &self,
        make: fn(RequestContext<'_>) -> ApiResult<V>,
    ) -> Endpoint {
        self.endpoint(Offer::Json, move |call, out| {
            with_table(call, out, |context, out| match make(context) {
                Ok(verb) => execute_verb(verb, context, out),
                Err(error) => refused(error, out),
            })
        })
    }

    /// The blob of a row, or the history of a row without a field of that name.
    pub(crate) fn part(&self) -> Endpoint {
        self.endpoint(Offer::Any, |call, out| {
            with_table(call, out, |context, out| {
                if history::is_asked_for(context) {
                    if let Err(error) = accept::check(context.request, Offer::Json) {
                        return refused(error, out);
                    }
                    return match history::list(context) {
                        Ok((list, table)) => {
                            execute_verb(list, RequestContext { subject: table, ..context }, out)
                        }
                        Err(error) => refused(error, out),
                    };
                }
                match BlobGet::of(context) {
                    Ok(verb) => execute_verb(verb, context, out),
                    Err(error) => refused(error, out),
                }
            })
        })
    }

    /// A page of rows or, if requested, all rows as lines.
    pub(crate) fn list(&self) -> Endpoint {
        self.endpoint(Offer::JsonOrLines, |call, out| {
            with_table(call, out, |context, out| {
                if accept::prefers_lines(context.request) {
                    return match RowLines::new(context) {
                        Ok(lines) => lines.answer(),
                        Err(error) => refused(error, out),
                    };
                }
                match List::of(context) {
                    Ok(verb) => execute_verb(verb, context, out),
                    Err(error) => refused(error, out),
                }
            })
        })
    }

    /// An insert of one row or, if the body is an array or lines, of many.
    pub(crate) fn insert(&self) -> Endpoint {
        let endpoint = self.endpoint(Offer::Json, |call, out| {
            with_table(call, out, |context, out| {
                if ndjson::is_sent(context.request) {
                    return insert_lines::begin(context)
                        .unwrap_or_else(|error| refused(error, out));
                }
                let many = context.request.body().trim_ascii_start().starts_with(b"[");
                if context.request.header("idempotency-key").is_some() {
                    let shape = if many { Shape::Rows } else { Shape::Row };
                    return insert_once(context, shape, out);
                }
                if many {
                    match crate::rows::insert_many::InsertMany::of(context) {
                        Ok(verb) => execute_verb(verb, context, out),
                        Err(error) => refused(error, out),
                    }
                } else {
                    match crate::rows::insert::Insert::of(context) {
                        Ok(verb) => execute_verb(verb, context, out),
                        Err(error) => refused(error, out),
                    }
                }
            })
        });
        endpoint.streamed_when(self.lines_bytes_max, ndjson::is_sent)
    }

    pub(crate) fn batch(&self) -> Endpoint {
        let endpoint = self.endpoint(Offer::JsonOrLines, |call, out| {
            let context: RequestContext<'_, Registry> = call.context(call.store.registry());
            if ndjson::is_sent(context.request) {
                return batch_lines::begin(context).unwrap_or_else(|error| refused(error, out));
            }
            match BatchCall::of(context) {
                Ok(verb) => execute_verb(verb, context, out),
                Err(error) => refused(error, out),
            }
        });
        endpoint.streamed_when(self.lines_bytes_max, ndjson::is_sent)
    }

    pub(crate) fn open_api(&self, additions: OpenApi) -> Endpoint {
        self.endpoint(Offer::Json, move |call, out| {
            schema_document::open_api(call.store, &additions, call.request, out);
            Flow::Done
        })
    }

    pub(crate) fn document(&self) -> Endpoint {
        self.endpoint(Offer::Json, |call, out| {
            schema_document::answer(call.store, call.request, out);
            Flow::Done
        })
    }

    /// OPTIONS, and methods that a resource does not support.
    pub(crate) fn others(allow: &'static str) -> Endpoint {
        Endpoint::direct(move |request: &Request, out: &mut ResponseWriter<'_>| {
            if request.method() == Method::Options {
                out.status(Status::NO_CONTENT);
                // A constant is always a valid header.
                let _ = out.header("Allow", allow);
                return Flow::Done;
            }
            refused(ApiError::method_not_allowed(allow), &mut Out::Direct(out))
        })
    }

    pub(crate) fn unknown() -> Endpoint {
        Endpoint::direct(|request: &Request, out: &mut ResponseWriter<'_>| {
            let path = marmota_model::text::excerpt(request.path());
            let message = format!(
                "{path} is not a resource; the resources are TABLE, TABLE/KEY for a row, and \
                 TABLE/KEY/FIELD for a blob, without a slash at the end"
            );
            refused(Error::new(ErrorKind::NotFound, message).into(), &mut Out::Direct(out))
        })
    }
}

/// Handles a request whose caller must be read from the store first.
#[cfg(feature = "auth")]
#[cold]
fn later<H>(
    handler: &Arc<H>,
    api: &Arc<ApiState>,
    request: &Request,
    finding: crate::request::authenticator::StoreForCaller,
) -> Flow
where
    H: Fn(Call<'_>, &mut Out<'_, '_>) -> Flow + Send + Sync + 'static,
{
    let (handler, api, request) = (Arc::clone(handler), Arc::clone(api), request.clone());
    Flow::Later(Box::pin(async move {
        let store = match finding.await {
            Ok(store) => store,
            Err(error) => return error.into_response(),
        };
        let mut kept = None;
        let call = Call { api: &api, store: &store, request: &request };
        match handler(call, &mut Out::Kept(&mut kept)) {
            Flow::Later(answer) => answer.await,
            Flow::Done => {
                kept.unwrap_or_else(|| Response::from_status(Status::INTERNAL_SERVER_ERROR))
            }
        }
    }))
}

/// Executes an idempotent insert.
fn insert_once(context: RequestContext<'_>, shape: Shape, out: &mut Out<'_, '_>) -> Flow {
    let call = Once::of(context.request, shape)
        .and_then(|once| once.map(|once| BatchCall::of_rows(context, once)).transpose());
    let context = RequestContext {
        subject: context.store.registry(),
        api: context.api,
        store: context.store,
        request: context.request,
    };
    match call {
        Ok(Some(call)) => execute_verb(call, context, out),
        Ok(None) => refused(ApiError::bad_request("`Idempotency-Key` is empty"), out),
        Err(error) => refused(error, out),
    }
}

fn refused(error: ApiError, out: &mut Out<'_, '_>) -> Flow {
    refuse(error, out);
    Flow::Done
}

fn with_table(
    call: Call<'_>,
    out: &mut Out<'_, '_>,
    handle: impl FnOnce(RequestContext<'_>, &mut Out<'_, '_>) -> Flow,
) -> Flow {
    let name = call.request.param("table").unwrap_or_default();
    match call.store.exposed_table(&name) {
        Ok(table) => handle(call.context(table), out),
        Err(error) => refused(error.into(), out),
    }
}
