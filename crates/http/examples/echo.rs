//! Says back what it is told over WebSockets, compressed if the client wants it; Autobahn's suite
//! is run against it (CONTRIBUTING.md).

use marmota_http::{Request, Response, Router, Server, WebSocketOptions};

async fn echo(request: Request) -> Response {
    let mut options = WebSocketOptions::default();
    options.compression = true;
    options.message_bytes_max = 64 << 20;
    Response::websocket(&request, &options, |socket| async move {
        while let Some(message) = socket.receive().await {
            socket.send(message).await?;
        }
        Ok(())
    })
}

fn main() -> Result<(), marmota_http::ServerError> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9001".to_owned());
    Server::bind(&*address)?.run(Router::new().get("/", echo))
}
