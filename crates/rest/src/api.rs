//! The routes of the API, and their limits.
//!
//! ```text
//! {prefix}                                 GET
//! {prefix}/openapi.json                    GET
//! {prefix}/batch                           POST
//! {prefix}/{table}                         GET POST DELETE
//! {prefix}/{table}/{id}                    GET PUT PATCH DELETE
//! {prefix}/{table}/{id}/{field}            GET PUT DELETE
//! {prefix}/{table}/{id}/{field}/…          with `Api::files`
//! {prefix}/{table}/{id}/{field}/increment  POST
//! {prefix}/auth/…                          with `Api::auth`
//! ```
//!
//! Every route also answers OPTIONS, and other methods with 405 and `Allow`. [`Api::router`]
//! creates the state that handlers share and one endpoint per route.

use std::sync::Arc;

use marmota_http::{Method, Request, Router};
use marmota_model::Error;
use marmota_store::{Store, Tenants};
use marmota_web::OpenApi;

use crate::documents::schema_document::OPEN_API;
use crate::endpoints::Endpoints;
use crate::reactor::watch_engines;
use crate::request::pages::Pages;
use crate::request::state::{ActorOf, ApiSettings, ApiSource, ApiState, TenantSource};
use crate::rows::delete::{Delete, DeleteWhere};
use crate::rows::get::Get;
use crate::rows::increment::Increment;
use crate::rows::update::Update;

/// REST over every table of a store, at `/api`: [`Api`] with its defaults.
///
/// ```
/// # use marmota_memory::Memory;
/// # use marmota_model::{Field, Kind, Role, Schema};
/// # use marmota_store::Store;
/// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
/// # let store = Store::builder(Memory::new()).schema(Schema::new("city", fields)).open()?;
/// use marmota_http::{Request, Response, Router, Status, TestRequest};
///
/// async fn version(_: Request) -> Response {
///     Response::text("1.0")
/// }
/// let router = Router::new().get("/version", version).nest("", marmota_rest::api(&store));
/// let insert = TestRequest::post("/api/city").header("Content-Type", "application/json");
/// let answer = router.call(insert.body(r#"{"name":"Paris"}"#))?;
/// assert_eq!((answer.status(), answer.text()), (Status::CREATED, r#"{"id":1,"name":"Paris"}"#));
/// assert_eq!(answer.header("Location"), Some("/api/city/1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A server with these routes: `Server::bind("127.0.0.1:8080")?.run(router)?`.
#[must_use]
pub fn api(store: &Store) -> Router {
    Api::new(store).router()
}

/// REST over every table of the stores of tenants, at `/t/{tenant}/api`: [`Api::of_tenants`] with
/// its defaults.
///
/// ```
/// # use marmota_memory::Memory;
/// # use marmota_model::{Field, Kind, Role, Schema};
/// # use marmota_store::Store;
/// use marmota_http::{Status, TestRequest};
/// use marmota_store::Tenants;
///
/// let tenants = Tenants::new(|_tenant| {
///     let id = Field::new("id", Kind::I64).role(Role::Key);
///     Store::builder(Memory::new()).schema(Schema::new("note", vec![id])).open()
/// })
/// .known(|tenant| tenant == "ana");
/// let router = marmota_rest::tenants(&tenants);
/// assert_eq!(router.call(TestRequest::get("/t/ana/api/note"))?.status(), Status::OK);
/// assert_eq!(router.call(TestRequest::get("/t/bob/api/note"))?.status(), Status::NOT_FOUND);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn tenants(tenants: &Tenants) -> Router {
    Api::of_tenants(tenants).router()
}

/// REST over every table of a store, with settings.
///
/// ```
/// # use marmota_memory::Memory;
/// # use marmota_model::{Field, Kind, Role, Schema};
/// # use marmota_store::Store;
/// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
/// # let store = Store::builder(Memory::new()).schema(Schema::new("city", fields)).open()?;
/// use marmota_http::TestRequest;
/// use marmota_rest::Api;
///
/// let router = Api::new(&store).prefix("/data").page_rows_default(20).page_rows_max(500).router();
/// let answer = router.call(TestRequest::get("/data/city"))?;
/// assert_eq!(answer.text(), r#"{"rows":[],"next":null}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Api {
    prefix: String,
    body_bytes_max: Option<usize>,
    lines_bytes_max: u64,
    stores: Stores,
    additions: OpenApi,
    compression: bool,
    settings: ApiSettings,
}

/// The served stores.
#[derive(Clone, Debug)]
enum Stores {
    /// One store, at a fixed path.
    One(Store),
    /// The store of the tenant in the path, opened on demand.
    Tenants(Tenants),
}
impl Api {
    /// Returns the API of a store's tables.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let schema = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// let router = marmota_rest::Api::new(&store).router();
    /// # let _ = router;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(store: &Store) -> Self {
        Self::of(Stores::One(store.clone()), "/api")
    }

    /// Returns the API of the tables of each tenant, in the tenant's database. A database is opened
    /// on the first request and held until the request is answered, so that a database in use is
    /// never closed to open another.
    ///
    /// An invalid tenant name is answered with 400, an unknown tenant ([`Tenants::known`], which
    /// must be set) with 404, and requests get 503 while all databases that may be open at once are
    /// in use.
    ///
    /// ```no_run
    /// # fn routes(tenants: &marmota_store::Tenants) -> marmota_http::Router {
    /// marmota_rest::Api::of_tenants(tenants).prefix("/{tenant}/api").router()
    /// # }
    /// ```
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
            additions: OpenApi::new(),
            compression: true,
            settings: ApiSettings {
                page_rows_default: 100,
                page_rows_max: 1_000,
                batch_operations_max: 1_000,
                line_bytes_max: 1 << 20,
                actor: None,
                allow_anonymous: false,
                #[cfg(feature = "files")]
                files: None,
                #[cfg(feature = "auth")]
                authenticator: None,
            },
        }
    }

    /// Sets the path of the API; empty for the root. Default: `/api`. For tenants it must contain
    /// `{tenant}`, and the default is `/t/{tenant}/api`. A slash at the end is ignored.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let schema = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// use marmota_http::TestRequest;
    ///
    /// let router = marmota_rest::Api::new(&store).prefix("").router();
    /// assert_eq!(router.call(TestRequest::get("/city"))?.status().code(), 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.trim_end_matches('/').to_owned();
        self
    }

    /// Sets the maximum size of a request's body in bytes (413). Default: the server's limit.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
    /// # let store = Store::builder(Memory::new()).schema(Schema::new("city", fields)).open()?;
    /// use marmota_http::{Status, TestRequest};
    /// use marmota_rest::Api;
    ///
    /// let router = Api::new(&store).body_bytes_max(10).router();
    /// let answer = router.call(TestRequest::post("/api/city").body(r#"{"name":"Paris"}"#))?;
    /// assert_eq!(answer.status(), Status::CONTENT_TOO_LARGE);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn body_bytes_max(mut self, bytes: usize) -> Self {
        self.body_bytes_max = Some(bytes);
        self
    }

    /// Sets the maximum size in bytes of an NDJSON body, which is executed while it arrives (413).
    /// Default: 16 GiB.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let schema = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// let router = marmota_rest::Api::new(&store).lines_bytes_max(1 << 30).router();
    /// # let _ = router;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lines_bytes_max(mut self, bytes: u64) -> Self {
        self.lines_bytes_max = bytes;
        self
    }

    /// Sets the maximum size in bytes of a line of an NDJSON body (413). Default: 1 MiB.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let schema = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// use marmota_http::TestRequest;
    ///
    /// let router = marmota_rest::Api::new(&store).line_bytes_max(10).router();
    /// let long = TestRequest::post("/api/city").header("Content-Type", "application/x-ndjson");
    /// let answer = router.call(long.body("{\"name\":\"Bourges\"}\n"))?;
    /// assert_eq!(answer.status().code(), 413);
    /// assert!(answer.text().contains("\"line\":1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn line_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.line_bytes_max = bytes;
        self
    }

    /// Sets the number of rows of a page for requests without `limit`, at least 1 and at most
    /// [`Api::page_rows_max`]. Default: 100.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let schema = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// use marmota_http::TestRequest;
    ///
    /// let router = marmota_rest::Api::new(&store).page_rows_default(1).router();
    /// router.call(TestRequest::post("/api/city").body(r#"[{"name":"Bourges"},{"name":"Uppsala"}]"#))?;
    /// let page: serde_json::Value = serde_json::from_str(router.call(TestRequest::get("/api/city"))?.text())?;
    /// assert_eq!(page["rows"].as_array().map(Vec::len), Some(1));
    /// assert!(page["next"].is_string());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn page_rows_default(mut self, rows: u64) -> Self {
        self.settings.page_rows_default = rows.max(1);
        self
    }

    /// Sets the maximum number of rows of a page, at least 1. A request with a larger `limit` is
    /// refused with 400. Default: 1,000.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
    /// # let store = Store::builder(Memory::new()).schema(Schema::new("city", fields)).open()?;
    /// use marmota_http::{Status, TestRequest};
    /// use marmota_rest::Api;
    ///
    /// let router = Api::new(&store).page_rows_max(10).router();
    /// assert_eq!(router.call(TestRequest::get("/api/city?limit=10"))?.status(), Status::OK);
    /// assert_eq!(router.call(TestRequest::get("/api/city?limit=11"))?.status(), Status::BAD_REQUEST);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn page_rows_max(mut self, rows: u64) -> Self {
        self.settings.page_rows_max = rows.max(1);
        self
    }

    /// Sets the maximum number of operations of a batch in one body (413). A batch in lines has no
    /// maximum. Default: 1,000.
    ///
    /// A larger batch is answered 413. The limit does not apply to batches as NDJSON, which are executed in
    /// chunks.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let schema = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// use marmota_http::TestRequest;
    ///
    /// let router = marmota_rest::Api::new(&store).batch_operations_max(1).router();
    /// let two = r#"{"operations":[{"delete":"city","key":1},{"delete":"city","key":2}]}"#;
    /// assert_eq!(router.call(TestRequest::post("/api/batch").body(two))?.status().code(), 413);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn batch_operations_max(mut self, operations: usize) -> Self {
        self.settings.batch_operations_max = operations;
        self
    }

    /// Adds to the document of `GET /api/openapi.json`: a title and version, and operations of other
    /// routes, for example those of services (`Services::open_api`). Further calls add more.
    /// Default: tables and logins.
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
    pub fn openapi(mut self, additions: OpenApi) -> Self {
        self.additions = additions.and(&self.additions);
        self
    }

    /// Sets whether responses are compressed for clients that accept it, as
    /// [`Compression`](marmota_http::Compression) does: bodies of at least 1 KiB, and lines.
    /// Default: true. It has no effect without the server's feature `compression`.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let schema = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// let router = marmota_rest::Api::new(&store).compression(false).router();
    /// # let _ = router;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn compression(mut self, compression: bool) -> Self {
        self.compression = compression;
        self
    }

    /// Sets a function that returns the actor of a request, for the history of audited models. It
    /// is called for each request that reads or writes. Default: no actor.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
    /// # let store = Store::builder(Memory::new()).schema(Schema::new("city", fields)).open()?;
    /// use marmota_rest::Api;
    ///
    /// // A proxy that authenticates users sets this header.
    /// let api = Api::new(&store);
    /// let router = api.actor(|request| Some(request.header_text("x-user")?.to_string())).router();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn actor(
        mut self,
        actor: impl Fn(&Request) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.settings.actor = Some(ActorOf(Arc::new(actor)));
        self
    }

    /// Authenticates each request, by `Authorization: Bearer` or a cookie, and executes it with the
    /// rights of its caller (401, 403, and 404 for data that the caller may not see); adds
    /// `/auth/login` and the other routes of accounts. Users belong to one store: an API of tenants
    /// with this setting responds to all requests with 501.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).schema(city).open()?;
    /// use marmota_auth::{Auth, Settings};
    /// use marmota_http::{Status, TestRequest};
    /// use marmota_rest::Api;
    ///
    /// let auth = Auth::new(&store, Settings::default())?;
    /// let router = Api::new(&store).auth(&auth).router();
    /// assert_eq!(router.call(TestRequest::get("/api/city"))?.status(), Status::UNAUTHORIZED);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "auth")]
    pub fn auth(mut self, auth: &marmota_auth::Auth) -> Self {
        self.settings.authenticator =
            Some(Arc::new(crate::request::authenticator::Authenticator::new(auth)));
        self
    }

    /// Serves the file fields of the store's models from this storage, which is attached to the
    /// store and started. Files belong to one store: an API of tenants has no files. Default:
    /// requests to file fields are answered with 501.
    ///
    /// ```
    /// use marmota_derive::Model;
    /// use marmota_files::{File, FileStorage};
    /// use marmota_http::{Status, TestRequest};
    /// use marmota_memory::Memory;
    /// use marmota_rest::Api;
    /// use marmota_store::Store;
    ///
    /// #[derive(Clone, Debug, Model)]
    /// struct Issue {
    ///     id: i64,
    ///     attachment: Option<File>,
    /// }
    ///
    /// # let folder = std::env::temp_dir().join(format!("marmota-rest-{}", std::process::id()));
    /// # let url = format!("file://{}", folder.display());
    /// let storage = FileStorage::open(&url)?;
    /// let store = storage.attach(Store::builder(Memory::new()).model::<Issue>()).open()?;
    /// storage.start(&store)?;
    /// let router = Api::new(&store).files(&storage).router();
    /// store.insert(&Issue { id: 0, attachment: None }).run()?;
    /// let put = TestRequest::put("/api/issue/1/attachment").header("Content-Type", "text/plain");
    /// assert_eq!(router.call(put.body("whistle"))?.status(), Status::OK);
    /// assert_eq!(router.call(TestRequest::get("/api/issue/1/attachment"))?.text(), "whistle");
    /// # storage.stop();
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "files")]
    pub fn files(mut self, storage: &marmota_files::FileStorage) -> Self {
        self.settings.files = Some(storage.clone());
        self
    }

    /// Serves a store with accounts without authentication: all callers may read and write the
    /// tables of the program's models. The tables of accounts stay inaccessible. Without this call
    /// and without `Api::auth`, a server with such a store does not start.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// use marmota_http::TestRequest;
    /// use marmota_rest::Api;
    ///
    /// // The routes of a store with accounts are refused without a decision about callers.
    /// assert!(Api::new(&store).router().call(TestRequest::get("/api")).is_err());
    /// let router = Api::new(&store).allow_anonymous().router();
    /// assert_eq!(router.call(TestRequest::get("/api"))?.status().code(), 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn allow_anonymous(mut self) -> Self {
        self.settings.allow_anonymous = true;
        self
    }

    /// Checks that callers are authenticated if the store has accounts.
    ///
    /// # Errors
    /// If it has, and neither `Api::auth` nor [`Api::allow_anonymous`] was called.
    fn check_accounts(&self) -> std::result::Result<(), Error> {
        let Stores::One(store) = &self.stores else { return Ok(()) };
        #[cfg(feature = "auth")]
        if self.settings.authenticator.is_some() {
            return Ok(());
        }
        match self.settings.allow_anonymous {
            true => Ok(()),
            false => store.registry().check_anonymous(),
        }
    }

    /// Returns the routes. A server with the routes of a store with accounts does not start, unless
    /// callers are authenticated (`Api::auth`) or [`Api::allow_anonymous`] was called.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
    /// # let store = Store::builder(Memory::new()).schema(Schema::new("city", fields)).open()?;
    /// use marmota_http::{Status, TestRequest};
    /// use marmota_rest::Api;
    ///
    /// let router = Api::new(&store).router();
    /// let refused = router.call(TestRequest::put("/api/city"))?;
    /// assert_eq!(refused.status(), Status::METHOD_NOT_ALLOWED);
    /// assert_eq!(refused.header("Allow"), Some("GET, HEAD, POST, DELETE, OPTIONS"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn router(self) -> Router {
        if let Err(error) = self.check_accounts() {
            let path = if self.prefix.is_empty() { "/" } else { &self.prefix };
            return Router::new().refuse(path, error.message());
        }
        let Self { prefix, body_bytes_max, lines_bytes_max, stores, additions, .. } = self;
        let (compression, mut settings) = (self.compression, self.settings);
        settings.page_rows_default = settings.page_rows_default.min(settings.page_rows_max);
        #[cfg(feature = "auth")]
        let authenticator = match &stores {
            Stores::One(_) => settings.authenticator.clone(),
            Stores::Tenants(_) => None,
        };
        let local_server = match &stores {
            Stores::One(store) => store.capability().local_server.clone(),
            Stores::Tenants(_) => None,
        };
        let pages = Arc::new(Pages::default());
        let source = match stores {
            Stores::One(store) => ApiSource::One(Arc::new(ApiState { store, pages, settings })),
            Stores::Tenants(tenants) => {
                ApiSource::Tenants(TenantSource { tenants, pages, settings })
            }
        };
        let routes = Endpoints { source, body_bytes_max, lines_bytes_max, compression };
        let at = |path: &str| format!("{prefix}{path}");
        let root = if prefix.is_empty() { "/".to_owned() } else { prefix.clone() };
        let router = Router::new().local_database(local_server.as_deref());
        #[cfg(feature = "auth")]
        let router = match &authenticator {
            Some(authenticator) => crate::account_routes::add(router, &prefix, authenticator),
            None => router,
        };
        let names_history = routes.names_history();
        #[cfg(feature = "files")]
        let names_file = routes.names_file();
        #[cfg(not(feature = "files"))]
        let names_file = |_: &Request| false;
        let of_part = Endpoints::others_by(move |request| match request {
            request if names_history(request) => "GET, HEAD, OPTIONS",
            request if names_file(request) => "GET, HEAD, PUT, DELETE, OPTIONS",
            _ => "GET, HEAD, PUT, OPTIONS",
        });
        #[cfg(feature = "files")]
        let router = routes.add_files(router, &prefix);
        router
            .on(Method::Get, &root, routes.document())
            .any(&root, Endpoints::others("GET, HEAD, OPTIONS"))
            .on(Method::Get, &at(OPEN_API), routes.open_api(additions))
            .any(&at(OPEN_API), Endpoints::others("GET, HEAD, OPTIONS"))
            .on(Method::Post, &at("/batch"), routes.batch())
            .any(&at("/batch"), Endpoints::others("POST, OPTIONS"))
            .on(Method::Get, &at("/{table}"), routes.list())
            .on(Method::Post, &at("/{table}"), routes.insert())
            .on(Method::Delete, &at("/{table}"), routes.table(DeleteWhere::of))
            .any(&at("/{table}"), Endpoints::others("GET, HEAD, POST, DELETE, OPTIONS"))
            .on(Method::Get, &at("/{table}/{id}"), routes.table(Get::of))
            .on(Method::Put, &at("/{table}/{id}"), routes.table(Update::replace))
            .on(Method::Patch, &at("/{table}/{id}"), routes.patch())
            .on(Method::Delete, &at("/{table}/{id}"), routes.table(Delete::of))
            .any(&at("/{table}/{id}"), Endpoints::others("GET, HEAD, PUT, PATCH, DELETE, OPTIONS"))
            .on(Method::Get, &at("/{table}/{id}/{field}"), routes.part())
            .on(Method::Put, &at("/{table}/{id}/{field}"), routes.put_part())
            .any(&at("/{table}/{id}/{field}"), of_part)
            .on(Method::Post, &at("/{table}/{id}/{field}/increment"), routes.table(Increment::of))
            .any(&at("/{table}/{id}/{field}/increment"), Endpoints::others("POST, OPTIONS"))
            .any(&at("/{rest:path}"), Endpoints::unknown())
    }
}
