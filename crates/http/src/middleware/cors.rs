//! Cross-origin requests: which pages of other origins may use a service (the Fetch standard's
//! CORS protocol).

use std::borrow::Cow;
use std::ops::ControlFlow;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::Response;
use crate::proto::method::Method;
use crate::proto::status::Status;
use crate::routing::layer::Layer;

/// Lets pages of other origins use what it is around, and answers what their browsers ask before
/// (OPTIONS).
///
/// ```
/// use marmota_http::{Cors, Router};
/// let cors = Cors::of(["https://app.example.org"]).credentials().max_age_s(600);
/// let router = Router::new().get("/", |_| async { "for the app" }).layer(cors);
/// ```
#[derive(Clone, Debug)]
pub struct Cors {
    /// None lets all.
    origins: Option<Vec<String>>,
    credentials: bool,
    methods: Cow<'static, str>,
    headers: Option<String>,
    exposed: Option<String>,
    max_age_s: u32,
}

impl Cors {
    /// Lets pages of any origin, without cookies.
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

    /// Lets pages of these origins: scheme, host and, if it is not the usual one, port.
    pub fn of(origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { origins: Some(origins.into_iter().map(Into::into).collect()), ..Self::any() }
    }

    /// Lets them send cookies and certificates; only where origins are named.
    ///
    /// # Panics
    /// On [`Cors::any`], which would hand every user's session to every page.
    #[must_use]
    pub fn credentials(mut self) -> Self {
        assert!(self.origins.is_some(), "credentials are for origins that are named: Cors::of");
        self.credentials = true;
        self
    }

    /// The methods beside the simple ones; those of REST unless said.
    ///
    /// # Panics
    /// When a name is no token.
    #[must_use]
    pub fn methods<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.methods = list(names).into();
        self
    }

    /// The headers that requests may have; whichever the page asks for unless said.
    ///
    /// # Panics
    /// When a name is no token.
    #[must_use]
    pub fn headers<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.headers = Some(list(names));
        self
    }

    /// The answers' headers that pages may read beside the simple ones.
    ///
    /// # Panics
    /// When a name is no token.
    #[must_use]
    pub fn exposed<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.exposed = Some(list(names));
        self
    }

    /// How long browsers need not ask again; five minutes unless said.
    #[must_use]
    pub fn max_age_s(mut self, seconds: u32) -> Self {
        self.max_age_s = seconds;
        self
    }
}

fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    for name in &names {
        assert!(crate::proto::head::is_token(name.as_bytes()), "{name:?} is no name");
    }
    names.join(", ")
}

impl Layer for Cors {
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

    fn answers_options(&self) -> bool {
        true
    }
}
