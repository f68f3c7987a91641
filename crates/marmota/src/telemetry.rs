//! Spans of requests, and what stands inside of them, for a collector of OpenTelemetry's: Jaeger,
//! Tempo, its own. Metrics need no export: collectors read the text of `/metrics`.

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

use crate::levels::{AnyLayer, Log};

/// Sends spans to a collector by OTLP over HTTP, in batches, by a thread of its own. What the
/// collector does not take is lost, and slows nothing down.
///
/// `OTEL_TRACES_SAMPLER`, `OTEL_BSP_…`, `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_EXPORTER_OTLP_HEADERS`
/// in the environment are heeded, as the specification has them; without a sampler all spans
/// are sent but those whose caller says that its trace is not sampled.
///
/// ```no_run
/// use marmota::{Log, Telemetry};
/// use marmota::http::{Router, Server};
/// let telemetry = Telemetry::otlp("http://127.0.0.1:4318", "people")?;
/// let _log = Log::with_telemetry("warn", &telemetry)?;
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
    /// Spans of a service of this name, for the collector at this address, `http://HOST:PORT`
    /// (4318 by custom). It is not asked whether it is there.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for another address: spans do not leave the machine or its network in
    /// plain text by accident. Have a collector beside, which forwards by TLS.
    pub fn otlp(endpoint: &str, service: &str) -> Result<Self> {
        let host = endpoint.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        if host.is_none_or(|host| host.is_empty() || host.contains(['?', '#', ' '])) {
            let message = format!(
                "`{}` is no collector's address; `http://127.0.0.1:4318` is one (for one that \
                 requires TLS, run a local collector that forwards to it)",
                text::excerpt(endpoint)
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let exporter = SpanExporter::builder()
            .with_http()
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .build()
            .map_err(|error| {
                let message = format!("no spans can be sent to {endpoint}: {error}");
                Error::new(ErrorKind::Invalid, message)
            })?;
        let provider = SdkTracerProvider::builder()
            .with_resource(Resource::builder().with_service_name(service.to_owned()).build())
            .with_batch_exporter(exporter)
            .build();
        Ok(Self { provider })
    }

    /// For [`marmota_http::Router::traced`]: spans whose parent is the caller's, by the header
    /// `traceparent` (W3C Trace Context).
    #[must_use]
    pub fn traces(&self) -> Traces {
        let propagator = TraceContextPropagator::new();
        Traces::new().begun(move |request, span| {
            let caller = propagator.extract(&Headers(request));
            if caller.span().span_context().is_valid() {
                // Only fails when nobody exports the span.
                let _ = span.set_parent(caller);
            }
        })
    }

    /// Sends what is left, and ends.
    pub fn end(&self) {
        if let Err(error) = self.provider.shutdown() {
            log::warn!("the last spans could not be sent: {error}");
        }
    }

    fn layer(&self) -> AnyLayer {
        let tracer = self.provider.tracer("marmota");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        layer.with_filter(LevelFilter::INFO).boxed()
    }
}

impl Log {
    /// Starts the log as [`Log::start`] does, and sends spans and the lines in them to a collector.
    /// The collector gets levels info and above; the filter does not apply to it.
    ///
    /// # Errors
    /// As [`Log::start`].
    pub fn with_telemetry(filter: &str, telemetry: &Telemetry) -> Result<Arc<Self>> {
        Self::with_layer(filter, Some(telemetry.layer()))
    }
}

/// A request's headers, as those look for them who read a context.
struct Headers<'r>(&'r Request);

impl Extractor for Headers<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.header(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    fn keys(&self) -> Vec<&str> {
        Vec::new()
    }
}
