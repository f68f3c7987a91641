//! The two routes that servers are compared by: a text and an object serialised per request.
//!
//! `cargo run --release -p marmota-http --example hello -- [address] [servers] [tls]`

use marmota_http::{Flow, Method, Request, Response, Router, Server, ServerError};
use serde::Serialize;

#[derive(Serialize)]
struct Message {
    message: &'static str,
}

/// The same text by an asynchronous function.
async fn text(_: Request) -> Response {
    Response::text("Hello, World!")
}

fn main() -> Result<(), ServerError> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let router = Router::new()
        .direct(Method::Get, "/plaintext", |_, out| {
            out.send("text/plain", b"Hello, World!");
            Flow::Done
        })
        .direct(Method::Get, "/json", |_, out| {
            let body = out.content_type("application/json").body_mut();
            match serde_json::to_writer(body, &Message { message: "Hello, World!" }) {
                Ok(()) => Flow::Done,
                Err(_) => {
                    out.status(marmota_http::Status::INTERNAL_SERVER_ERROR);
                    Flow::Done
                }
            }
        })
        .get("/async", text);
    let mut server = Server::bind(address)?;
    if let Some(servers) = arguments.next().and_then(|servers| servers.parse().ok()) {
        server = server.listeners(servers);
    }
    #[cfg(feature = "tls")]
    if arguments.next().is_some_and(|word| word == "tls") {
        server = server.tls(marmota_http::Tls::self_signed());
    }
    println!("{}/plaintext", server.url());
    server.run(router)
}
