//! Diagnostics for the operators of a server: statistics, health and log levels.
//!
//! ```text
//! GET /api/-/statistics HTTP/1.1
//! Authorization: Bearer 4be9…
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/json
//! Cache-Control: no-store
//!
//! {"engine":{"commits":42,…},"cache":null,"verbs":[{"table":"person","verb":"get","count":7,…}],…}
//!
//! PUT /api/-/levels HTTP/1.1
//! Content-Type: application/json
//!
//! {"filter":"debug"}
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/json
//!
//! {"filter":"debug"}
//! ```
//!
//! `-` cannot be the name of a table, so these paths do not conflict with the API.

mod prometheus;

use std::fmt;
use std::sync::Arc;

use marmota_http::{
    Endpoint, Flow, IntoResponse, Method, Metrics, Request, Response, ResponseWriter, Router,
};
use marmota_model::{Error, ErrorKind};
use marmota_store::Store;
use marmota_web::{ApiError, ApiResult, bearer_token, is_same_token};
use serde_json::{Map, Value, json};

use crate::request::answer::JSON;

/// The maximum size of a body in bytes. The only body is a filter of the log.
const BODY_BYTES_MAX: usize = 4 * 1024;

/// Routes for operators, in addition to the API:
///
/// | route | answer |
/// |---|---|
/// | `GET /api/-/statistics` | the activity of the store, by table, verb and session; slow operations; JSON |
/// | `GET /metrics` | the same, and the server's metrics, for Prometheus, if [`Diagnostics::metrics`] was called |
/// | `GET`, `PUT /api/-/levels` | `{"filter":"info,marmota::slow=off"}`, if [`Diagnostics::log_levels`] was called |
/// | `GET /healthz`, `/readyz` | 200 while the process serves; 200 while the store is open and the server is not shutting down |
///
/// All but the last require permission: an administrator (`Diagnostics::auth`), a token
/// ([`Diagnostics::token`]), or a request accepted by [`Diagnostics::allow`] or
/// [`Diagnostics::allow_reading`]. Without any of these settings they are not accessible.
///
/// ```no_run
/// # fn serve(store: marmota_store::Store) -> Result<(), Box<dyn std::error::Error>> {
/// use marmota_http::{Metrics, Server};
/// use marmota_rest::Diagnostics;
///
/// let metrics = Metrics::new();
/// let diagnostics = Diagnostics::new(&store).metrics(&metrics).allow(|request| request.peer().ip().is_none());
/// let routes = marmota_rest::api(&store).nest("", diagnostics.router());
/// Server::bind("127.0.0.1:8080")?.also_bind("unix:/run/app.sock")?.metrics(&metrics).run(routes)?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Diagnostics {
    prefix: String,
    metrics: Option<Metrics>,
    shared: Shared,
}

/// A function that returns true for permitted requests.
type Allow = Box<dyn Fn(&Request) -> bool + Send + Sync>;
/// A function that returns a section of the statistics.
type Part = Box<dyn Fn() -> Value + Send + Sync>;

/// The settings that the endpoints share.
struct Shared {
    store: Store,
    /// The accounts, whose administrators are permitted.
    #[cfg(feature = "auth")]
    auth: Option<marmota_auth::Auth>,
    /// The token that permits its sender.
    token: Option<String>,
    /// Permits a request to read and to change.
    allow: Option<Allow>,
    /// Permits a request to read.
    allow_reading: Option<Allow>,
    /// A hint that is added to the error of refused callers.
    denied_hint: String,
    /// Additional sections of the statistics, by name.
    parts: Vec<(&'static str, Part)>,
    /// False while the server should not get requests.
    is_ready: Box<dyn Fn() -> bool + Send + Sync>,
    /// The filter of the log; without it, its route does not exist.
    levels: Option<Arc<dyn LogLevels>>,
}

/// The filter of the log, changed while the program runs. `marmota::Log` implements it; implement
/// it for another logger of your program.
///
/// ```
/// # use marmota_memory::Memory;
/// # use marmota_model::{Field, Kind, Role, Schema};
/// # use marmota_store::Store;
/// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
/// # let store = Store::builder(Memory::new()).schema(Schema::new("city", fields)).open()?;
/// use std::sync::{Arc, Mutex};
///
/// use marmota_http::TestRequest;
/// use marmota_model::{Error, ErrorKind};
/// use marmota_rest::{Diagnostics, LogLevels};
///
/// struct Levels(Mutex<String>);
///
/// impl LogLevels for Levels {
///     fn filter(&self) -> String {
///         self.0.lock().unwrap().clone()
///     }
///
///     fn set_filter(&self, filter: &str) -> marmota_model::Result<()> {
///         if filter.contains(' ') {
///             return Err(Error::new(ErrorKind::Invalid, "a filter has no spaces"));
///         }
///         *self.0.lock().unwrap() = filter.to_owned();
///         Ok(())
///     }
/// }
///
/// let levels = Arc::new(Levels(Mutex::new("info".to_owned())));
/// let router = Diagnostics::new(&store).allow(|_| true).log_levels(levels).router();
/// let change = TestRequest::put("/api/-/levels").header("Content-Type", "application/json");
/// let answer = router.call(change.body(r#"{"filter":"debug"}"#))?;
/// assert_eq!(answer.text(), r#"{"filter":"debug"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait LogLevels: Send + Sync {
    /// Returns the current filter as text.
    fn filter(&self) -> String;

    /// Sets the filter. It applies to the whole process from the next message on.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the text is not a valid filter; the current one is kept.
    fn set_filter(&self, filter: &str) -> marmota_model::Result<()>;
}

impl Diagnostics {
    /// Creates the diagnostics of a store and its server. Statistics of tables, verbs and sessions
    /// require a store with metering (`StoreBuilder::metering`); those of the engine and the cache
    /// do not.
    ///
    /// Without further settings all routes except `/healthz` and `/readyz` are answered 403.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let schema = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// use marmota_http::TestRequest;
    /// use marmota_rest::Diagnostics;
    ///
    /// let router = Diagnostics::new(&store).router();
    /// assert_eq!(router.call(TestRequest::get("/readyz"))?.status().code(), 200);
    /// assert_eq!(router.call(TestRequest::get("/api/-/statistics"))?.status().code(), 403);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(store: &Store) -> Self {
        let shared = Shared {
            store: store.clone(),
            #[cfg(feature = "auth")]
            auth: None,
            token: None,
            allow: None,
            allow_reading: None,
            denied_hint: String::new(),
            parts: Vec::new(),
            is_ready: Box::new(|| true),
            levels: None,
        };
        Self { prefix: "/api".to_owned(), metrics: None, shared }
    }

    /// Sets the path of the API; the routes are below its `/-/`. `/metrics`, `/healthz` and
    /// `/readyz` are not affected. Default: `/api`.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let schema = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// use marmota_http::TestRequest;
    /// use marmota_rest::Diagnostics;
    ///
    /// let router = Diagnostics::new(&store).prefix("/v1").allow(|_| true).router();
    /// assert_eq!(router.call(TestRequest::get("/v1/-/statistics"))?.status().code(), 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.trim_end_matches('/').to_owned();
        self
    }

    /// Permits administrators, with a session or an API key. Other callers get 401 or 403.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let store = marmota_auth::models(Store::builder(Memory::new())).open()?;
    /// use marmota_auth::{Auth, Settings};
    /// use marmota_http::TestRequest;
    /// use marmota_rest::Diagnostics;
    ///
    /// let auth = Auth::new(&store, Settings::default())?;
    /// let router = Diagnostics::new(&store).auth(&auth).router();
    /// assert_eq!(router.call(TestRequest::get("/api/-/statistics"))?.status().code(), 401);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "auth")]
    pub fn auth(mut self, auth: &marmota_auth::Auth) -> Self {
        self.shared.auth = Some(auth.clone());
        self
    }

    /// Permits requests with this token, by `Authorization: Bearer …`. It must be a secret that
    /// cannot be guessed: 32 random bytes, for example, as text.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
    /// # let store = Store::builder(Memory::new()).schema(Schema::new("city", fields)).open()?;
    /// use marmota_http::{Status, TestRequest};
    /// use marmota_rest::Diagnostics;
    ///
    /// let router = Diagnostics::new(&store).token("4be9f1c0").router();
    /// let read = || TestRequest::get("/api/-/statistics");
    /// assert_eq!(router.call(read())?.status(), Status::UNAUTHORIZED);
    /// let read = read().header("Authorization", "Bearer 4be9f1c0");
    /// assert_eq!(router.call(read)?.status(), Status::OK);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.shared.token = Some(token.into());
        self
    }

    /// Permits requests for which the function returns true. A local peer address is not
    /// sufficient: behind a proxy on this machine it is the address of all requests
    /// ([`Request::is_forwarded`]).
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let schema = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// use marmota_http::{Request, TestRequest};
    /// use marmota_rest::Diagnostics;
    ///
    /// let is_direct = |request: &Request| !request.is_forwarded();
    /// let router = Diagnostics::new(&store).allow(is_direct).router();
    /// assert_eq!(router.call(TestRequest::get("/api/-/statistics"))?.status().code(), 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn allow(mut self, allow: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.shared.allow = Some(Box::new(allow));
        self
    }

    /// Permits requests that change nothing (GET and HEAD) if the function returns true, as
    /// [`Diagnostics::allow`] does for all requests.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let schema = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// use marmota_http::TestRequest;
    /// use marmota_rest::Diagnostics;
    ///
    /// let router = Diagnostics::new(&store).allow_reading(|_| true).router();
    /// assert_eq!(router.call(TestRequest::get("/api/-/statistics"))?.status().code(), 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn allow_reading(
        mut self,
        allow: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.shared.allow_reading = Some(Box::new(allow));
        self
    }

    /// Sets a hint on how to get permission, which is appended to the error of refused callers.
    /// Default: none.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let schema = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// use marmota_http::TestRequest;
    /// use marmota_rest::Diagnostics;
    ///
    /// let router = Diagnostics::new(&store).denied_hint("send the token of the operators").router();
    /// let refused = router.call(TestRequest::get("/api/-/statistics"))?;
    /// assert!(refused.text().contains("; send the token of the operators"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn denied_hint(mut self, way: impl Into<String>) -> Self {
        self.shared.denied_hint = way.into();
        self
    }

    /// Serves the metrics of the server and the store at `/metrics`. Those of the store are on this
    /// route only.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let schema = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// use marmota_http::{Metrics, TestRequest};
    /// use marmota_rest::Diagnostics;
    ///
    /// let router = Diagnostics::new(&store).metrics(&Metrics::new()).allow(|_| true).router();
    /// let text = router.call(TestRequest::get("/metrics"))?;
    /// assert!(text.text().contains("# TYPE marmota_engine_commits_total counter"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Adds a section to the statistics, for example that of services. The function is called for
    /// each request of the statistics. A section with the name of an existing member replaces it.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
    /// # let store = Store::builder(Memory::new()).schema(Schema::new("city", fields)).open()?;
    /// use marmota_http::TestRequest;
    /// use marmota_rest::Diagnostics;
    /// use serde_json::json;
    ///
    /// let diagnostics = Diagnostics::new(&store).allow(|_| true);
    /// let router = diagnostics.add_section("jobs", || json!({ "waiting": 3 })).router();
    /// let statistics = router.call(TestRequest::get("/api/-/statistics"))?;
    /// assert!(statistics.text().contains(r#""jobs":{"waiting":3}"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_section(
        mut self,
        name: &'static str,
        part: impl Fn() -> Value + Send + Sync + 'static,
    ) -> Self {
        self.shared.parts.push((name, Box::new(part)));
        self
    }

    /// Answers `/readyz` with 503 as long as `is_ready` returns false, in addition to its other
    /// conditions. It is called at each request, on a server thread, so it must return quickly.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let schema = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// use marmota_http::TestRequest;
    /// use marmota_rest::Diagnostics;
    ///
    /// let router = Diagnostics::new(&store).ready_if(|| false).router();
    /// assert_eq!(router.call(TestRequest::get("/readyz"))?.status().code(), 503);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ready_if(mut self, is_ready: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.shared.is_ready = Box::new(is_ready);
        self
    }

    /// Enables reading and changing the log's filter.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let id = Field::new("id", Kind::I64).role(Role::Key);
    /// # let schema = Schema::new("city", vec![id, Field::new("name", Kind::TEXT)]);
    /// # let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// use marmota_http::TestRequest;
    /// use marmota_rest::{Diagnostics, LogLevels};
    /// use std::sync::{Arc, Mutex};
    ///
    /// struct Levels(Mutex<String>);
    ///
    /// impl LogLevels for Levels {
    ///     fn filter(&self) -> String {
    ///         self.0.lock().unwrap().clone()
    ///     }
    ///
    ///     fn set_filter(&self, filter: &str) -> marmota_model::Result<()> {
    ///         *self.0.lock().unwrap() = filter.to_owned();
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let levels = Arc::new(Levels(Mutex::new("warn".to_owned())));
    /// let router = Diagnostics::new(&store).log_levels(levels).allow(|_| true).router();
    /// let change = TestRequest::put("/api/-/levels").body(r#"{"filter":"info"}"#);
    /// assert_eq!(router.call(change)?.text(), r#"{"filter":"info"}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn log_levels(mut self, levels: Arc<dyn LogLevels>) -> Self {
        self.shared.levels = Some(levels);
        self
    }

    /// Returns the routes. Nest them in the router of the API with an empty prefix.
    ///
    /// ```
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_store::Store;
    /// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
    /// # let store = Store::builder(Memory::new()).schema(Schema::new("city", fields)).open()?;
    /// use marmota_http::{Status, TestRequest};
    /// use marmota_rest::Diagnostics;
    ///
    /// let router = marmota_rest::api(&store).nest("", Diagnostics::new(&store).router());
    /// assert_eq!(router.call(TestRequest::get("/healthz"))?.status(), Status::OK);
    /// assert_eq!(router.call(TestRequest::get("/api/-/statistics"))?.status(), Status::FORBIDDEN);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn router(self) -> Router {
        let Self { prefix, metrics, shared } = self;
        let shared = Arc::new(shared);
        let ready = Arc::clone(&shared);
        let is_ready = move || ready.store.is_open() && (ready.is_ready)();
        let router = Router::new().health(is_ready).on(
            Method::Get,
            &format!("{prefix}/-/statistics"),
            endpoint(&shared, |shared, _| Ok(json_of(&shared.statistics()))),
        );
        let router = match metrics {
            Some(metrics) => router.on(
                Method::Get,
                "/metrics",
                endpoint(&shared, move |shared, _| {
                    // Not a collector: the server's metrics outlive a store that is replaced.
                    let mut text = metrics.text();
                    prometheus::write_store(&mut text, &shared.store);
                    let text = text.into_bytes();
                    Ok(Response::with_body("text/plain; version=0.0.4; charset=utf-8", text))
                }),
            ),
            None => router,
        };
        if shared.levels.is_none() {
            return router;
        }
        let path = format!("{prefix}/-/levels");
        router.on(Method::Get, &path, endpoint(&shared, |shared, _| Ok(shared.levels_now()))).on(
            Method::Put,
            &path,
            endpoint(&shared, Shared::change_levels),
        )
    }
}

impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Diagnostics").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Shared {
    /// Refuses callers without permission.
    ///
    /// The functions and the token are checked first, because they need no read of the store.
    /// Tokens are compared in constant time.
    ///
    /// # Errors
    /// 401 if a token or a login would help, otherwise 403. 403 also for a change that a page of
    /// another origin has sent: a function that permits by address would permit the browser of an
    /// operator.
    fn check(&self, request: &Request) -> ApiResult<Checked> {
        request.check_site()?;
        let lets = |allow: &Option<Allow>| allow.as_ref().is_some_and(|allow| allow(request));
        let reads = matches!(request.method(), Method::Get | Method::Head);
        if lets(&self.allow) || reads && lets(&self.allow_reading) {
            return Ok(Checked::Now);
        }
        if let Some(token) = &self.token {
            let sent = request.header("authorization").and_then(bearer_token);
            if sent.is_some_and(|sent| is_same_token(sent, token)) {
                return Ok(Checked::Now);
            }
        }
        #[cfg(feature = "auth")]
        if let Some(auth) = &self.auth {
            let mut knowing = marmota_web::authenticate(auth, request);
            return match knowing.ready() {
                Some(known) => self.check_known(known?.as_deref()).map(|()| Checked::Now),
                None => Ok(Checked::Later(knowing)),
            };
        }
        Err(match &self.token {
            Some(_) => {
                let message = "send the token for diagnostics: `Authorization: Bearer TOKEN`";
                self.refusal(ErrorKind::Unauthenticated, message)
            }
            None => self.refusal(ErrorKind::Denied, "you may not read or change diagnostics"),
        })
    }

    /// Refuses callers that are not administrators.
    ///
    /// # Errors
    /// 401 for an anonymous caller, 403 for another user.
    #[cfg(feature = "auth")]
    fn check_known(&self, known: Option<&marmota_auth::Identity>) -> ApiResult<()> {
        match known {
            Some(known) if known.is_admin() => Ok(()),
            Some(_) => Err(self.refusal(
                ErrorKind::Denied,
                "only administrators may read or change \
                                                            diagnostics",
            )),
            None => {
                let message = "log in as an administrator, or send a token";
                Err(self.refusal(ErrorKind::Unauthenticated, message))
            }
        }
    }

    /// Returns the error for a refused caller, with the hint if one is set.
    fn refusal(&self, kind: ErrorKind, message: &str) -> ApiError {
        let message = match &*self.denied_hint {
            "" => message.to_owned(),
            way => format!("{message}; {way}"),
        };
        Error::new(kind, message).into()
    }

    /// Returns the document of `GET /api/-/statistics`. Members that need metering are left out
    /// without it.
    fn statistics(&self) -> Value {
        let numbers = self.store.statistics();
        let mut all = Map::new();
        all.insert("engine".into(), json!(numbers.engine));
        all.insert("cache".into(), json!(numbers.cache));
        if let Some(activity) = self.store.activity() {
            all.insert("class_ends_us".into(), json!(marmota_store::meter::CLASS_ENDS_US));
            all.insert("verbs".into(), json!(activity.verbs));
            all.insert("sessions".into(), json!(activity.sessions));
            all.insert("slow".into(), json!(activity.slow));
        }
        for (name, part) in &self.parts {
            all.insert((*name).into(), part());
        }
        Value::Object(all)
    }

    /// Returns the answer with the current filter of the log.
    fn levels_now(&self) -> Response {
        let filter = self.levels.as_ref().map(|levels| levels.filter());
        json_of(&json!({ "filter": filter }))
    }

    /// Sets the filter of the log from the body, and returns it as [`Self::levels_now`] does. The
    /// change is logged, so that a gap in the log has an explanation.
    ///
    /// # Errors
    /// 415 for a body that is not JSON, 422 for another member or an invalid filter.
    fn change_levels(&self, request: &Request) -> ApiResult<Response> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Change {
            filter: String,
        }
        crate::protocol::body::check_json(request)?;
        let Change { filter } = serde_json::from_slice(request.body()).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("the body is not valid: {error}"))
        })?;
        if let Some(levels) = &self.levels {
            levels.set_filter(&filter)?;
            log::info!("the log filter was set to {filter:?}");
        }
        Ok(self.levels_now())
    }
}

/// Returns a response with this document.
fn json_of(value: &Value) -> Response {
    Response::with_body(JSON, value.to_string().into_bytes())
}

/// Returns an endpoint that checks the caller and then answers. With accounts, the caller may have
/// to be read from the store first; the answer is then a future.
fn endpoint(
    shared: &Arc<Shared>,
    answer: impl Fn(&Shared, &Request) -> ApiResult<Response> + Send + Sync + 'static,
) -> Endpoint {
    let (shared, answer) = (Arc::clone(shared), Arc::new(answer));
    let endpoint = Endpoint::direct(move |request: &Request, out: &mut ResponseWriter<'_>| {
        match shared.check(request) {
            Err(error) => out.respond(respond(Err(error))),
            Ok(Checked::Now) => out.respond(respond(answer(&shared, request))),
            #[cfg(feature = "auth")]
            Ok(Checked::Later(knowing)) => {
                let (shared, answer) = (Arc::clone(&shared), Arc::clone(&answer));
                let request = request.clone();
                return Flow::Later(Box::pin(async move {
                    let checked =
                        knowing.await.and_then(|known| shared.check_known(known.as_deref()));
                    respond(checked.and_then(|()| answer(&shared, &request)))
                }));
            }
        }
        Flow::Done
    });
    endpoint.body_bytes_max(BODY_BYTES_MAX)
}

/// Returns the response of an endpoint, with `Cache-Control: no-store`; errors become problem
/// documents.
fn respond(answered: ApiResult<Response>) -> Response {
    let response = answered.unwrap_or_else(IntoResponse::into_response);
    // The response is a snapshot, and private to its caller.
    response.with_header("Cache-Control", "no-store").unwrap_or_else(|error| {
        log::error!("{error:?}");
        Response::from_status(marmota_http::Status::INTERNAL_SERVER_ERROR)
    })
}

/// The result of the permission check.
enum Checked {
    /// The caller is permitted.
    Now,
    /// The caller must be looked up first.
    #[cfg(feature = "auth")]
    Later(marmota_web::AuthenticatingRequest),
}
