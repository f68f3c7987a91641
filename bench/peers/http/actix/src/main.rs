//! actix in the variants of its two TechEmpower entries: `web` is actix-web with its router;
//! `server` (the default) drives actix-http's codec by hand on an actix-server stream and answers
//! all pipelined requests of a read with one write.

mod stream;

use actix_web::http::header::{CONTENT_TYPE, HeaderValue, SERVER};
use actix_web::{App, HttpResponse, HttpServer, http::KeepAlive, web};
use options::{JSON_BYTES, Message, Options, PLAINTEXT};
use std::io;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[actix_web::main]
async fn main() -> io::Result<()> {
    let options = Options::from_args();
    if options.has("web") { serve_web(&options).await } else { stream::serve(&options).await }
}

async fn serve_web(options: &Options) -> io::Result<()> {
    HttpServer::new(|| {
        App::new()
            .service(web::resource("/plaintext").to(plaintext))
            .service(web::resource("/json").to(json))
    })
    .keep_alive(KeepAlive::Os)
    .client_request_timeout(Duration::ZERO)
    .backlog(4096)
    .workers(options.threads)
    .bind(options.address())?
    .run()
    .await
}

async fn plaintext() -> HttpResponse<web::Bytes> {
    answer("text/plain", web::Bytes::from_static(PLAINTEXT.as_bytes()))
}

async fn json() -> HttpResponse<web::Bytes> {
    let mut body = Vec::with_capacity(JSON_BYTES);
    serde_json::to_writer(&mut body, &Message::HELLO).expect("writing to a Vec cannot fail");
    answer("application/json", web::Bytes::from(body))
}

fn answer(content_type: &'static str, body: web::Bytes) -> HttpResponse<web::Bytes> {
    let mut response = HttpResponse::with_body(actix_web::http::StatusCode::OK, body);
    let headers = response.headers_mut();
    headers.insert(SERVER, HeaderValue::from_static("A"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
