//! The endpoint of each route: finds the store for the caller, and calls the verb.
//!
//! ```text
//! request ─► admit ─► body ─► Accept ─► table ─► Verb::of ─► execute_verb ─► response
//!              │                │         │          │
//!              401, 403         406       404        400, 422
//! ```
//!
//! | route | endpoint |
//! |---|---|
//! | `GET /api` | [`Endpoints::document`] |
//! | `GET /api/openapi.json` | [`Endpoints::open_api`] |
//! | `POST /api/batch` | [`Endpoints::batch`] |
//! | `GET /api/{table}` | [`Endpoints::list`] |
//! | `POST /api/{table}` | [`Endpoints::insert`] |
//! | `GET /api/{table}/{id}/{field}` | [`Endpoints::part`] |
//! | one verb on a table or row | [`Endpoints::table`] |
//! | other methods, other paths | [`Endpoints::others`], [`Endpoints::unknown`] |

use std::collections::HashSet;
use std::sync::Arc;

use marmota_http::{
    Compression, Endpoint, Flow, IntoResponse, Method, Request, Response, ResponseWriter, Status,
};
use marmota_model::{Error, ErrorKind, Table};
use marmota_store::Store;
use marmota_store::registry::Registry;
use marmota_web::{ApiError, ApiResult, OpenApi};

use crate::batches::batch::BatchCall;
use crate::batches::batch_lines;
use crate::batches::insert_lines;
use crate::batches::nested::{self, Nested};
use crate::batches::row_lines::RowLines;
use crate::documents::schema_document;
use crate::protocol::ndjson;
use crate::request::accept::{self, ListFormat, Offer};
use crate::request::admission::{CallerStore, admit};
use crate::request::after::After;
use crate::request::answer::{Out, refuse};
use crate::request::call::{Verb, execute_verb};
use crate::request::params;
use crate::request::request_context::RequestContext;
use crate::request::state::{ApiSource, ApiState, Found};
use crate::rows::blob::{BlobGet, BlobPut};
use crate::rows::groups::Groups;
use crate::rows::history;
use crate::rows::list::List;
use crate::rows::live;
use crate::rows::once::{Once, Shape};
use crate::rows::update::Update;

/// A request, and the store with the rights of its caller.
#[derive(Clone, Copy)]
pub(crate) struct Call<'c> {
    /// The settings of the API, and its store without rights.
    api: &'c Arc<ApiState>,
    /// The store with the rights of the caller.
    store: &'c Store,
    /// The request with its complete body, or without it if the body is read as lines.
    request: &'c Request,
}

impl<'c> Call<'c> {
    /// Returns the context of a verb on this subject: a table, or the registry for verbs on several
    /// tables.
    const fn context<S>(self, subject: &'c Arc<S>) -> RequestContext<'c, S> {
        let Self { api, store, request } = self;
        RequestContext { api, store, request, subject }
    }
}
/// Creates the endpoints of an API. All share the limits and the source of the store; each has its
/// handler and the media types that it offers.
pub(crate) struct Endpoints {
    /// The store, or the tenants with theirs.
    pub(crate) source: ApiSource,
    /// The maximum size of a body in bytes; `None` for the limit of the server.
    pub(crate) body_bytes_max: Option<usize>,
    /// The maximum size of an NDJSON body in bytes.
    pub(crate) lines_bytes_max: u64,
    /// True if responses are compressed for clients that accept it.
    pub(crate) compression: bool,
}

impl Endpoints {
    /// Creates an endpoint that passes each request to the handler with the store of its caller.
    ///
    /// The order of the checks decides which error a client gets, and is the same for all routes:
    ///
    /// 1. before the body: the tenant, the caller and the right to the table ([`admit`]);
    /// 2. the size of the body;
    /// 3. `Accept`, so that no write is executed whose answer would be unacceptable;
    /// 4. the handler: the table, the parameters, the body.
    ///
    /// A request without a body skips the first step, and its caller is authenticated here. If that
    /// requires a read of the store, the handler is called from a future (`later`), with
    /// [`Out::Kept`] as its destination.
    pub(crate) fn endpoint(
        &self,
        offer: Offer,
        handler: impl Fn(Call<'_>, &mut Out<'_, '_>) -> Flow + Send + Sync + 'static,
    ) -> Endpoint {
        self.endpoint_unless(|_, _| None, offer, handler)
    }

    /// Creates an endpoint like [`Self::endpoint`], but for requests that `other` answers, which
    /// authenticates their caller itself.
    fn endpoint_unless(
        &self,
        other: impl Fn(&Arc<ApiState>, &Request) -> Option<Flow> + Send + Sync + 'static,
        offer: Offer,
        handler: impl Fn(Call<'_>, &mut Out<'_, '_>) -> Flow + Send + Sync + 'static,
    ) -> Endpoint {
        let handler = Arc::new(handler);
        let answer = move |api: &Arc<ApiState>, request: &Request, out: &mut Out<'_, '_>| {
            if let Some(flow) = other(api, request) {
                return flow;
            }
            if let Err(error) = accept::check(request, offer) {
                return refused(error, out);
            }
            if let Some(CallerStore(store)) = request.extension() {
                return in_turn(&handler, Call { api, store, request }, out);
            }
            match api.store_for(request) {
                Ok(Found::Now(store)) => {
                    in_turn(&handler, Call { api, store: &store, request }, out)
                }
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

    /// Returns the endpoint of a verb on the table named in the path, such as
    /// [`Get::of`](crate::get::Get::of).
    ///
    /// `make` creates the verb from the request. Its errors, and 404 for an unknown table, are
    /// answered without an operation.
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

    /// Returns the endpoint of `GET /api/{table}/{id}/{field}`: the blob of a row, or the history
    /// of a row without a field of that name.
    ///
    /// Blobs have any media type, so `Accept` is only checked for a history. Other fields are
    /// answered with 404: they are read with their row.
    pub(crate) fn part(&self) -> Endpoint {
        #[cfg(feature = "files")]
        let other = crate::files::signed_url::read;
        #[cfg(not(feature = "files"))]
        let other = |_: &Arc<ApiState>, _: &Request| None;
        self.endpoint_unless(other, Offer::Any, |call, out| {
            with_table(call, out, |context, out| {
                #[cfg(feature = "files")]
                if crate::files::field::is_named(context) {
                    return crate::files::routes::download(context, out);
                }
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

    /// Returns the endpoint of `PUT /api/{table}/{id}/{field}`: the bytes of a blob, or a file.
    pub(crate) fn put_part(&self) -> Endpoint {
        let endpoint = self.endpoint(Offer::Json, |call, out| {
            with_table(call, out, |context, out| {
                #[cfg(feature = "files")]
                if crate::files::field::is_named(context) {
                    return crate::files::routes::upload(context, out);
                }
                match BlobPut::of(context) {
                    Ok(verb) => execute_verb(verb, context, out),
                    Err(error) => refused(error, out),
                }
            })
        });
        #[cfg(feature = "files")]
        let endpoint = endpoint.streamed_when(u64::MAX, self.names_file());
        endpoint
    }

    /// Returns the endpoint of `DELETE /api/{table}/{id}/{field}`, which only files have.
    #[cfg(feature = "files")]
    pub(crate) fn delete_part(&self) -> Endpoint {
        self.endpoint(Offer::Json, |call, out| {
            with_table(call, out, |context, out| {
                if crate::files::field::is_named(context) {
                    return crate::files::routes::delete(context, out);
                }
                refused(ApiError::method_not_allowed("GET, HEAD, PUT, OPTIONS"), out)
            })
        })
    }

    /// Returns the endpoint of `GET /api/{table}`: a page of rows or, if `Accept` prefers them, all
    /// rows as lines, or a page and its changes as events.
    pub(crate) fn list(&self) -> Endpoint {
        self.endpoint(Offer::List, |call, out| {
            with_table(call, out, |context, out| match accept::list_format(context.request) {
                ListFormat::Page if params::requests_groups(context.request.query()) => {
                    let refused_form = accept::refuse_columns(context.request, "a list of groups");
                    match refused_form.and_then(|()| Groups::of(context)) {
                        Ok(verb) => execute_verb(verb, context, out),
                        Err(error) => refused(error, out),
                    }
                }
                ListFormat::Page => match List::of(context) {
                    Ok(verb) => execute_verb(verb, context, out),
                    Err(error) => refused(error, out),
                },
                ListFormat::Lines => match RowLines::new(context) {
                    Ok(lines) => lines.answer(),
                    Err(error) => refused(error, out),
                },
                ListFormat::Events => {
                    live::events::begin(context).unwrap_or_else(|error| refused(error, out))
                }
            })
        })
    }

    /// Returns the endpoint of `POST /api/{table}`: an insert of one row or, if the body is an
    /// array or lines, of many.
    ///
    /// | body | verb | answer |
    /// |---|---|---|
    /// | an object | `Insert` | 201 with the row |
    /// | an object with related rows | `Nested` | 201 with the keys |
    /// | an array | `InsertMany` | `{"keys":[2,3]}` |
    /// | lines (`Content-Type: application/x-ndjson`) | `insert_lines` | `{"inserted":2}` |
    /// | a form (`multipart/form-data`) | `files::form` | 201 with the row |
    /// | an object or array with `Idempotency-Key` | [`BatchCall`] | as without the key |
    ///
    /// The first character of the body decides between an object and an array; an invalid body is
    /// reported by the parser of that verb. Lines are executed while they arrive, so their limit is
    /// `lines_bytes_max`.
    pub(crate) fn insert(&self) -> Endpoint {
        let endpoint = self.endpoint(Offer::Json, |call, out| {
            with_table(call, out, |context, out| {
                if ndjson::is_sent(context.request) {
                    return insert_lines::begin(context)
                        .unwrap_or_else(|error| refused(error, out));
                }
                #[cfg(feature = "files")]
                if context.api.files.is_some() && crate::files::form::is_sent(context.request) {
                    return crate::files::form::begin(context)
                        .unwrap_or_else(|error| refused(error, out));
                }
                let many = context.request.body().trim_ascii_start().starts_with(b"[");
                if !many && nested::is_sent(context) {
                    return match Nested::insert(context) {
                        Ok(verb) => execute_verb(verb, context, out),
                        Err(error) => refused(error, out),
                    };
                }
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
        #[cfg(feature = "files")]
        let has_files = self.has_files();
        #[cfg(feature = "files")]
        let is_streamed = move |request: &Request| {
            ndjson::is_sent(request) || has_files && crate::files::form::is_sent(request)
        };
        #[cfg(not(feature = "files"))]
        let is_streamed = ndjson::is_sent;
        endpoint.streamed_when(self.lines_bytes_max, is_streamed)
    }

    /// Returns the endpoint of a PATCH: of a row, or of a row with related rows.
    pub(crate) fn patch(&self) -> Endpoint {
        self.endpoint(Offer::Json, |call, out| {
            with_table(call, out, |context, out| match nested::is_sent(context) {
                true => match Nested::patch(context) {
                    Ok(verb) => execute_verb(verb, context, out),
                    Err(error) => refused(error, out),
                },
                false => match Update::patch(context) {
                    Ok(verb) => execute_verb(verb, context, out),
                    Err(error) => refused(error, out),
                },
            })
        })
    }

    /// Returns the endpoint of `POST /api/batch`: a batch in one JSON body, or one operation per
    /// line. Its subject is the registry, because operations name their tables.
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

    /// Returns the endpoint of `GET /api/openapi.json`: the tables that the caller has rights on,
    /// and the additions of the program ([`Api::openapi`](crate::Api::openapi)).
    pub(crate) fn open_api(&self, additions: OpenApi) -> Endpoint {
        self.endpoint(Offer::Json, move |call, out| {
            let rows_max = call.api.page_rows_max;
            schema_document::open_api(call.store, rows_max, &additions, call.request, out);
            Flow::Done
        })
    }

    /// Returns the endpoint of `GET /api`: the tables that the caller has rights on, with their
    /// fields; or, for a client that opens a WebSocket, live queries.
    pub(crate) fn document(&self) -> Endpoint {
        let socket = |api: &Arc<ApiState>, request: &Request| {
            live::socket::is_requested(request).then(|| live::socket::open(api, request))
        };
        let endpoint = self.endpoint_unless(socket, Offer::Json, |call, out| {
            schema_document::answer(call.store, call.request, out);
            Flow::Done
        });
        endpoint.with_runtime()
    }

    /// Returns the endpoint of all other methods of a resource: 204 for OPTIONS, otherwise 405,
    /// both with the methods of the resource (`allow`).
    ///
    /// ```text
    /// PATCH /api/person HTTP/1.1
    ///
    /// HTTP/1.1 405 Method Not Allowed
    /// Allow: GET, HEAD, POST, DELETE, OPTIONS
    /// Content-Type: application/problem+json
    /// ```
    ///
    /// It reads no data and reveals nothing about a table, so callers are not authenticated.
    pub(crate) fn others(allow: &'static str) -> Endpoint {
        Self::others_by(move |_| allow)
    }

    /// Returns whether a request's path names the history of a row.
    pub(crate) fn names_history(&self) -> impl Fn(&Request) -> bool + Send + Sync + 'static {
        let tables: HashSet<String> = match &self.source {
            ApiSource::One(api) => history::tables(api.store.registry()).collect(),
            _ => HashSet::new(),
        };
        move |request| {
            let is_table = |table: &str| tables.contains(table);
            request.param("field").is_some_and(|field| field == history::HISTORY)
                && request.param("table").is_some_and(|table| is_table(&table))
        }
    }

    /// As [`Endpoints::others`], for a path whose methods depend on the request.
    pub(crate) fn others_by(
        allow: impl Fn(&Request) -> &'static str + Send + Sync + 'static,
    ) -> Endpoint {
        Endpoint::direct(move |request: &Request, out: &mut ResponseWriter<'_>| {
            let allow = allow(request);
            if request.method() == Method::Options {
                out.status(Status::NO_CONTENT);
                // A constant is always a valid header.
                let _ = out.header("Allow", allow);
                return Flow::Done;
            }
            refused(ApiError::method_not_allowed(allow), &mut Out::Direct(out))
        })
    }

    /// Returns the endpoint of all other paths of the API: 404 as a problem document, instead of
    /// the answer of the router. A slash at the end of a path is a frequent cause, so the message
    /// mentions it. The path in the message is shortened if it is long.
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

/// Calls a handler, after the position that the request waits for.
fn in_turn<H>(handler: &Arc<H>, call: Call<'_>, out: &mut Out<'_, '_>) -> Flow
where
    H: Fn(Call<'_>, &mut Out<'_, '_>) -> Flow + Send + Sync + 'static,
{
    let after = match After::of(call.request, call.store) {
        Ok(None) => return handler(call, out),
        Ok(Some(after)) => after,
        Err(error) => return refused(error.into(), out),
    };
    let Call { api, request, .. } = call;
    if after.is_reached() {
        return handler(Call { api, store: &after.store, request }, out);
    }
    let (handler, api, request) = (Arc::clone(handler), Arc::clone(api), request.clone());
    Flow::Later(Box::pin(async move {
        if let Err(error) = after.wait().await {
            return ApiError::from(error).into_response();
        }
        handled(&*handler, Call { api: &api, store: &after.store, request: &request }).await
    }))
}

/// Calls a handler from a future, and returns its response.
async fn handled<H>(handler: &H, call: Call<'_>) -> Response
where
    H: Fn(Call<'_>, &mut Out<'_, '_>) -> Flow,
{
    let mut kept = None;
    match handler(call, &mut Out::Kept(&mut kept)) {
        Flow::Later(answer) => answer.await,
        Flow::Done => kept.unwrap_or_else(|| Response::from_status(Status::INTERNAL_SERVER_ERROR)),
    }
}

/// Handles a request whose caller must be read from the store first: the token was not validated a
/// short time ago.
///
/// The handler is the same as for a request that is answered at once. It writes to a slot, since
/// the connection's buffer is not available in a future, and may itself return a future.
#[cfg(feature = "auth")]
#[cold]
fn later<H>(
    handler: &Arc<H>,
    api: &Arc<ApiState>,
    request: &Request,
    finding: marmota_web::StoreForCaller,
) -> Flow
where
    H: Fn(Call<'_>, &mut Out<'_, '_>) -> Flow + Send + Sync + 'static,
{
    let (handler, api, request) = (Arc::clone(handler), Arc::clone(api), request.clone());
    Flow::Later(Box::pin(async move {
        let mut store = match finding.await {
            Ok(store) => store,
            Err(error) => return error.into_response(),
        };
        match After::of(&request, &store) {
            Ok(None) => {}
            Ok(Some(after)) => {
                if let Err(error) = after.wait().await {
                    return ApiError::from(error).into_response();
                }
                store = after.store;
            }
            Err(error) => return ApiError::from(error).into_response(),
        }
        handled(&*handler, Call { api: &api, store: &store, request: &request }).await
    }))
}

/// Executes an idempotent insert, as a batch of one row (`shape`: [`Shape::Row`]) or of the rows of
/// an array.
///
/// An empty `Idempotency-Key` is refused with 400: a client that sends the header relies on it.
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

/// Writes the error as the response, which is then complete: a problem document with the status of
/// the error.
pub(crate) fn refused(error: ApiError, out: &mut Out<'_, '_>) -> Flow {
    refuse(error, out);
    Flow::Done
}

/// Calls a handler with the table named in the path.
///
/// An unknown table and an internal one are answered with 404 alike, a table on which the caller
/// has no rights with 403, or 401 for an anonymous caller. The message of a 404 has the names of
/// the tables that exist for the caller.
pub(crate) fn with_table(
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
