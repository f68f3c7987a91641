//! What the web suite of `bench` asks: a fixed answer, an object serialised per request, files of a
//! folder, and a WebSocket that says back what it is told; by TLS if there is a certificate.
//!
//! `cargo run --release -p marmota-http --example web -- ADDRESS FOLDER [CERTIFICATE KEY]`

use marmota_http::{Files, Flow, Method, Router, Server, Status, Tls};
use serde::Serialize;

#[derive(Serialize)]
struct Message {
    message: &'static str,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (address, folder, pair) = match words[..] {
        [address, folder] => (address, folder, None),
        [address, folder, certificate, key] => (address, folder, Some((certificate, key))),
        _ => return Err("say ADDRESS FOLDER [CERTIFICATE KEY]".into()),
    };
    let router = Router::new()
        .direct(Method::Get, "/fixed", |_, out| {
            out.send("text/plain", b"Hello, World!");
            Flow::Done
        })
        .direct(Method::Get, "/json", |_, out| {
            let body = out.content_type("application/json").body_mut();
            if serde_json::to_writer(body, &Message { message: "Hello, World!" }).is_err() {
                out.status(Status::INTERNAL_SERVER_ERROR);
            }
            Flow::Done
        })
        .websocket("/echo", |socket| async move {
            while let Some(message) = socket.receive().await {
                socket.send(message).await?;
            }
            Ok(())
        })
        .files("/files", Files::new(folder));
    let mut server = Server::bind(address)?;
    if let Some((certificate, key)) = pair {
        server = server.tls(Tls::files(certificate, key));
    }
    Ok(server.run(router)?)
}
