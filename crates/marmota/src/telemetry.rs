//! Export of spans of requests, with their inner spans, to an OpenTelemetry collector such as
//! Jaeger, Tempo or the OpenTelemetry Collector. Metrics need no export: collectors read the text
//! of `/metrics`.

use std::sync::Arc;

use marmota_http::{Request, Traces};
use marmota_model::{Error, ErrorKind, Result, text};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;

use crate::levels::{AnyLayer, Log, LogFormat};

/// An exporter that sends spans to a collector by OTLP over HTTP, in batches, from its own thread.
/// Spans that the collector does not accept are lost; requests are not delayed.
///
/// `OTEL_TRACES_SAMPLER`, `OTEL_BSP_…`, `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_EXPORTER_OTLP_HEADERS`
/// in the environment are applied as the specification defines them. Without a sampler, all spans
/// are sent, except those whose caller has marked its trace as not sampled.
///
/// ```no_run
/// use marmota::{Log, LogFormat, Telemetry};
/// use marmota::http::{Router, Server};
/// let telemetry = Telemetry::otlp("http://127.0.0.1:4318", "people")?;
/// let _log = Log::with_telemetry("warn", LogFormat::Text, &telemetry)?;
/// let router = Router::new().get("/", |_| async { "hello" }).traced(&telemetry.traces());
/// Server::bind("127.0.0.1:8080")?.run(router)?;
/// telemetry.end();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Telemetry {
    provider: SdkTracerProvider,
}

impl Telemetry {
    /// Creates an exporter of spans of the service with this name, for the collector at this
    /// address, `http://HOST:PORT` (usually port 4318). It does not check whether the collector is
    /// reachable.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an address in another form, so that spans do not leave the
    /// machine or its network in plain text by accident. For TLS, use a local collector that
    /// forwards them.
    pub fn otlp(endpoint: &str, service: &str) -> Result<Self> {
        let host = endpoint.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        if host.is_none_or(|host| host.is_empty() || host.contains(['?', '#', ' '])) {
            let message = format!(
                "`{}` is not the address of a collector; use one such as `http://127.0.0.1:4318` \
                 (for a collector that requires TLS, run a local collector that forwards to it)",
                text::excerpt(endpoint)
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        // Replication to buckets builds the HTTP client with TLS, which needs a provider of
        // cryptography even for `http://`. It fails if the program has chosen one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .build()
            .map_err(|error| {
                let message = format!("spans cannot be sent to {endpoint}: {error}");
                Error::new(ErrorKind::Invalid, message)
            })?;
        let provider = SdkTracerProvider::builder()
            .with_resource(Resource::builder().with_service_name(service.to_owned()).build())
            .with_batch_exporter(exporter)
            .build();
        Ok(Self { provider })
    }

    /// Returns the traces for [`marmota_http::Router::traced`]: the parent of each span is that of
    /// the caller, from the header `traceparent` (W3C Trace Context).
    #[must_use]
    pub fn traces(&self) -> Traces {
        let propagator = TraceContextPropagator::new();
        Traces::new().begun(move |request, span| {
            let caller = propagator.extract(&Headers(request));
            if caller.span().span_context().is_valid() {
                // Fails only if the span is not exported.
                let _ = span.set_parent(caller);
            }
        })
    }

    /// Sends the remaining spans and stops.
    pub fn end(&self) {
        if let Err(error) = self.provider.shutdown() {
            log::warn!("the last spans could not be sent: {error}");
        }
    }

    pub(crate) fn layer(&self) -> AnyLayer {
        let tracer = self.provider.tracer("marmota");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        layer.with_filter(LevelFilter::INFO).boxed()
    }
}

impl Log {
    /// As [`Log::start`], but also sends spans and their log events to a collector. The collector
    /// gets levels info and above; the filter does not apply to it.
    ///
    /// # Errors
    /// As [`Log::start`].
    pub fn with_telemetry(
        filter: &str,
        format: LogFormat,
        telemetry: &Telemetry,
    ) -> Result<Arc<Self>> {
        Self::with_recent(filter, format, None, Some(telemetry.layer()))
    }
}

/// The headers of a request, in the form in which a trace context is extracted.
struct Headers<'r>(&'r Request);

impl Extractor for Headers<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.header(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    fn keys(&self) -> Vec<&str> {
        Vec::new()
    }
}
