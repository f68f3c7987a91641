//! The options of `serve` for middleware around all routes except the pages: security headers, CORS and
//! a limit on the rate of requests. A reload replaces them while the server runs ([`LayerSlot`]).

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use clap::Args;
use marmota_http::{AddedHeaders, Cors, Layer, RateLimit, Request, Response, SecurityHeaders};
use marmota_model::{Error, ErrorKind, Result};

use super::option_values::positive;

/// The options of middleware.
#[derive(Args)]
#[command(next_help_heading = "Middleware")]
pub(super) struct LayerOptions {
    /// Origins whose pages may use the service (CORS): https://app.example.org, or * for all
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',', value_parser = origin)]
    cors_origin: Vec<String>,
    /// Lets the pages of these origins send cookies; not with *
    #[arg(long)]
    cors_credentials: bool,
    /// The time for which a browser keeps the answer to a preflight request
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    cors_max_age_s: u32,
    /// The methods that these pages may use. Default: those that a page requests
    #[arg(long, value_name = "METHOD", value_delimiter = ',', value_parser = token)]
    cors_methods: Vec<String>,
    /// The headers that requests of these pages may have. Default: those that a page requests
    #[arg(long, value_name = "HEADER", value_delimiter = ',', value_parser = token)]
    cors_headers: Vec<String>,
    /// The headers of answers that these pages may read, in addition to those that are always
    /// readable: ETag,Location
    #[arg(long, value_name = "HEADER", value_delimiter = ',', value_parser = token)]
    cors_exposed: Vec<String>,
    /// The number of requests per second of one client address (429). Default: no limit
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    rate_limit: Option<f64>,
    /// The number of requests that one client address may send at once
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = positive::<u32>)]
    rate_limit_burst: u32,
    /// Adds `X-Content-Type-Options`, `X-Frame-Options` and `Referrer-Policy` to answers. The pages
    /// always have them
    #[arg(long)]
    security_headers: bool,
    /// Adds `Strict-Transport-Security` with this time; it implies --security-headers
    #[arg(long, value_name = "SECONDS", value_parser = positive::<u64>)]
    hsts_s: Option<u64>,
    /// Lets pages of this server frame each other; it implies --security-headers
    #[arg(long)]
    framed_by_itself: bool,
    /// Adds `Content-Security-Policy` with this policy; it implies --security-headers
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    content_security_policy: Option<String>,
}

/// The layers of the options; `None` for those that are off.
#[derive(Default)]
pub(super) struct Layers {
    security: Option<SecurityHeaders>,
    cors: Option<Cors>,
    rate_limit: Option<Arc<RateLimit>>,
}

impl LayerOptions {
    /// Returns the layers of these options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for `--cors-credentials` without a list of origins.
    pub(super) fn layers(&self) -> Result<Layers> {
        let is_any = self.cors_origin.iter().any(|origin| origin == "*");
        if self.cors_credentials && (is_any || self.cors_origin.is_empty()) {
            let message =
                "`cors_credentials` needs a list of origins in `cors_origin`, without `*`";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let cors = match (&*self.cors_origin, is_any) {
            ([], _) => None,
            (_, true) => Some(Cors::any()),
            (origins, false) => Some(Cors::of(origins)),
        };
        let cors = cors.map(|cors| cors.max_age_s(self.cors_max_age_s));
        let cors = cors.map(|cors| if self.cors_credentials { cors.credentials() } else { cors });
        let cors = cors.map(|cors| {
            let cors = match &*self.cors_methods {
                [] => cors,
                names => cors.methods(names.iter().map(String::as_str)),
            };
            let cors = match &*self.cors_headers {
                [] => cors,
                names => cors.headers(names.iter().map(String::as_str)),
            };
            match &*self.cors_exposed {
                [] => cors,
                names => cors.exposed(names.iter().map(String::as_str)),
            }
        });
        let security = self.security();
        let rate_limit = self
            .rate_limit
            .map(|per_second| Arc::new(RateLimit::per_address(per_second, self.rate_limit_burst)));
        Ok(Layers { security, cors, rate_limit })
    }

    /// Returns the security headers, if one of their options is given.
    fn security(&self) -> Option<SecurityHeaders> {
        let has_some = self.security_headers
            || self.framed_by_itself
            || self.hsts_s.is_some()
            || self.content_security_policy.is_some();
        let headers = has_some.then(SecurityHeaders::new)?;
        let headers = match self.framed_by_itself {
            true => headers.framed_by_itself(),
            false => headers,
        };
        let headers = match self.hsts_s {
            Some(seconds) => headers.strict_transport_security_s(seconds),
            None => headers,
        };
        Some(match &self.content_security_policy {
            Some(policy) => headers.content_security_policy(policy),
            None => headers,
        })
    }
}

/// A layer whose content is replaced by a reload. Without content it costs a load of a flag.
#[derive(Clone, Default)]
pub(super) struct LayerSlot(Arc<Slot>);

#[derive(Default)]
struct Slot {
    is_used: AtomicBool,
    layers: RwLock<Layers>,
}

impl LayerSlot {
    /// Replaces the layers. With `keep_rate_limit`, the rate limit stays, with the requests that it
    /// has counted.
    pub(super) fn set(&self, layers: Layers, keep_rate_limit: bool) {
        let mut layers = layers;
        let mut slot = self.0.layers.write().unwrap_or_else(PoisonError::into_inner);
        if keep_rate_limit {
            layers.rate_limit = slot.rate_limit.take();
        }
        let Layers { security, cors, rate_limit } = &layers;
        let is_used = security.is_some() || cors.is_some() || rate_limit.is_some();
        *slot = layers;
        self.0.is_used.store(is_used, Ordering::Relaxed);
    }

    /// Returns true if it has a layer.
    pub(super) fn is_used(&self) -> bool {
        self.0.is_used.load(Ordering::Relaxed)
    }
}

impl Layer for LayerSlot {
    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
        if !self.is_used() {
            return ControlFlow::Continue(());
        }
        let layers = self.0.layers.read().unwrap_or_else(PoisonError::into_inner);
        // A page of another origin can read the answer 429 too.
        if let Some(security) = &layers.security {
            security.enter(request, headers)?;
        }
        if let Some(cors) = &layers.cors {
            cors.enter(request, headers)?;
        }
        match &layers.rate_limit {
            Some(rate_limit) => rate_limit.enter(request, headers),
            None => ControlFlow::Continue(()),
        }
    }

    fn answers_options(&self) -> bool {
        true
    }
}

/// Parses an origin of CORS.
fn origin(text: &str) -> Result<String, String> {
    let is_host = |host: &str| {
        !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@*,".contains(&byte))
    };
    match text.split_once("://") {
        Some((scheme, host)) if !scheme.is_empty() && is_host(host) => Ok(text.to_owned()),
        _ if text == "*" => Ok(text.to_owned()),
        _ => Err("must be an origin, such as https://app.example.org, or *".to_owned()),
    }
}

/// Parses a method or the name of a header: a token of RFC 9110, 5.6.2.
fn token(text: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_part) {
        true => Ok(text.to_owned()),
        false => Err("must be a method or the name of a header, such as GET or ETag".to_owned()),
    }
}

/// Parses a policy: the value of a header.
fn policy(text: &str) -> Result<String, String> {
    match text.chars().any(char::is_control) {
        true => Err("must be without control characters".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Parses a rate: a number above 0.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("must be a number above 0, such as 50 or 0.5".to_owned()),
    }
}
