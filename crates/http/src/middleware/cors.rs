//! Cross-origin requests: which pages of other origins may use a service (the CORS protocol of the
//! Fetch standard, <https://fetch.spec.whatwg.org/#http-cors-protocol>).
//!
//! The layer adds `Access-Control-*` headers, and answers preflight requests itself. The browser
//! enforces them; other clients are not affected. So it is not an access control: it only grants
//! pages what browsers deny by default.

use std::borrow::Cow;
use std::ops::ControlFlow;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::Response;
use crate::proto::method::Method;
use crate::proto::status::Status;
use crate::routing::layer::Layer;

/// A layer that lets pages of other origins use the routes within it, and answers the preflight
/// requests of their browsers (OPTIONS). An allowed origin may also write: it passes the check of
/// [`CrossSite`](crate::CrossSite).
///
/// ```
/// use marmota_http::{Cors, Router, TestRequest};
///
/// let cors = Cors::of(["https://app.example.org"]).credentials().max_age_s(600);
/// let router = Router::new().get("/", |_| async { "for the app" }).layer(cors);
///
/// let page = |origin: &str| router.call(TestRequest::get("/").header("Origin", origin));
/// let allowed = page("https://app.example.org")?;
/// assert_eq!(allowed.header("Access-Control-Allow-Origin"), Some("https://app.example.org"));
/// assert_eq!(page("https://other.example")?.header("Access-Control-Allow-Origin"), None);
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cors {
    /// `None` allows all origins.
    origins: Option<Vec<String>>,
    credentials: bool,
    /// The value of `Access-Control-Allow-Methods`.
    methods: Cow<'static, str>,
    /// The value of `Access-Control-Allow-Headers`; `None` for the headers that the page requests.
    headers: Option<String>,
    /// The value of `Access-Control-Expose-Headers`.
    exposed: Option<String>,
    max_age_s: u32,
}

impl Cors {
    /// Allows pages of any origin, without cookies. For public data.
    ///
    /// ```
    /// use marmota_http::{Cors, Router, TestRequest};
    ///
    /// let router = Router::new().get("/", |_| async { "public" }).layer(Cors::any());
    /// let answer = router.call(TestRequest::get("/").header("Origin", "https://any.example"))?;
    /// assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("*"));
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn any() -> Self {
        Self {
            origins: None,
            credentials: false,
            methods: "GET, HEAD, POST, PUT, PATCH, DELETE".into(),
            headers: None,
            exposed: None,
            max_age_s: 300,
        }
    }

    /// Allows pages of these origins: scheme, host and, unless it is the default one, port. Case is
    /// ignored.
    pub fn of(origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { origins: Some(origins.into_iter().map(Into::into).collect()), ..Self::any() }
    }

    /// Allows requests with cookies and client certificates, and reading their answers. Default:
    /// not allowed.
    ///
    /// # Panics
    /// On [`Cors::any`], since every page could then use every user's session.
    #[must_use]
    pub fn credentials(mut self) -> Self {
        assert!(self.origins.is_some(), "credentials need a list of origins: use Cors::of");
        self.credentials = true;
        self
    }

    /// Sets the methods that pages may use in addition to the simple ones. Default: GET, HEAD,
    /// POST, PUT, PATCH, DELETE.
    ///
    /// ```
    /// use marmota_http::{Cors, Method, Router, Status, TestRequest};
    ///
    /// let cors = Cors::any().methods(["GET", "PUT"]).headers(["Content-Type"]);
    /// let router = Router::new().get("/", |_| async { "open to all pages" }).layer(cors);
    /// let preflight = TestRequest::new(Method::Options, "/")
    ///     .header("Origin", "https://app.example.org")
    ///     .header("Access-Control-Request-Method", "PUT");
    /// let answer = router.call(preflight)?;
    /// assert_eq!(answer.status(), Status::NO_CONTENT);
    /// assert_eq!(answer.header("Access-Control-Allow-Methods"), Some("GET, PUT"));
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    ///
    /// # Panics
    /// If a name is not a token (RFC 9110, 5.6.2).
    #[must_use]
    pub fn methods<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.methods = list(names).into();
        self
    }

    /// Sets the headers that requests of pages may have. Default: those that the page requests.
    ///
    /// # Panics
    /// If a name is not a token.
    #[must_use]
    pub fn headers<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.headers = Some(list(names));
        self
    }

    /// Sets the headers of answers that pages may read in addition to the simple ones. Default:
    /// none.
    ///
    /// ```
    /// use marmota_http::Cors;
    /// // For pages that update rows with `If-Match`.
    /// let cors = Cors::of(["https://app.example.org"]).exposed(["ETag", "X-Request-Id"]);
    /// ```
    ///
    /// # Panics
    /// If a name is not a token.
    #[must_use]
    pub fn exposed<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.exposed = Some(list(names));
        self
    }

    /// Sets how long browsers may cache the answer to a preflight request, in seconds. Default:
    /// 300.
    #[must_use]
    pub fn max_age_s(mut self, seconds: u32) -> Self {
        self.max_age_s = seconds;
        self
    }
}

/// Joins names to the value of a header.
fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    for name in &names {
        assert!(crate::proto::head::is_token(name.as_bytes()), "{name:?} is not a valid name");
    }
    names.join(", ")
}

impl Layer for Cors {
    /// Adds the headers for an allowed origin, and answers preflight requests. `Vary: Origin` is
    /// added even for other origins, since caches must not mix the answers.
    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
        if self.origins.is_some() {
            headers.put("Vary", "Origin");
        }
        let asks = request.method() == Method::Options
            && request.header("access-control-request-method").is_some();
        let origin = request.header_text("origin");
        let allowed = match (&self.origins, origin) {
            (_, None) => None,
            (None, Some(_)) => Some(Cow::Borrowed("*")),
            (Some(known), Some(origin)) => known
                .iter()
                .any(|known| known.eq_ignore_ascii_case(origin))
                .then(|| Cow::Owned(origin.to_owned())),
        };
        if let Some(allowed) = allowed {
            request.0.origin_allowed.set(true);
            headers.put("Access-Control-Allow-Origin", allowed);
            if self.credentials {
                headers.put("Access-Control-Allow-Credentials", "true");
            }
            if asks {
                headers.put("Access-Control-Allow-Methods", self.methods.clone());
                let wanted = request.header_text("access-control-request-headers");
                if let Some(names) = self.headers.as_deref().or(wanted) {
                    headers.put("Access-Control-Allow-Headers", names.to_owned());
                }
                headers.put("Access-Control-Max-Age", self.max_age_s.to_string());
            } else if let Some(exposed) = &self.exposed {
                headers.put("Access-Control-Expose-Headers", exposed.clone());
            }
        }
        match asks {
            true => ControlFlow::Break(Response::new(Status::NO_CONTENT)),
            false => ControlFlow::Continue(()),
        }
    }

    /// Returns true: OPTIONS on the route is answered by this layer.
    fn answers_options(&self) -> bool {
        true
    }
}
