//! Requests that a page of another site may have had a browser send.

use marmota_http::{Cors, CrossSite, Method, Request, Response, Router, Server};

use super::client::{ask, backend};

fn bind() -> Server {
    Server::bind("127.0.0.1:0").unwrap().backend(backend()).listeners(1)
}

async fn checked(request: Request) -> Result<Response, CrossSite> {
    request.check_site()?;
    if request.method() == Method::Post {
        request.check_json()?;
    }
    Ok(Response::text("done"))
}

fn router() -> Router {
    Router::new().get("/", checked).post("/", checked)
}

#[test]
fn foreign_pages_and_foreign_hosts_are_refused() {
    let plain = bind().start(router()).unwrap();
    let allowing = bind().allowed_origins(["https://app.test"]).allowed_hosts(["app.test"]);
    let allowing = allowing.start(router()).unwrap();
    let trusting = bind().trusted_proxies(["127.0.0.1"]).start(router()).unwrap();
    let (a, b, c) = (plain.local_addr(), allowing.local_addr(), trusting.local_addr());
    let json = "Content-Type: application/json\r\n";
    for (address, method, headers, status) in [
        (a, "POST", format!("Host: {a}\r\n"), 200),
        (a, "POST", format!("Host: {a}\r\n{json}Origin: http://{a}\r\n"), 200),
        (
            a,
            "POST",
            "Host: localhost:1\r\nContent-Type: application/x-www-form-urlencoded\r\n".into(),
            200,
        ),
        (a, "POST", format!("Host: localhost\r\n{json}Origin: http://localhost\r\n"), 200),
        (a, "POST", format!("Host: {a}\r\n{json}Origin: http://evil.test\r\n"), 403),
        (a, "GET", format!("Host: {a}\r\nOrigin: http://evil.test\r\n"), 200),
        (a, "POST", format!("Host: {a}\r\n{json}Origin: null\r\n"), 403),
        (a, "POST", format!("Host: {a}\r\n{json}Origin: \u{e9}\r\n"), 403),
        (a, "POST", format!("Host: {a}\r\n{json}Origin: https://app.test\r\n"), 403),
        (a, "POST", format!("Host: {a}\r\n{json}Sec-Fetch-Site: cross-site\r\n"), 403),
        (a, "POST", format!("Host: {a}\r\n{json}Sec-Fetch-Site: same-site\r\n"), 403),
        // A proxy has written another `Host`; the browser knows better.
        (
            a,
            "POST",
            format!(
                "Host: {a}\r\n{json}Origin: https://app.test\r\nSec-Fetch-Site: same-origin\r\n"
            ),
            200,
        ),
        // What a page of another origin can send without asking before.
        (a, "POST", format!("Host: {a}\r\nContent-Type: text/plain\r\n"), 415),
        (
            a,
            "POST",
            format!("Host: {a}\r\nOrigin: http://{a}\r\nContent-Type: text/plain\r\n"),
            415,
        ),
        (
            a,
            "POST",
            format!(
                "Host: {a}\r\nOrigin: http://{a}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            ),
            415,
        ),
        (a, "GET", "Host: evil.test\r\n".into(), 421),
        (a, "GET", "Host: localhost.evil.test\r\n".into(), 421),
        (a, "GET", "Host: 127.0.0.1.evil.test\r\n".into(), 421),
        (a, "POST", format!("Host: evil.test\r\n{json}Origin: http://evil.test\r\n"), 421),
        (a, "GET", "Host: app.test\r\n".into(), 421),
        (b, "GET", "Host: APP.test:8080\r\n".into(), 200),
        (b, "GET", "Host: b.app.test\r\n".into(), 421),
        (b, "POST", format!("Host: {b}\r\n{json}Origin: https://app.test\r\n"), 200),
        (b, "POST", format!("Host: {b}\r\n{json}Origin: http://app.test\r\n"), 403),
        // What a trusted proxy reports.
        (c, "POST", format!("Host: app.test\r\n{json}Origin: https://app.test\r\n"), 200),
        (
            c,
            "POST",
            format!(
                "Host: {c}\r\n{json}X-Forwarded-Host: app.test\r\nOrigin: https://app.test\r\n"
            ),
            200,
        ),
        (
            c,
            "POST",
            format!(
                "Host: {c}\r\n{json}X-Forwarded-Host: app.test\r\nOrigin: http://evil.test\r\n"
            ),
            403,
        ),
    ] {
        let body = if method == "POST" { "Content-Length: 2\r\n\r\n{}" } else { "\r\n" };
        let answer = ask(address, &format!("{method} / HTTP/1.1\r\n{headers}{body}"));
        assert_eq!(answer.status, status, "{method} {headers}");
        let is_problem = answer.header("content-type") == Some("application/problem+json");
        assert_eq!(is_problem, status != 200, "{method} {headers}");
        let ways = ["allowed_origins", "allowed_hosts", "Content-Type: application/json"];
        let names_the_way = ways.iter().any(|way| answer.text().contains(way));
        assert_eq!(names_the_way, status != 200, "{}", answer.text());
    }
}

#[test]
fn a_cors_layer_allows_its_origins() {
    let server = bind().start(router().layer(Cors::of(["https://app.test"]))).unwrap();
    let any = bind().start(router().layer(Cors::any())).unwrap();
    for (server, origin, status) in [
        (&server, "https://app.test", 200),
        (&server, "https://evil.test", 403),
        (&any, "https://evil.test", 200),
    ] {
        let here = server.local_addr();
        let request = format!(
            "POST / HTTP/1.1\r\nHost: {here}\r\nOrigin: {origin}\r\nContent-Length: 2\r\n\
             Content-Type: application/json\r\n\r\n{{}}"
        );
        assert_eq!(ask(here, &request).status, status, "{origin}");
    }
}

#[test]
fn what_is_allowed_wrongly_is_refused_at_the_start() {
    let error = bind().allowed_origins(["app.test"]).start(router()).unwrap_err().to_string();
    assert!(error.contains("app.test") && error.contains("https://app.example.org"), "{error}");
    let error = bind().allowed_hosts(["app.test:80"]).start(router()).unwrap_err().to_string();
    assert!(error.contains("without a port"), "{error}");
}
