//! `serve --otlp`: the spans that an OpenTelemetry collector receives.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use marmota::http::{Request, Router, RunningServer, Server};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use prost::Message;

use crate::program::Folder;
use crate::serve::Serving;

const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a collector, and returns the requests that it receives.
fn collector() -> (RunningServer, Receiver<ExportTraceServiceRequest>) {
    let (sender, sent) = channel();
    let router = Router::new().post("/v1/traces", move |request: Request| {
        let sender = sender.clone();
        async move {
            let batch = ExportTraceServiceRequest::decode(request.body()).unwrap();
            sender.send(batch).unwrap();
            ""
        }
    });
    (Server::bind("127.0.0.1:0").unwrap().listeners(1).start(router).unwrap(), sent)
}

fn text(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|one| one.key == name);
    match found.and_then(|one| one.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_collector_receives_a_span_for_each_request() {
    let (collector, sent) = collector();
    let url = format!("http://{}", collector.local_addr());
    let serving = Serving::start(&["--otlp", &url]);
    let of = |trace: &str, sampled: &str| format!("00-{trace}-00f067aa0ba902b7-{sampled}");
    let (ours, quiet) = ("4bf92f3577b34da6a3ce929d0e0e4736", "5bf92f3577b34da6a3ce929d0e0e4736");
    for (path, parent) in [
        ("/api/person/1", of(ours, "01")),
        ("/api/person/2", of(quiet, "00")),
        ("/api/person?filter=nonsense", "no context".to_owned()),
    ] {
        let asked = ureq::get(format!("{}{path}", serving.url)).header("traceparent", parent);
        let asked = asked.config().http_status_as_error(false).build();
        asked.call().unwrap();
    }
    // Remaining spans are sent before the program exits.
    serving.interrupt();
    let mut spans: Vec<Span> = Vec::new();
    while spans.len() < 3 {
        let batch = sent.recv_timeout(PATIENCE).unwrap();
        for resource in batch.resource_spans {
            let attributes = &resource.resource.unwrap().attributes;
            assert_eq!(text(attributes, "service.name"), "marmota");
            let all = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            // Spans of the start belong to no request.
            let is_own =
                |span: &Span| span.kind() == SpanKind::Client && span.parent_span_id.is_empty();
            spans.extend(all.filter(|span| !is_own(span)));
        }
    }
    // A span is sent when it ends: the store's before the request's.
    let [get, person, list] = &spans[..] else { panic!("{}", spans.len()) };
    assert_eq!(person.name, "GET /api/{table}/{id}");
    assert_eq!(person.kind(), SpanKind::Server);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&person.trace_id), ours, "the caller's trace");
    assert_eq!(hex(&person.parent_span_id), "00f067aa0ba902b7");
    assert_eq!(text(&person.attributes, "http.response.status_code"), "200");
    assert_eq!(text(&person.attributes, "url.path"), "/api/person/1");
    assert!(person.end_time_unix_nano >= person.start_time_unix_nano);
    assert_eq!(get.name, "get person");
    assert_eq!(get.kind(), SpanKind::Client);
    assert_eq!((&get.trace_id, &get.parent_span_id), (&person.trace_id, &person.span_id));
    assert!(get.start_time_unix_nano >= person.start_time_unix_nano);
    assert!(get.end_time_unix_nano <= person.end_time_unix_nano);
    for (name, value) in [
        ("db.system.name", "sqlite"),
        ("db.operation.name", "get"),
        ("db.collection.name", "person"),
        ("marmota.rows", "1"),
    ] {
        assert_eq!(text(&get.attributes, name), value, "{name}");
    }
    for (span, name) in [(get, "marmota.rows"), (person, "http.response.status_code")] {
        let found = span.attributes.iter().find(|one| one.key == name).unwrap();
        let value = found.value.as_ref().unwrap().value.as_ref();
        assert!(matches!(value, Some(Value::IntValue(_))), "{name} is a number");
    }
    assert!(list.parent_span_id.is_empty(), "a new trace: {list:?}");
    assert_eq!(text(&list.attributes, "http.response.status_code"), "400");
    let failed = |span: &Span| span.status.as_ref().is_some_and(|s| s.code() == StatusCode::Error);
    assert!(!failed(person) && !failed(list), "a client's mistake is not a failure of the server");
}

#[test]
fn an_address_of_no_collector_is_refused() {
    for url in ["https://collector:4318", "127.0.0.1:4318", "http://"] {
        let words = ["serve", "--listen", "127.0.0.1:0", "--db", "memory:", "--otlp", url];
        let said = Folder::new().run(&words).with(1);
        assert!(said.contains(url) && said.contains("http://127.0.0.1:4318"), "{said}");
    }
}
