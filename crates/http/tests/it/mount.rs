//! An axum router under a prefix.

use axum::extract::{Json, Query};
use axum::routing::{get as on_get, post as on_post};
use marmota_http::Router;
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
