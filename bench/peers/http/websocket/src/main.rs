//! WebSockets that echo each message, at `/echo`, by one of three crates, which the first argument
//! names: `axum`, `tungstenite` or `fastwebsockets`. Each runs on a single-threaded tokio runtime and
//! a SO_REUSEPORT listener per thread.

use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::response::Response;
use axum::routing::get;
use fastwebsockets::{FragmentCollector, OpCode, WebSocketError, upgrade};
use futures_util::{SinkExt, StreamExt};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use options::Options;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::SocketAddr;
use tokio::net::TcpStream;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Clone, Copy)]
enum By {
    Axum,
    Tungstenite,
    Fastwebsockets,
}

fn main() -> io::Result<()> {
    let options = Options::from_args();
    let by = if options.has("axum") {
        By::Axum
    } else if options.has("tungstenite") {
        By::Tungstenite
    } else {
        By::Fastwebsockets
    };
    let address = options.address();
    let threads: Vec<_> =
        (0..options.threads).map(|_| std::thread::spawn(move || serve(address, by))).collect();
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a server thread panicked"))??;
    }
    Ok(())
}

fn serve(address: SocketAddr, by: By) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let listener = tokio::net::TcpListener::from_std(listener(address)?)?;
        let app = axum::Router::new().route("/echo", get(opened));
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let app = app.clone();
            // Errors of a connection, such as a reset, are expected.
            tokio::task::spawn_local(async move {
                match by {
                    By::Axum => {
                        let service = TowerToHyperService::new(app);
                        let connection = http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service)
                            .with_upgrades();
                        let _ = connection.await;
                    }
                    By::Tungstenite => {
                        let _ = tungstenite(stream).await;
                    }
                    By::Fastwebsockets => {
                        let connection = http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service_fn(fast))
                            .with_upgrades();
                        let _ = connection.await;
                    }
                }
            });
        }
    })
}

fn listener(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}

async fn opened(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(|mut socket| async move {
        while let Some(Ok(message)) = socket.recv().await {
            if matches!(message, Message::Text(_) | Message::Binary(_))
                && socket.send(message).await.is_err()
            {
                return;
            }
        }
    })
}

async fn tungstenite(stream: TcpStream) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    let mut socket = tokio_tungstenite::accept_async(stream).await?;
    while let Some(message) = socket.next().await {
        let message = message?;
        if message.is_text() || message.is_binary() {
            socket.send(message).await?;
        }
    }
    Ok(())
}

async fn fast(
    mut request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Empty<Bytes>>, WebSocketError> {
    let (response, opening) = upgrade::upgrade(&mut request)?;
    tokio::task::spawn_local(async move {
        let Ok(socket) = opening.await else { return };
        let mut socket = FragmentCollector::new(socket);
        while let Ok(frame) = socket.read_frame().await {
            match frame.opcode {
                OpCode::Close => break,
                OpCode::Text | OpCode::Binary => {
                    if socket.write_frame(frame).await.is_err() {
                        break;
                    }
                }
                _ => {}
            }
        }
    });
    Ok(response)
}
