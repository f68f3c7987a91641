//! Diagnostics for the operators of a server: statistics, health and log levels.

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

/// The maximum size of a body in bytes.
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
/// All but the last require permission: an administrator ([`Diagnostics::auth`]), a token
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

type Allow = Box<dyn Fn(&Request) -> bool + Send + Sync>;
type Part = Box<dyn Fn() -> Value + Send + Sync>;

struct Shared {
    store: Store,
    #[cfg(feature = "auth")]
    auth: Option<marmota_auth::Auth>,
    token: Option<String>,
    allow: Option<Allow>,
    allow_reading: Option<Allow>,
    /// A hint that is added to the error of refused callers.
    denied_hint: String,
    parts: Vec<(&'static str, Part)>,
    levels: Option<Arc<dyn LogLevels>>,
}

/// The filter of the log, changed while the program runs.
pub trait LogLevels: Send + Sync {
    /// Returns the current filter as text.
    fn filter(&self) -> String;

    /// Sets the filter.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the text is not a valid filter.
    fn set_filter(&self, filter: &str) -> marmota_model::Result<()>;
}

impl Diagnostics {
    /// Creates the diagnostics of a store and its server.
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
            levels: None,
        };
        Self { prefix: "/api".to_owned(), metrics: None, shared }
    }

    /// Sets the path of the API. Default: `/api`.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.trim_end_matches('/').to_owned();
        self
    }

    /// Permits administrators.
    #[cfg(feature = "auth")]
    pub fn auth(mut self, auth: &marmota_auth::Auth) -> Self {
        self.shared.auth = Some(auth.clone());
        self
    }

    /// Permits requests with this token, by `Authorization: Bearer …`. It must be a secret that
    /// cannot be guessed: 32 random bytes, for example, as text.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.shared.token = Some(token.into());
        self
    }

    /// Permits requests for which the function returns true. A local peer address is not
    /// sufficient: behind a proxy on this machine it is the address of all requests
    /// ([`Request::is_forwarded`]).
    pub fn allow(mut self, allow: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.shared.allow = Some(Box::new(allow));
        self
    }

    /// As [`Diagnostics::allow`], for requests that change nothing.
    pub fn allow_reading(
        mut self,
        allow: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.shared.allow_reading = Some(Box::new(allow));
        self
    }

    /// Sets a hint on how to get permission, which is appended to the error of refused callers.
    pub fn denied_hint(mut self, way: impl Into<String>) -> Self {
        self.shared.denied_hint = way.into();
        self
    }

    /// Serves the metrics of the server and the store at `/metrics`.
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        let store = self.shared.store.clone();
        metrics.add_collector(move |text| prometheus::write_store(text, &store));
        self.metrics = Some(metrics.clone());
        self
    }

    /// Adds a section to the statistics, for example that of services.
    pub fn add_section(
        mut self,
        name: &'static str,
        part: impl Fn() -> Value + Send + Sync + 'static,
    ) -> Self {
        self.shared.parts.push((name, Box::new(part)));
        self
    }

    /// Enables reading and changing the log's filter.
    pub fn log_levels(mut self, levels: Arc<dyn LogLevels>) -> Self {
        self.shared.levels = Some(levels);
        self
    }

    /// Returns the routes.
    #[must_use]
    pub fn router(self) -> Router {
        let Self { prefix, metrics, shared } = self;
        let shared = Arc::new(shared);
        let store = shared.store.clone();
        let router = Router::new().health(move || store.is_open()).on(
            Method::Get,
            &format!("{prefix}/-/statistics"),
            endpoint(&shared, |shared, _| Ok(json_of(&shared.statistics()))),
        );
        let router = match metrics {
            Some(metrics) => router.on(
                Method::Get,
                "/metrics",
                endpoint(&shared, move |_, _| {
                    let text = metrics.text().into_bytes();
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
                let message = "send the operators' token: `Authorization: Bearer …`";
                self.refusal(ErrorKind::Unauthenticated, message)
            }
            None => self.refusal(ErrorKind::Denied, "you may not read or change diagnostics"),
        })
    }

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

    fn refusal(&self, kind: ErrorKind, message: &str) -> ApiError {
        let message = match &*self.denied_hint {
            "" => message.to_owned(),
            way => format!("{message}; {way}"),
        };
        Error::new(kind, message).into()
    }

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

    fn levels_now(&self) -> Response {
        let filter = self.levels.as_ref().map(|levels| levels.filter());
        json_of(&json!({ "filter": filter }))
    }

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

fn json_of(value: &Value) -> Response {
    Response::with_body(JSON, value.to_string().into_bytes())
}

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
    Now,
    /// The caller must be looked up first.
    #[cfg(feature = "auth")]
    Later(marmota_web::AuthenticatingRequest),
}
