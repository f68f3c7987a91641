//! Answers that are coded as the client takes them, and those it has already.

use std::io::Read;
use std::ops::ControlFlow;

use marmota_http::{BodyStream, HeaderError, Request, Response, Router};

use super::client::{Answer, Client, serve};
use super::handlers::yield_once;

fn lines() -> String {
    (0..20_000).map(|number| format!("line {number}\n")).collect()
}

async fn streamed(request: Request) -> Response {
    let body = BodyStream::write(|mut out| async move {
        for line in lines().split_inclusive('\n') {
            out.send(line.to_owned()).await?;
            if line.ends_with("000\n") {
                yield_once().await;
            }
        }
        Ok(())
    });
    Response::streamed("text/plain", body).compressed(&request)
}

async fn broken(request: Request) -> Response {
    let mut number = 0;
    let body = BodyStream::new(move |out: &mut Vec<u8>| {
        number += 1;
        out.extend_from_slice(lines().as_bytes());
        if number < 3 { Ok(ControlFlow::Continue(())) } else { Err("no more".into()) }
    });
    Response::streamed("text/plain", body).compressed(&request)
}

async fn tagged(request: Request) -> Result<Response, HeaderError> {
    let tag = request.query_param("tag").unwrap_or_default().into_owned();
    Ok(Response::text(lines()).with_etag(&request, &tag)?.compressed(&request))
}

fn router() -> Router {
    Router::new().get("/streamed", streamed).get("/broken", broken).get("/tagged", tagged).get(
        "/short",
        |request: Request| async move { Response::text("short").compressed(&request) },
    )
}

fn answer(client: &mut Client, method: &str, path: &str, headers: &str) -> Answer {
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{headers}\r\n"));
    client.answer_to(method).unwrap()
}

fn decoded(answer: &Answer) -> std::io::Result<String> {
    let mut text = String::new();
    match answer.header("content-encoding") {
        Some("gzip") => flate2::read::GzDecoder::new(&*answer.body).read_to_string(&mut text)?,
        Some("br") => brotli::Decompressor::new(&*answer.body, 4096).read_to_string(&mut text)?,
        Some("zstd") => zstd::Decoder::new(&*answer.body)?.read_to_string(&mut text)?,
        _ => (&*answer.body).read_to_string(&mut text)?,
    };
    Ok(text)
}

#[test]
fn bodies_come_in_the_coding_that_is_liked_best() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    for path in ["/streamed", "/tagged?tag=x"] {
        for (accepted, used) in [
            ("gzip", Some("gzip")),
            ("gzip, br, zstd", Some("zstd")),
            ("gzip, br", Some("br")),
            ("deflate", None),
            ("gzip;q=0", None),
        ] {
            let header = format!("Accept-Encoding: {accepted}\r\n");
            let answer = answer(&mut client, "GET", path, &header);
            assert_eq!((answer.status, answer.header("content-encoding")), (200, used));
            assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
            assert_eq!(decoded(&answer).unwrap(), lines());
            assert!(used.is_none() || answer.body.len() < lines().len() / 2);
        }
        let header = "Accept-Encoding: gzip\r\n";
        assert!(answer(&mut client, "HEAD", path, header).body.is_empty());
    }
    let answer = answer(&mut client, "GET", "/short", "Accept-Encoding: gzip\r\n");
    assert_eq!((answer.header("content-encoding"), answer.text()), (None, "short"));
}

#[test]
fn a_body_that_fails_is_cut_and_not_ended() {
    let server = serve(router());
    for coding in ["gzip", "br", "zstd"] {
        let header = format!("Accept-Encoding: {coding}\r\n");
        let answer = answer(&mut Client::new(server.local_addr()), "GET", "/broken", &header);
        assert!(answer.cut && decoded(&answer).is_err());
    }
}

#[test]
fn what_a_client_has_is_not_sent_again() {
    let server = serve(router());
    let mut client = Client::new(server.local_addr());
    let mut get = |headers: &str| answer(&mut client, "GET", "/tagged?tag=v1", headers);
    assert_eq!(get("").header("etag"), Some("\"v1\""));
    assert_eq!(get("Accept-Encoding: gzip\r\n").header("etag"), Some("W/\"v1\""));
    for known in ["\"v1\"", "W/\"v1\"", "\"a\", W/\"v1\"", "*"] {
        let answer = get(&format!("If-None-Match: {known}\r\n"));
        assert_eq!((answer.status, answer.header("etag")), (304, Some("\"v1\"")), "{known}");
    }
    for unknown in ["\"v\"", "\"v2\"", "", "\"a\",\"b\""] {
        assert_eq!(get(&format!("If-None-Match: {unknown}\r\n")).status, 200, "{unknown}");
    }
    let mut refused = |tag| answer(&mut client, "GET", &format!("/tagged?tag={tag}"), "").status;
    assert_eq!([refused("a%20b"), refused("a%22"), refused("a%0Ab")], [500; 3]);
}
