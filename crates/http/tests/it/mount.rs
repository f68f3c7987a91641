//! An axum router under a prefix.

use axum::extract::{Json, Query};
use axum::routing::{get as on_get, post as on_post};
use marmota_http::{BodyStream, Response, Router};
use serde::{Deserialize, Serialize};

use super::client::{ask, get, serve};

#[derive(Deserialize, Serialize)]
struct Sum {
    a: i32,
    b: i32,
}

#[test]
fn axum_answers_under_its_prefix() {
    let app = axum::Router::new()
        .route("/", on_get(|| async { "root" }))
        .route("/sum", on_get(|Query(sum): Query<Sum>| async move { (sum.a + sum.b).to_string() }))
        .route(
            "/swap",
            on_post(|Json(sum): Json<Sum>| async move {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                ([("x-made-by", "axum")], Json(Sum { a: sum.b, b: sum.a }))
            }),
        );
    let server = serve(Router::new().get("/", |_| async { "marmota" }).mount("/app", app));
    let address = server.local_addr();
    assert_eq!(get(address, "/").text(), "marmota");
    assert_eq!(get(address, "/app").text(), "root");
    assert_eq!(get(address, "/app/").text(), "root");
    assert_eq!(get(address, "/app/sum?a=2&b=3").text(), "5");
    assert_eq!(get(address, "/app/none").status, 404);
    assert_eq!(get(address, "/apple").status, 404);
    let body = r#"{"a":1,"b":2}"#;
    let request = format!(
        "POST /app/swap HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = ask(address, &request);
    assert_eq!(answer.text(), r#"{"a":2,"b":1}"#);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("x-made-by"), Some("axum"));
    assert_eq!(ask(address, "DELETE /app/sum HTTP/1.1\r\nHost: a\r\n\r\n").status, 405);
}

/// A body of an axum service whose length nobody knows.
struct Pieces(u32);

impl futures_core::Stream for Pieces {
    type Item = Result<String, std::io::Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0 += 1;
        std::task::Poll::Ready((self.0 <= 10_000).then(|| Ok(format!("{}\n", self.0))))
    }
}

#[test]
fn streams_pass_through() {
    let app = axum::Router::new()
        .route("/pieces", on_get(|| async { axum::body::Body::from_stream(Pieces(0)) }))
        .route("/large", on_get(|| async { "x".repeat(1 << 20) }));
    let server = serve(Router::new().mount("/app", app).get("/own", |_| async {
        Response::streamed("text/plain", BodyStream::from_stream(Pieces(0)))
    }));
    let lines: String = (1..=10_000).map(|line| format!("{line}\n")).collect();
    for path in ["/app/pieces", "/own"] {
        let answer = get(server.local_addr(), path);
        assert!(!answer.cut && answer.text() == lines, "{path}");
        assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
    }
    let answer = get(server.local_addr(), "/app/large");
    assert_eq!((answer.body.len(), answer.header("content-length")), (1 << 20, Some("1048576")));
}
