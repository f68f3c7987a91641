//! Routes for administrators, below `/api/-/`: what a user may do, jobs, the log, backups.
//!
//! | route | what it does |
//! |---|---|
//! | `GET /api/-/access` | what a user may do with the tables, a table or a row, and why not |
//! | `GET /api/-/access/rows` | the rows of a table as a user sees them |
//! | `GET /api/-/jobs`, `/api/-/jobs/{id}` | jobs, with their input, progress and error |
//! | `GET /api/-/jobs/overview` | queues, schedules and workers |
//! | `POST /api/-/jobs/{id}/retry`, `…/cancel` | repeats or cancels a job |
//! | `GET /api/-/log`, `/api/-/log/live` | the last lines of the log, and new ones as events |
//! | `GET`, `POST /api/-/backups` | the backups in a folder; a new one |
//! | `PUT /api/-/backups/schedule` | the times of backups, and how many are kept |
//! | `POST /api/-/backups/{name}/verify` | compares a backup with its manifest |
//! | `GET /api/-/backups/{name}/file`, `…/manifest` | the files of a backup |
//! | `GET /api/-/replication` | the state of the replication |
//!
//! The pages of the administration use these routes, so a script can do what they do.

mod access;
mod backup_schedule;
mod backups;
mod job_routes;
mod recent_log;

use marmota_auth::Auth;
use marmota_http::{Endpoint, Method, Router};
use marmota_rest::OpenApi;
use marmota_store::Store;
use serde_json::{Value, json};

pub use self::backups::Backups;
pub use self::recent_log::RecentLog;

/// The table that every store with jobs has.
const JOBS_TABLE: &str = "marmota_job";

/// The routes for administrators of a store, and their description.
///
/// ```
/// use marmota::http::TestRequest;
/// use marmota::operations::Operations;
/// use marmota::prelude::*;
///
/// let builder = marmota::jobs::models(marmota::open("memory:")?);
/// let store = builder.open()?;
/// let operations = Operations::new(&store);
/// let answer = operations.router().call(TestRequest::get("/api/-/jobs"))?;
/// assert_eq!((answer.status(), answer.text()), (Status::OK, r#"{"jobs":[]}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Operations {
    store: Store,
    prefix: String,
    auth: Option<Auth>,
    log: Option<RecentLog>,
    backups: Option<Backups>,
    replication: Option<Status>,
}

/// Returns a state as JSON.
type Status = std::sync::Arc<dyn Fn() -> Value + Send + Sync>;

impl Operations {
    /// Creates the routes of a store: those of its jobs, if it has their tables.
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            prefix: "/api".to_owned(),
            auth: None,
            log: None,
            backups: None,
            replication: None,
        }
    }

    /// Permits the routes to administrators only, and adds those for the access of users. Default:
    /// everyone who reaches the server may use the routes.
    ///
    /// ```
    /// use marmota::auth::{Auth, Settings};
    /// use marmota::http::{Status, TestRequest};
    /// use marmota::operations::Operations;
    /// let store = marmota::auth::models(marmota::open("memory:")?).open()?;
    /// let auth = Auth::new(&store, Settings::default())?;
    /// let router = Operations::new(&store).auth(&auth).router();
    /// let refused = router.call(TestRequest::get("/api/-/access"))?;
    /// assert_eq!(refused.status(), Status::UNAUTHORIZED);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn auth(mut self, auth: &Auth) -> Self {
        self.auth = Some(auth.clone());
        self
    }

    /// Sets the prefix of the API. Default: `/api`.
    ///
    /// ```
    /// use marmota::http::{Status, TestRequest};
    /// use marmota::operations::Operations;
    /// let store = marmota::jobs::models(marmota::open("memory:")?).open()?;
    /// let router = Operations::new(&store).prefix("/v1").router();
    /// assert_eq!(router.call(TestRequest::get("/v1/-/jobs"))?.status(), Status::OK);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.trim_end_matches('/').clone_into(&mut self.prefix);
        self
    }

    /// Adds the routes of the log.
    ///
    /// ```
    /// use marmota::http::{Status, TestRequest};
    /// use marmota::operations::{Operations, RecentLog};
    /// let store = marmota::open("memory:")?.open()?;
    /// let router = Operations::new(&store).log(&RecentLog::new(1000, None)).router();
    /// assert_eq!(router.call(TestRequest::get("/api/-/log"))?.status(), Status::OK);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn log(mut self, log: &RecentLog) -> Self {
        self.log = Some(log.clone());
        self
    }

    /// Adds the routes of backups.
    ///
    /// ```
    /// use marmota::http::{Status, TestRequest};
    /// use marmota::operations::{Backups, Operations};
    /// let store = marmota::open("memory:")?.open()?;
    /// let operations = Operations::new(&store).backups(&Backups::new(&store, "backups"));
    /// let list = TestRequest::get("/api/-/backups");
    /// assert_eq!(operations.router().call(list)?.status(), Status::OK);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn backups(mut self, backups: &Backups) -> Self {
        self.backups = Some(backups.clone());
        self
    }

    /// Adds the route for the state of the replication, which this function returns.
    ///
    /// ```
    /// use marmota::http::TestRequest;
    /// use marmota::operations::Operations;
    /// let store = marmota::open("memory:")?.open()?;
    /// let operations = Operations::new(&store).replication(|| serde_json::json!({"lag_ms": 7}));
    /// let answer = operations.router().call(TestRequest::get("/api/-/replication"))?;
    /// assert_eq!(answer.text(), r#"{"lag_ms":7}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replication(mut self, status: impl Fn() -> Value + Send + Sync + 'static) -> Self {
        self.replication = Some(std::sync::Arc::new(status));
        self
    }

    /// Returns the routes. A server with the routes of a store with accounts does not start without
    /// [`Operations::auth`].
    #[must_use]
    pub fn router(&self) -> Router {
        if self.auth.is_none()
            && let Err(error) = self.store.registry().check_anonymous()
        {
            return Router::new().refuse(&format!("{}/-", self.prefix), error.message());
        }
        self.routes().into_iter().fold(Router::new(), |router, route| {
            router.on(route.method, &format!("{}/-{}", self.prefix, route.path), route.endpoint)
        })
    }

    /// Returns the description of the routes, for [`marmota_rest::Api::openapi`].
    ///
    /// ```
    /// use marmota::operations::Operations;
    /// use marmota::rest::Api;
    /// let store = marmota::jobs::models(marmota::open("memory:")?).open()?;
    /// let operations = Operations::new(&store);
    /// let api = Api::new(&store).openapi(operations.open_api());
    /// let router = api.router().nest("", operations.router());
    /// # let _ = router;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_api(&self) -> OpenApi {
        self.routes().iter().fold(OpenApi::new(), |document, route| {
            let path = format!("{}/-{}", self.prefix, route.path);
            document.operation(route.method, &path, route.description())
        })
    }

    fn routes(&self) -> Vec<AdminRoute> {
        let auth = self.auth.as_ref();
        let mut routes = Vec::new();
        if let Some(auth) = auth {
            routes.extend(access::routes(auth, &self.store));
        }
        if self.store.table(JOBS_TABLE).is_ok() {
            routes.extend(job_routes::routes(auth, &self.store));
        }
        if let Some(log) = &self.log {
            routes.extend(log.routes(auth, &self.store));
        }
        if let Some(backups) = &self.backups {
            routes.extend(backups.routes(auth));
        }
        if let Some(status) = &self.replication {
            routes.push(backups::replication(auth, status));
        }
        routes
    }
}

impl std::fmt::Debug for Operations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operations").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// A route with its description.
struct AdminRoute {
    method: Method,
    /// The path below `/api/-`.
    path: &'static str,
    summary: &'static str,
    /// The parameters of the query, with what they are.
    query: &'static [(&'static str, &'static str)],
    /// The schema of the body, if it has one.
    body: Option<Value>,
    /// The media type of the answer.
    answer: &'static str,
    endpoint: Endpoint,
}

impl AdminRoute {
    fn new(method: Method, path: &'static str, summary: &'static str, endpoint: Endpoint) -> Self {
        let answer = "application/json";
        Self { method, path, summary, query: &[], body: None, answer, endpoint }
    }

    /// Sets the schema of the body.
    fn body(mut self, schema: Value) -> Self {
        self.body = Some(schema);
        self
    }

    /// Sets the parameters of the query.
    const fn query(mut self, query: &'static [(&'static str, &'static str)]) -> Self {
        self.query = query;
        self
    }

    /// Sets the media type of the answer.
    const fn answer(mut self, media_type: &'static str) -> Self {
        self.answer = media_type;
        self
    }

    /// Returns the route as an Operation Object.
    fn description(&self) -> Value {
        let words = self.path.split(['/', '{', '}']).filter(|word| !word.is_empty());
        let words: Vec<&str> = words.collect();
        let method = self.method.name().to_ascii_lowercase();
        let text = json!({ "type": "string" });
        let in_path = self.path.split('{').skip(1).filter_map(|part| part.split('}').next());
        let mut parameters: Vec<Value> = in_path
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": text }))
            .collect();
        parameters.extend(self.query.iter().map(|(name, what)| {
            json!({ "name": name, "in": "query", "description": what, "schema": text })
        }));
        let schema = match self.answer {
            "application/json" => json!({ "type": "object" }),
            _ => text,
        };
        let content = json!({ self.answer: { "schema": schema } });
        let mut description = json!({
            "operationId": format!("operations.{}.{method}", words.join(".")),
            "summary": self.summary,
            "tags": ["operations"],
            "parameters": parameters,
            "responses": { "200": { "description": "The result", "content": content } },
        });
        if let Some(schema) = &self.body {
            let content = json!({ "application/json": { "schema": schema } });
            description["requestBody"] = json!({ "required": true, "content": content });
        }
        description
    }
}
