//! axum on hyper's HTTP/1 connection, like axum's TechEmpower entry: a single-threaded tokio
//! runtime and a SO_REUSEPORT listener per thread, with the responses to pipelined requests flushed
//! together. The argument `http2` selects HTTP/2 instead.

use axum::http::header::{CONTENT_TYPE, SERVER};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use options::{Message, Options, PLAINTEXT};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::SocketAddr;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NAME: HeaderValue = HeaderValue::from_static("axum");

fn main() -> io::Result<()> {
    let options = Options::from_args();
    let address = options.address();
    let is_http2 = options.has("http2");
    let threads: Vec<_> = (0..options.threads)
        .map(|_| std::thread::spawn(move || serve(address, is_http2)))
        .collect();
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a server thread panicked"))??;
    }
    Ok(())
}

/// Runs streams on the thread of their connection.
#[derive(Clone)]
struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(async move {
            future.await;
        });
    }
}

fn serve(address: SocketAddr, is_http2: bool) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let listener = tokio::net::TcpListener::from_std(listener(address)?)?;
        let app = Router::new().route("/plaintext", get(plaintext)).route("/json", get(json));
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let service = app.clone();
            tokio::task::spawn_local(async move {
                if is_http2 {
                    let service = TowerToHyperService::new(service);
                    let _ = hyper::server::conn::http2::Builder::new(Local)
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                    return;
                }
                let connection = hyper::server::conn::http1::Builder::new()
                    .pipeline_flush(true)
                    .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
                // Errors of a connection, such as a reset, are expected.
                let _ = connection.await;
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

async fn plaintext() -> impl IntoResponse {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(SERVER, NAME);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    (headers, PLAINTEXT)
}

async fn json() -> impl IntoResponse {
    ([(SERVER, NAME)], Json(Message::HELLO))
}
