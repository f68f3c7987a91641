//! The API as a set of routes, and its limits.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

#[cfg(feature = "auth")]
use marmota_http::Response;
use marmota_http::{
    Admission, Compression, Endpoint, Flow, IntoResponse, Method, Request, ResponseWriter, Router,
    Status,
};
use marmota_model::{Error, ErrorKind, Table};
use marmota_store::registry::Registry;
use marmota_store::rights::Right;
use marmota_store::{Store, Tenants};

use crate::accept::{self, Offer};
use crate::answer::{Out, refuse};
use crate::batch::BatchCall;
use crate::batch_lines;
use crate::blob::{BlobGet, BlobPut};
use crate::call::{RequestContext, Verb, carry_out};
use crate::delete::{Delete, DeleteWhere};
use crate::get::Get;
use crate::history;
use crate::increment::Increment;
use crate::insert_lines;
use crate::list::List;
use crate::ndjson;
use crate::once::{Once, Shape};
use crate::open_api::OpenApi;
use crate::pages::Pages;
use crate::problem::{ApiError, Result};
use crate::reactor::watch_engines;
use crate::row_lines::RowLines;
use crate::schema_document::{self, OPEN_API};
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

/// REST over every table of the stores of tenants, at `/t/{tenant}/api`:
/// [`Api::of_tenants`] with its defaults.
///
/// ```no_run
/// # fn serve(tenants: &marmota_store::Tenants) -> Result<(), Box<dyn std::error::Error>> {
/// use marmota_http::Server;
///
/// Server::bind("127.0.0.1:8080")?.run(marmota_rest::tenants(tenants))?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn tenants(tenants: &Tenants) -> Router {
    Api::of_tenants(tenants).router()
}

/// REST over every table of a store, with settings.
#[derive(Debug)]
#[must_use]
pub struct Api {
    prefix: String,
    body_bytes_max: Option<usize>,
    lines_bytes_max: u64,
    stores: Stores,
    beside: OpenApi,
    compression: bool,
    settings: Settings,
}

/// Whose rows are served.
#[derive(Clone, Debug)]
enum Stores {
    One(Store),
    Tenants(Tenants),
}

/// What every request needs.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) pages: Arc<Pages>,
    settings: Settings,
}

/// What is the same for every store.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) page_rows_default: u64,
    pub(crate) page_rows_max: u64,
    pub(crate) batch_operations_max: usize,
    pub(crate) line_bytes_max: usize,
    actor: Option<ActorOf>,
    allow_anonymous: bool,
    #[cfg(feature = "auth")]
    door: Option<Arc<crate::door::Authenticator>>,
}

/// A request, and the store as it is for whoever makes it.
#[derive(Clone, Copy)]
struct Call<'c> {
    api: &'c Arc<Shared>,
    store: &'c Store,
    request: &'c Request,
}

impl<'c> Call<'c> {
    const fn on<S>(self, subject: &'c Arc<S>) -> RequestContext<'c, S> {
        let Self { api, store, request } = self;
        RequestContext { api, store, request, subject }
    }
}

impl Deref for Shared {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

/// Finds out who makes a request.
type FindActor = dyn Fn(&Request) -> Option<String> + Send + Sync;

/// Says who makes a request.
#[derive(Clone)]
struct ActorOf(Arc<FindActor>);

impl std::fmt::Debug for ActorOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ActorOf")
    }
}

impl Shared {
    /// The store, on behalf of who makes the request.
    ///
    /// # Errors
    /// 401 where that has to be known.
    fn store_for(&self, request: &Request) -> Result<Found<'_>> {
        request.check_site()?;
        #[cfg(feature = "auth")]
        if let Some(door) = &self.door {
            let mut finding = door.store_for(request);
            return match finding.ready() {
                Some(store) => Ok(Found::Now(Cow::Owned(store?))),
                None => Ok(Found::Later(finding)),
            };
        }
        Ok(Found::Now(match self.actor.as_ref().and_then(|actor| actor.0(request)) {
            Some(actor) => Cow::Owned(self.store.with_actor(actor)),
            None => Cow::Borrowed(&self.store),
        }))
    }
}

#[cfg(feature = "auth")]
impl Settings {
    /// The caller of a request that lasts; none where callers are not authenticated.
    pub(crate) fn again(&self, request: &Request) -> Option<crate::door::Again> {
        crate::door::Again::of(self.door.as_deref()?, request)
    }
}

/// The store for who makes a request.
enum Found<'a> {
    Now(Cow<'a, Store>),
    /// The caller has to be read from the store.
    #[cfg(feature = "auth")]
    Later(crate::door::StoreFor),
}

impl Api {
    /// Returns the API of a store's tables.
    pub fn new(store: &Store) -> Self {
        Self::of(Stores::One(store.clone()), "/api")
    }

    /// The API of the tables of each tenant, in the database that is the
    /// tenant's own: opened when a request asks for it, and held until that is
    /// answered, so that one that is in use is never closed for another.
    ///
    /// A name that can be none's is answered 400, a tenant that there is not
    /// ([`Tenants::known`], which has to be said) 404, and 503 where all
    /// databases that may be open at once are in use.
    pub fn of_tenants(tenants: &Tenants) -> Self {
        Self::of(Stores::Tenants(tenants.clone()), "/t/{tenant}/api")
    }

    fn of(stores: Stores, prefix: &str) -> Self {
        watch_engines();
        Self {
            prefix: prefix.to_owned(),
            body_bytes_max: None,
            lines_bytes_max: 16 << 30,
            stores,
            beside: OpenApi::new(),
            compression: true,
            settings: Settings {
                page_rows_default: 100,
                page_rows_max: 1_000,
                batch_operations_max: 1_000,
                line_bytes_max: 1 << 20,
                actor: None,
                allow_anonymous: false,
                #[cfg(feature = "auth")]
                door: None,
            },
        }
    }

    /// Sets the path of the API; empty for the root. Default: `/api`. For tenants it must contain
    /// `{tenant}`, and the default is `/t/{tenant}/api`.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.trim_end_matches('/').to_owned();
        self
    }

    /// Sets the most bytes of a request's body (413). Default: the server's limit.
    pub fn body_bytes_max(mut self, bytes: usize) -> Self {
        self.body_bytes_max = Some(bytes);
        self
    }

    /// Sets the most bytes of an NDJSON body, which is executed while it arrives (413). Default:
    /// 16 GiB.
    pub fn lines_bytes_max(mut self, bytes: u64) -> Self {
        self.lines_bytes_max = bytes;
        self
    }

    /// Sets the most bytes of a line of an NDJSON body (413). Default: 1 MiB.
    pub fn line_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.line_bytes_max = bytes;
        self
    }

    /// Sets the rows of a page if the request has no `limit`. Default: 100.
    pub fn page_rows_default(mut self, rows: u64) -> Self {
        self.settings.page_rows_default = rows.max(1);
        self
    }

    /// Sets the most rows of a page. Default: 1,000.
    pub fn page_rows_max(mut self, rows: u64) -> Self {
        self.settings.page_rows_max = rows.max(1);
        self
    }

    /// Sets the most operations of a batch. Default: 1,000.
    pub fn batch_operations_max(mut self, operations: usize) -> Self {
        self.settings.batch_operations_max = operations;
        self
    }

    /// Adds to the document of `GET /api/openapi.json`: a title and version, and operations of other
    /// routes, for example those of services (`Services::open_api`). Default: tables and logins.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let store = Store::builder(Memory::new()).schema(Schema::new("city", vec![id])).open()?;
    /// use marmota_rest::{Api, OpenApi};
    /// let router = Api::new(&store).openapi(OpenApi::new().title("Cities")).router();
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn openapi(mut self, beside: OpenApi) -> Self {
        self.beside = beside;
        self
    }

    /// Sets whether answers are compressed for clients that take it, as [`Compression`] does:
    /// bodies of at least 1 KiB, and lines. Default: true. Without the feature `compression` of
    /// the server it has no effect.
    pub const fn compression(mut self, compression: bool) -> Self {
        self.compression = compression;
        self
    }

    /// Sets how the actor of a request is found, for the history of audited models. Called for each
    /// request that reads or writes. Default: no actor.
    pub fn actor(
        mut self,
        actor: impl Fn(&Request) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.settings.actor = Some(ActorOf(Arc::new(actor)));
        self
    }

    /// Has each request authenticated, by `Authorization: Bearer` or a cookie, and
    /// done under its caller's rights (401, 403, and 404 for what is not there
    /// for them); adds `/auth/login` and the other routes of accounts. Users are
    /// one store's: an API of tenants with this answers nothing but 501.
    #[cfg(feature = "auth")]
    pub fn auth(mut self, auth: &marmota_auth::Auth) -> Self {
        self.settings.door = Some(Arc::new(crate::door::Authenticator::new(auth)));
        self
    }

    /// Serves a store that keeps accounts without authenticating its callers: everyone reads and
    /// writes the tables of the program's models. The tables of accounts stay unreachable. Without
    /// this call and without `Api::auth`, the start of a server with such a store fails.
    pub const fn allow_anonymous(mut self) -> Self {
        self.settings.allow_anonymous = true;
        self
    }

    /// Checks that callers are authenticated where the store keeps accounts.
    fn check_accounts(&self) -> std::result::Result<(), Error> {
        let Stores::One(store) = &self.stores else { return Ok(()) };
        #[cfg(feature = "auth")]
        if self.settings.door.is_some() {
            return Ok(());
        }
        match self.settings.allow_anonymous {
            true => Ok(()),
            false => store.registry().check_anonymous(),
        }
    }

    /// The routes. A server with those of a store that keeps accounts does not start, unless
    /// callers are authenticated (`Api::auth`) or [`Api::allow_anonymous`] was called.
    #[must_use]
    pub fn router(self) -> Router {
        if let Err(error) = self.check_accounts() {
            let path = if self.prefix.is_empty() { "/" } else { &self.prefix };
            return Router::new().refuse(path, error.message());
        }
        let Self { prefix, body_bytes_max, lines_bytes_max, stores, beside, .. } = self;
        let (compression, mut settings) = (self.compression, self.settings);
        settings.page_rows_default = settings.page_rows_default.min(settings.page_rows_max);
        #[cfg(feature = "auth")]
        let door = match &stores {
            Stores::One(_) => settings.door.clone(),
            Stores::Tenants(_) => None,
        };
        let local_server = match &stores {
            Stores::One(store) => store.capability().local_server.clone(),
            Stores::Tenants(_) => None,
        };
        let pages = Arc::new(Pages::default());
        let source = match stores {
            Stores::One(store) => Source::One(Arc::new(Shared { store, pages, settings })),
            Stores::Tenants(tenants) => Source::Tenants(OfTenant { tenants, pages, settings }),
        };
        let routes = Routes { source, body_bytes_max, lines_bytes_max, compression };
        let at = |path: &str| format!("{prefix}{path}");
        let root = if prefix.is_empty() { "/".to_owned() } else { prefix.clone() };
        let router = Router::new().local_database(local_server.as_deref());
        #[cfg(feature = "auth")]
        let router = match &door {
            Some(door) => crate::account_routes::add(router, &prefix, door),
            None => router,
        };
        router
            .on(Method::Get, &root, routes.document())
            .any(&root, Routes::others("GET, HEAD, OPTIONS"))
            .on(Method::Get, &at(OPEN_API), routes.open_api(beside))
            .any(&at(OPEN_API), Routes::others("GET, HEAD, OPTIONS"))
            .on(Method::Post, &at("/batch"), routes.batch())
            .any(&at("/batch"), Routes::others("POST, OPTIONS"))
            .on(Method::Get, &at("/{table}"), routes.list())
            .on(Method::Post, &at("/{table}"), routes.insert())
            .on(Method::Delete, &at("/{table}"), routes.table(DeleteWhere::of))
            .any(&at("/{table}"), Routes::others("GET, HEAD, POST, DELETE, OPTIONS"))
            .on(Method::Get, &at("/{table}/{id}"), routes.table(Get::of))
            .on(Method::Put, &at("/{table}/{id}"), routes.table(Update::replace))
            .on(Method::Patch, &at("/{table}/{id}"), routes.table(Update::patch))
            .on(Method::Delete, &at("/{table}/{id}"), routes.table(Delete::of))
            .any(&at("/{table}/{id}"), Routes::others("GET, HEAD, PUT, PATCH, DELETE, OPTIONS"))
            .on(Method::Get, &at("/{table}/{id}/{field}"), routes.part())
            .on(Method::Put, &at("/{table}/{id}/{field}"), routes.table(BlobPut::of))
            .any(&at("/{table}/{id}/{field}"), Routes::others("GET, HEAD, PUT, OPTIONS"))
            .on(Method::Post, &at("/{table}/{id}/{field}/increment"), routes.table(Increment::of))
            .any(&at("/{table}/{id}/{field}/increment"), Routes::others("POST, OPTIONS"))
            .any(&at("/{rest:path}"), Routes::unknown())
    }
}

/// Where a request finds what it needs.
#[derive(Clone)]
enum Source {
    One(Arc<Shared>),
    Tenants(OfTenant),
}

impl Source {
    fn shared(&self, request: &Request) -> Result<Cow<'_, Arc<Shared>>> {
        match self {
            Self::One(api) => Ok(Cow::Borrowed(api)),
            Self::Tenants(of) => of.shared(request).map(Cow::Owned),
        }
    }
}

/// What a request of a tenant needs, beside the tenant's store.
#[derive(Clone)]
struct OfTenant {
    tenants: Tenants,
    pages: Arc<Pages>,
    settings: Settings,
}

impl OfTenant {
    /// Opens the store of the tenant that the path names, unless it is open.
    fn shared(&self, request: &Request) -> Result<Arc<Shared>> {
        #[cfg(feature = "auth")]
        if self.settings.door.is_some() {
            let message = "users are one store's, and this API is of tenants' stores";
            return Err(Error::new(ErrorKind::Unsupported, message).into());
        }
        let tenant = request.param("tenant").unwrap_or_default();
        let store = self.tenants.get_known(&tenant).map_err(ApiError::of_url)?;
        if !self.settings.allow_anonymous {
            store.registry().check_anonymous()?;
        }
        let (pages, settings) = (Arc::clone(&self.pages), self.settings.clone());
        Ok(Arc::new(Shared { store, pages, settings }))
    }
}

/// The store for a request whose caller was authenticated before its body was read.
struct CallerStore(Store);

/// Decides on a request with a body before any of it is read: who makes it, and whether they have
/// one of the rights that its method takes.
fn admit(source: &Source, request: &Request) -> Admission {
    let found = match source.shared(request) {
        Ok(api) => match api.store_for(request) {
            Ok(Found::Now(store)) => Ok(store.into_owned()),
            #[cfg(feature = "auth")]
            Ok(Found::Later(finding)) => {
                let request = request.clone();
                return Admission::Later(Box::pin(async move {
                    let store = finding.await.map_err(IntoResponse::into_response)?;
                    keep_caller(store, &request).map_err(IntoResponse::into_response)
                }));
            }
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    match found.and_then(|store| keep_caller(store, request)) {
        Ok(()) => Admission::Granted,
        Err(error) => Admission::Refused(error.into_response()),
    }
}

/// Leaves the store with the request, for its handler.
fn keep_caller(store: Store, request: &Request) -> Result<()> {
    if let Some(name) = request.param("table") {
        let table = store.exposed_table(&name)?;
        match request.method() {
            Method::Post if request.param("id").is_none() => {
                store.check_right(Right::Insert, table)?;
            }
            // A PUT inserts, too, where clients give keys.
            Method::Put if store.check_right(Right::Insert, table).is_ok() => {}
            Method::Post | Method::Put | Method::Patch => {
                store.check_right(Right::Update, table)?;
            }
            _ => {}
        }
    }
    // It is the only value that is ever left.
    let _ = request.set_extension(CallerStore(store));
    Ok(())
}

/// Makes endpoints.
struct Routes {
    source: Source,
    body_bytes_max: Option<usize>,
    lines_bytes_max: u64,
    compression: bool,
}

impl Routes {
    fn endpoint(
        &self,
        offer: Offer,
        handler: impl Fn(Call<'_>, &mut Out<'_, '_>) -> Flow + Send + Sync + 'static,
    ) -> Endpoint {
        let handler = Arc::new(handler);
        let answer = move |api: &Arc<Shared>, request: &Request, out: &mut Out<'_, '_>| {
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
            match source.shared(request) {
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

    /// A verb on the table that the path names.
    fn table<V: Verb<Subject = Table>>(
        &self,
        make: fn(RequestContext<'_>) -> Result<V>,
    ) -> Endpoint {
        self.endpoint(Offer::Json, move |call, out| {
            with_table(call, out, |on, out| match make(on) {
                Ok(verb) => carry_out(verb, on, out),
                Err(error) => refused(error, out),
            })
        })
    }

    /// A row's blob, or the history of a row that has no field of that name.
    fn part(&self) -> Endpoint {
        self.endpoint(Offer::Any, |call, out| {
            with_table(call, out, |on, out| {
                if history::is_asked_for(on) {
                    if let Err(error) = accept::check(on.request, Offer::Json) {
                        return refused(error, out);
                    }
                    return match history::list(on) {
                        Ok((list, table)) => {
                            carry_out(list, RequestContext { subject: table, ..on }, out)
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
        self.endpoint(Offer::JsonOrLines, |call, out| {
            with_table(call, out, |on, out| {
                if accept::prefers_lines(on.request) {
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
        let endpoint = self.endpoint(Offer::Json, |call, out| {
            with_table(call, out, |on, out| {
                if ndjson::is_sent(on.request) {
                    return insert_lines::begin(on).unwrap_or_else(|error| refused(error, out));
                }
                let many = on.request.body().trim_ascii_start().starts_with(b"[");
                if on.request.header("idempotency-key").is_some() {
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
        let endpoint = self.endpoint(Offer::JsonOrLines, |call, out| {
            let on: RequestContext<'_, Registry> = call.on(call.store.registry());
            if ndjson::is_sent(on.request) {
                return batch_lines::begin(on).unwrap_or_else(|error| refused(error, out));
            }
            match BatchCall::of(on) {
                Ok(verb) => carry_out(verb, on, out),
                Err(error) => refused(error, out),
            }
        });
        endpoint.streamed_when(self.lines_bytes_max, ndjson::is_sent)
    }

    fn open_api(&self, beside: OpenApi) -> Endpoint {
        self.endpoint(Offer::Json, move |call, out| {
            schema_document::open_api(call.store, &beside, call.request, out);
            Flow::Done
        })
    }

    fn document(&self) -> Endpoint {
        self.endpoint(Offer::Json, |call, out| {
            schema_document::answer(call.store, call.request, out);
            Flow::Done
        })
    }

    /// OPTIONS, and methods that a resource has not.
    fn others(allow: &'static str) -> Endpoint {
        Endpoint::direct(move |request: &Request, out: &mut ResponseWriter<'_>| {
            if request.method() == Method::Options {
                out.status(Status::NO_CONTENT);
                // A constant is always a header.
                let _ = out.header("Allow", allow);
                return Flow::Done;
            }
            refused(ApiError::not_allowed(allow), &mut Out::Direct(out))
        })
    }

    fn unknown() -> Endpoint {
        Endpoint::direct(|request: &Request, out: &mut ResponseWriter<'_>| {
            let path = marmota_model::text::excerpt(request.path());
            let message = format!(
                "{path} is no resource; there are a table, a table's row by its key, and a row's \
                 blob by its field, without a slash at the end"
            );
            refused(Error::new(ErrorKind::NotFound, message).into(), &mut Out::Direct(out))
        })
    }
}

/// Answers a request whose caller has to be read from the store first.
#[cfg(feature = "auth")]
#[cold]
fn later<H>(
    handler: &Arc<H>,
    api: &Arc<Shared>,
    request: &Request,
    finding: crate::door::StoreFor,
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

/// Inserts what is inserted only once.
fn insert_once(on: RequestContext<'_>, shape: Shape, out: &mut Out<'_, '_>) -> Flow {
    let call = Once::of(on.request, shape)
        .and_then(|once| once.map(|once| BatchCall::of_rows(on, once)).transpose());
    let on = RequestContext {
        subject: on.store.registry(),
        api: on.api,
        store: on.store,
        request: on.request,
    };
    match call {
        Ok(Some(call)) => carry_out(call, on, out),
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
    go_on: impl FnOnce(RequestContext<'_>, &mut Out<'_, '_>) -> Flow,
) -> Flow {
    let name = call.request.param("table").unwrap_or_default();
    match call.store.exposed_table(&name) {
        Ok(table) => go_on(call.on(table), out),
        Err(error) => refused(error.into(), out),
    }
}
