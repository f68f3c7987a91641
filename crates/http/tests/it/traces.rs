//! Spans around handlers, as a program's subscriber hears of them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use marmota_http::{Backend, Flow, Method, Request, Response, Router, Server, Status, Traces};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Instrument, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

type Fields = BTreeMap<String, String>;

/// What was heard: of each span its fields, and `in` with the name of its parent, when it ended; of
/// each line its message and the span that it stands in.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Fields>>>);

struct Fill<'f>(&'f mut Fields);

impl Visit for Fill<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Heard {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let mut fields = Fields::from([("span".to_owned(), span.name().to_owned())]);
        if let Some(parent) = span.parent() {
            fields.insert("in".to_owned(), parent.name().to_owned());
        }
        attributes.record(&mut Fill(&mut fields));
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        record.record(&mut Fill(span.extensions_mut().get_mut().unwrap()));
    }

    fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::new();
        event.record(&mut Fill(&mut fields));
        if let Some(span) = context.event_span(event) {
            fields.insert("in".to_owned(), span.name().to_owned());
        }
        self.0.lock().unwrap().push(fields);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let fields = context.span(&id).unwrap().extensions_mut().remove::<Fields>().unwrap();
        self.0.lock().unwrap().push(fields);
    }
}

impl Heard {
    fn take(&self) -> Vec<Fields> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

async fn show(request: Request) -> Response {
    // Pending at the first poll: the rest runs at another time.
    async { tokio::task::yield_now().await }.instrument(tracing::info_span!("inner")).await;
    tracing::info!("shown");
    Response::text(request.param("id").unwrap_or_default().into_owned())
}

/// A route's answer, with the connection closed behind it.
fn ask(server: &marmota_http::RunningServer, head: &str) -> String {
    let mut stream = TcpStream::connect(server.local_addr()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn value<'f>(fields: &'f Fields, name: &str) -> &'f str {
    fields.get(name).map_or("", String::as_str)
}

#[test]
fn a_request_has_a_span_in_which_its_handler_runs() {
    let heard = Heard::default();
    // Other tests of this program let others' crates talk.
    let ours = Targets::new()
        .with_targets([("it", LevelFilter::INFO), ("marmota_http", LevelFilter::INFO)]);
    let subscriber = tracing_subscriber::registry().with(heard.clone().with_filter(ours));
    tracing::subscriber::set_global_default(subscriber).unwrap();
    for backend in [Backend::Auto, Backend::Epoll] {
        let begun = Arc::new(Mutex::new(Vec::new()));
        let noting = Arc::clone(&begun);
        let traces = Traces::new().begun(move |request, span| {
            assert!(!span.is_disabled());
            noting.lock().unwrap().push(request.path().to_owned());
        });
        let inner =
            Router::new().get("/people/{id}", show).direct(Method::Get, "/broken", |_, out| {
                tracing::info!("breaks");
                out.status(Status::INTERNAL_SERVER_ERROR).send("text/plain", b"broken");
                Flow::Done
            });
        let router = Router::new().nest("/api", inner).traced(&traces);
        let router = router.get("/quiet", |_| async { "no span" });
        let server = Server::bind("127.0.0.1:0").unwrap().backend(backend).start(router).unwrap();

        let head = "GET /api/people/7?secret=1 HTTP/1.1\r\nHost: a\r\nX-Request-Id: r7";
        assert!(ask(&server, head).ends_with("\r\n\r\n7"));
        assert!(ask(&server, "GET /api/broken HTTP/1.1\r\nHost: a").contains(" 500 "));
        assert!(ask(&server, "GET /quiet HTTP/1.1\r\nHost: a").ends_with("no span"));
        assert!(ask(&server, "GET /nothing HTTP/1.1\r\nHost: a").contains(" 404 "));
        server.shutdown().unwrap();

        assert_eq!(*begun.lock().unwrap(), ["/api/people/7", "/api/broken"]);
        let heard = heard.take();
        let [inner, shown, people, breaks, broken] = &heard[..] else { panic!("{heard:?}") };
        assert_eq!((value(inner, "span"), value(inner, "in")), ("inner", "request"));
        assert_eq!((value(shown, "message"), value(shown, "in")), ("shown", "request"));
        for (name, wanted) in [
            ("span", "request"),
            ("otel.name", "GET /api/people/{id}"),
            ("otel.kind", "server"),
            ("otel.status_code", ""),
            ("http.request.method", "GET"),
            ("http.route", "/api/people/{id}"),
            ("http.response.status_code", "200"),
            ("url.path", "/api/people/7"),
            ("client.address", "127.0.0.1"),
            ("request.id", "r7"),
            ("in", ""),
        ] {
            assert_eq!(value(people, name), wanted, "{name} of {people:?}");
        }
        assert_eq!((value(breaks, "message"), value(breaks, "in")), ("breaks", "request"));
        assert_eq!(value(broken, "http.response.status_code"), "500");
        assert_eq!(value(broken, "otel.status_code"), "ERROR");
    }
}
