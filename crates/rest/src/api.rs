//! The API as a set of routes, and its limits.

use std::borrow::Cow;
use std::sync::Arc;

use marmota_http::{Endpoint, Flow, Method, Request, ResponseWriter, Router, Status};
use marmota_model::{Error, ErrorKind, Table};
use marmota_store::Store;
use marmota_store::registry::Registry;

use crate::answer::refuse;
use crate::batch::BatchCall;
use crate::blob::{BlobGet, BlobPut};
use crate::call::{On, Verb, carry_out};
use crate::delete::{Delete, DeleteWhere};
use crate::get::Get;
use crate::history;
use crate::increment::Increment;
use crate::insert_lines;
use crate::list::List;
use crate::ndjson;
use crate::once::{Once, Shape};
use crate::pages::Pages;
use crate::problem::{ApiError, Result};
use crate::row_lines::RowLines;
use crate::schema_document;
use crate::update::Update;

/// REST over every table of a store, at `/api`: [`Api`] with its defaults.
///
/// ```no_run
/// # fn serve(store: marmota_store::Store) -> Result<(), Box<dyn std::error::Error>> {
/// use marmota_http::{Request, Response, Router, Server};
///
/// async fn health(_: Request) -> Response {
///     Response::text("fine")
/// }
/// let router = Router::new().get("/healthz", health).nest("", marmota_rest::api(&store));
/// Server::bind("127.0.0.1:8080")?.run(router)?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn api(store: &Store) -> Router {
    Api::new(store).router()
}

/// REST over every table of a store, with settings.
#[derive(Debug)]
#[must_use]
pub struct Api {
    prefix: String,
    body_bytes_max: Option<usize>,
    lines_bytes_max: u64,
    shared: Shared,
}

/// What every request needs.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) pages: Pages,
    pub(crate) page_rows_default: u64,
    pub(crate) page_rows_max: u64,
    pub(crate) batch_operations_max: usize,
    pub(crate) line_bytes_max: usize,
    actor: Option<ActorOf>,
}

/// Finds out who makes a request.
type FindActor = dyn Fn(&Request) -> Option<String> + Send + Sync;

/// Says who makes a request.
struct ActorOf(Box<FindActor>);

impl std::fmt::Debug for ActorOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ActorOf")
    }
}

impl Shared {
    /// The store, on behalf of who makes the request.
    pub(crate) fn store_for(&self, request: &Request) -> Cow<'_, Store> {
        match self.actor.as_ref().and_then(|actor| actor.0(request)) {
            Some(actor) => Cow::Owned(self.store.acting_as(actor)),
            None => Cow::Borrowed(&self.store),
        }
    }
}

impl Api {
    /// The API of a store's tables, those registered later as well.
    pub fn new(store: &Store) -> Self {
        Self {
            prefix: "/api".to_owned(),
            body_bytes_max: None,
            lines_bytes_max: 16 << 30,
            shared: Shared {
                store: store.clone(),
                pages: Pages::default(),
                page_rows_default: 100,
                page_rows_max: 1_000,
                batch_operations_max: 1_000,
                line_bytes_max: 1 << 20,
                actor: None,
            },
        }
    }

    /// Where it stands, `/api` by default; empty for the root.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.trim_end_matches('/').to_owned();
        self
    }

    /// Bytes of a request's body (413 beyond); the server's limit by default.
    pub fn body_bytes_max(mut self, bytes: usize) -> Self {
        self.body_bytes_max = Some(bytes);
        self
    }

    /// Bytes of a body of lines, which is inserted as it comes (413 beyond); 16 GiB by default.
    pub fn lines_bytes_max(mut self, bytes: u64) -> Self {
        self.lines_bytes_max = bytes;
        self
    }

    /// Bytes of one of its lines (413 beyond), 1 MiB by default.
    pub fn line_bytes_max(mut self, bytes: usize) -> Self {
        self.shared.line_bytes_max = bytes;
        self
    }

    /// Rows in a page where the request names no limit, 100 by default.
    pub fn page_rows_default(mut self, rows: u64) -> Self {
        self.shared.page_rows_default = rows.max(1);
        self
    }

    /// Rows in a page at most, 1,000 by default.
    pub fn page_rows_max(mut self, rows: u64) -> Self {
        self.shared.page_rows_max = rows.max(1);
        self
    }

    /// Operations in a batch at most, 1,000 by default.
    pub fn batch_operations_max(mut self, operations: usize) -> Self {
        self.shared.batch_operations_max = operations;
        self
    }

    /// Who makes a request, for the history of audited models; none for
    /// nobody in particular. Called for each request that reads or writes.
    pub fn actor(
        mut self,
        actor: impl Fn(&Request) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.shared.actor = Some(ActorOf(Box::new(actor)));
        self
    }

    /// The routes.
    #[must_use]
    pub fn router(self) -> Router {
        let Self { prefix, body_bytes_max, lines_bytes_max, mut shared } = self;
        shared.page_rows_default = shared.page_rows_default.min(shared.page_rows_max);
        let routes = Routes { api: Arc::new(shared), body_bytes_max, lines_bytes_max };
        let at = |path: &str| format!("{prefix}{path}");
        let root = if prefix.is_empty() { "/".to_owned() } else { prefix.clone() };
        Router::new()
            .on(Method::Get, &root, routes.document())
            .any(&root, routes.others("GET, HEAD, OPTIONS"))
            .on(Method::Post, &at("/batch"), routes.batch())
            .any(&at("/batch"), routes.others("POST, OPTIONS"))
            .on(Method::Get, &at("/{table}"), routes.list())
            .on(Method::Post, &at("/{table}"), routes.insert())
            .on(Method::Delete, &at("/{table}"), routes.table(DeleteWhere::of))
            .any(&at("/{table}"), routes.others("GET, HEAD, POST, DELETE, OPTIONS"))
            .on(Method::Get, &at("/{table}/{id}"), routes.table(Get::of))
            .on(Method::Put, &at("/{table}/{id}"), routes.table(Update::replace))
            .on(Method::Patch, &at("/{table}/{id}"), routes.table(Update::patch))
            .on(Method::Delete, &at("/{table}/{id}"), routes.table(Delete::of))
            .any(&at("/{table}/{id}"), routes.others("GET, HEAD, PUT, PATCH, DELETE, OPTIONS"))
            .on(Method::Get, &at("/{table}/{id}/{field}"), routes.part())
            .on(Method::Put, &at("/{table}/{id}/{field}"), routes.table(BlobPut::of))
            .any(&at("/{table}/{id}/{field}"), routes.others("GET, HEAD, PUT, OPTIONS"))
            .on(Method::Post, &at("/{table}/{id}/{field}/increment"), routes.table(Increment::of))
            .any(&at("/{table}/{id}/{field}/increment"), routes.others("POST, OPTIONS"))
            .any(&at("/{rest:path}"), routes.unknown())
    }
}

/// Makes endpoints.
struct Routes {
    api: Arc<Shared>,
    body_bytes_max: Option<usize>,
    lines_bytes_max: u64,
}

impl Routes {
    fn endpoint(
        &self,
        handler: impl Fn(&Arc<Shared>, &Request, &mut ResponseWriter<'_>) -> Flow
        + Send
        + Sync
        + 'static,
    ) -> Endpoint {
        let api = Arc::clone(&self.api);
        let endpoint = Endpoint::direct(move |request, out| handler(&api, request, out));
        match self.body_bytes_max {
            Some(bytes) => endpoint.body_bytes_max(bytes),
            None => endpoint,
        }
    }

    /// A verb on the table that the path names.
    fn table<V: Verb<Subject = Table>>(&self, make: fn(On<'_>) -> Result<V>) -> Endpoint {
        self.endpoint(move |api, request, out| {
            with_table(api, request, out, |on, out| match make(on) {
                Ok(verb) => carry_out(verb, on, out),
                Err(error) => refused(error, out),
            })
        })
    }

    /// A row's blob, or the history of a row that has no field of that name.
    fn part(&self) -> Endpoint {
        self.endpoint(|api, request, out| {
            with_table(api, request, out, |on, out| {
                if history::is_asked_for(on) {
                    return match history::list(on) {
                        Ok((list, table)) => {
                            carry_out(list, On { api, request, subject: table }, out)
                        }
                        Err(error) => refused(error, out),
                    };
                }
                match BlobGet::of(on) {
                    Ok(verb) => carry_out(verb, on, out),
                    Err(error) => refused(error, out),
                }
            })
        })
    }

    /// A page of rows or, where that is asked for, all as lines.
    fn list(&self) -> Endpoint {
        self.endpoint(|api, request, out| {
            with_table(api, request, out, |on, out| {
                if ndjson::is_wanted(request) {
                    return match RowLines::new(on) {
                        Ok(lines) => lines.answer(),
                        Err(error) => refused(error, out),
                    };
                }
                match List::of(on) {
                    Ok(verb) => carry_out(verb, on, out),
                    Err(error) => refused(error, out),
                }
            })
        })
    }

    /// One row or, where the body is an array or lines, many.
    fn insert(&self) -> Endpoint {
        let endpoint = self.endpoint(|api, request, out| {
            with_table(api, request, out, |on, out| {
                let keyed = request.header("idempotency-key").is_some();
                if keyed && ndjson::is_sent(request) {
                    let message = "lines are inserted in many transactions, and take no \
                                   `Idempotency-Key`; send an array";
                    return refused(ApiError::bad_request(message), out);
                }
                if ndjson::is_sent(request) {
                    return insert_lines::begin(on).unwrap_or_else(|error| refused(error, out));
                }
                let many = on.request.body().trim_ascii_start().starts_with(b"[");
                if keyed {
                    let shape = if many { Shape::Rows } else { Shape::Row };
                    return insert_once(on, shape, out);
                }
                if many {
                    match crate::insert_many::InsertMany::of(on) {
                        Ok(verb) => carry_out(verb, on, out),
                        Err(error) => refused(error, out),
                    }
                } else {
                    match crate::insert::Insert::of(on) {
                        Ok(verb) => carry_out(verb, on, out),
                        Err(error) => refused(error, out),
                    }
                }
            })
        });
        endpoint.streamed_when(self.lines_bytes_max, ndjson::is_sent)
    }

    fn batch(&self) -> Endpoint {
        self.endpoint(|api, request, out| {
            let registry = api.store.registry();
            let on: On<'_, Registry> = On { api, request, subject: registry };
            match BatchCall::of(on) {
                Ok(verb) => carry_out(verb, on, out),
                Err(error) => refused(error, out),
            }
        })
    }

    fn document(&self) -> Endpoint {
        self.endpoint(|api, request, out| {
            schema_document::answer(api.store.registry(), request, out);
            Flow::Done
        })
    }

    /// OPTIONS, and methods that a resource has not.
    fn others(&self, allow: &'static str) -> Endpoint {
        self.endpoint(move |_, request, out| {
            if request.method() == Method::Options {
                out.status(Status::NO_CONTENT);
                // A constant is always a header.
                let _ = out.header("Allow", allow);
                return Flow::Done;
            }
            refused(ApiError::not_allowed(allow), out)
        })
    }

    fn unknown(&self) -> Endpoint {
        self.endpoint(|_, request, out| {
            let path = marmota_model::text::excerpt(request.path());
            let message = format!(
                "{path} is no resource; there are a table, a table's row by its key, and a row's \
                 blob by its field, without a slash at the end"
            );
            refused(Error::new(ErrorKind::NotFound, message).into(), out)
        })
    }
}

/// Inserts what is inserted only once.
fn insert_once(on: On<'_>, shape: Shape, out: &mut ResponseWriter<'_>) -> Flow {
    let call = Once::of(on.request, shape)
        .and_then(|once| once.map(|once| BatchCall::of_rows(on, once)).transpose());
    let on = On { api: on.api, request: on.request, subject: on.api.store.registry() };
    match call {
        Ok(Some(call)) => carry_out(call, on, out),
        Ok(None) => refused(ApiError::bad_request("`Idempotency-Key` is empty"), out),
        Err(error) => refused(error, out),
    }
}

fn refused(error: ApiError, out: &mut ResponseWriter<'_>) -> Flow {
    refuse(error, out);
    Flow::Done
}

fn with_table(
    api: &Arc<Shared>,
    request: &Request,
    out: &mut ResponseWriter<'_>,
    go_on: impl FnOnce(On<'_>, &mut ResponseWriter<'_>) -> Flow,
) -> Flow {
    let registry = api.store.registry();
    let name = request.param("table").unwrap_or_default();
    match registry.table(&name) {
        Ok(table) => go_on(On { api, request, subject: table }, out),
        Err(error) => refused(error.into(), out),
    }
}
