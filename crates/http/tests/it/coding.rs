//! Answers that are coded as the client takes them, and those it has already.

use std::io::Read;
use std::ops::ControlFlow;

use marmota_http::{
    BodyStream, Compression, Flow, HeaderError, Method, Request, Response, ResponseWriter, Router,
};

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

/// Answers as `?header=` and `?type=` have it, by each way that there is.
fn layered() -> Router {
    fn made(request: &Request) -> Response {
        let param = |name| request.query_param(name).unwrap_or_default().into_owned();
        let media_type = match &*param("type") {
            "" => "text/plain".to_owned(),
            other => other.to_owned(),
        };
        let answer = Response::with_body(media_type, lines().into_bytes());
        match param("header").split_once(':') {
            Some((name, value)) => answer.with_header(name.to_owned(), value.to_owned()).unwrap(),
            None => answer,
        }
    }
    fn direct(_: &Request, out: &mut ResponseWriter<'_>) -> Flow {
        out.content_type("text/plain").body_mut().extend_from_slice(lines().as_bytes());
        Flow::Done
    }
    fn short(_: &Request, out: &mut ResponseWriter<'_>) -> Flow {
        out.content_type("text/plain").body_mut().extend_from_slice(&[b'x'; 1023]);
        Flow::Done
    }
    async fn tagged(request: Request) -> Result<Response, HeaderError> {
        Response::text(lines()).with_etag(&request, "v1")
    }
    async fn later(request: Request) -> Response {
        yield_once().await;
        made(&request)
    }
    let length = |_: Request| async {
        let mut left = lines().into_bytes();
        let bytes = left.len() as u64;
        let body = BodyStream::new(move |out: &mut Vec<u8>| {
            out.append(&mut left);
            Ok(ControlFlow::Break(()))
        });
        Response::streamed("text/plain", body.with_length(bytes))
    };
    Router::new()
        .get("/made", |request: Request| async move { made(&request) })
        .direct(Method::Get, "/direct", direct)
        .direct(Method::Get, "/short", short)
        .get("/later", later)
        .get("/length", length)
        .get("/tagged", tagged)
        .get("/coded", |request: Request| async move { made(&request).compressed(&request) })
        .layer(Compression::new())
        .get("/outside", |request: Request| async move { made(&request) })
}

#[test]
fn a_layer_compresses_answers_however_they_are_written() {
    let server = serve(layered());
    let mut client = Client::new(server.local_addr());
    for path in ["/made", "/direct", "/later", "/length", "/coded", "/tagged"] {
        for coding in ["gzip", "br", "zstd"] {
            let header = format!("Accept-Encoding: {coding}\r\n");
            let coded = answer(&mut client, "GET", path, &header);
            assert_eq!(coded.header("content-encoding"), Some(coding), "{path}");
            assert_eq!(decoded(&coded).unwrap(), lines(), "{path}");
            assert_eq!(coded.head.matches("Vary: Accept-Encoding\r\n").count(), 1, "{path}");
        }
        let plain = answer(&mut client, "GET", path, "");
        assert_eq!((plain.header("content-encoding"), plain.text()), (None, &*lines()));
        assert_eq!(plain.header("vary"), Some("Accept-Encoding"), "{path}");
    }
    let gzip = "Accept-Encoding: gzip\r\n";
    for path in [
        "/short",
        "/outside",
        "/made?header=Set-Cookie:a=1",
        "/made?header=Cache-Control:private,%20no-store",
        "/made?header=Cache-Control:no-transform",
        "/made?header=Content-Encoding:x",
        "/made?type=image/png",
        "/made?type=text/event-stream",
    ] {
        let answer = answer(&mut client, "GET", path, gzip);
        let coding = answer.header("content-encoding").filter(|coding| *coding != "x");
        assert_eq!((coding, answer.header("vary")), (None, None), "{path}");
    }
    let tagged = |client: &mut Client, headers: &str| {
        let answer = answer(client, "GET", "/tagged", headers);
        (answer.status, answer.header("etag").unwrap().to_owned())
    };
    assert_eq!(tagged(&mut client, ""), (200, "\"v1\"".to_owned()));
    assert_eq!(tagged(&mut client, gzip), (200, "W/\"v1\"".to_owned()));
    let known = format!("{gzip}If-None-Match: W/\"v1\"\r\n");
    assert_eq!(tagged(&mut client, &known), (304, "W/\"v1\"".to_owned()));
}
