//! axum with tokio-postgres, like the fastest of axum's TechEmpower entries: per thread, a
//! single-threaded runtime, a SO_REUSEPORT listener and a pipelined database connection. The first
//! argument is the database's URL.

use axum::extract::{RawQuery, State};
use axum::http::HeaderValue;
use axum::http::header::SERVER;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use options::Options;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use world::{Database, count, page};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> io::Result<()> {
    let options = Options::from_args();
    let Some(url) = options.words.first().cloned() else {
        return Err(io::Error::other("the database's URL is missing"));
    };
    let address = options.address();
    let serve = move |url: String| std::thread::spawn(move || serve(address, &url));
    let threads: Vec<_> = (0..options.threads).map(|_| serve(url.clone())).collect();
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a server thread panicked"))??;
    }
    Ok(())
}

fn serve(address: SocketAddr, url: &str) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let database = Database::connect(url).await.map_err(io::Error::other)?;
        let listener = tokio::net::TcpListener::from_std(listener(address)?)?;
        let app = Router::new()
            .route("/db", get(db))
            .route("/queries", get(queries))
            .route("/updates", get(updates))
            .route("/fortunes", get(fortunes))
            .with_state(Arc::new(database));
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let service = app.clone();
            tokio::task::spawn_local(async move {
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

fn named(answer: impl IntoResponse) -> Response {
    ([(SERVER, HeaderValue::from_static("axum"))], answer).into_response()
}

fn failed(error: &impl std::error::Error) -> Response {
    (axum::http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
}

type Shared = State<Arc<Database>>;

async fn db(State(database): Shared) -> Response {
    database.world().await.map_or_else(|e| failed(&e), |world| named(Json(world)))
}

async fn queries(State(database): Shared, RawQuery(query): RawQuery) -> Response {
    let worlds = database.worlds(count(query.as_deref())).await;
    worlds.map_or_else(|e| failed(&e), |worlds| named(Json(worlds)))
}

async fn updates(State(database): Shared, RawQuery(query): RawQuery) -> Response {
    let worlds = database.update(count(query.as_deref())).await;
    worlds.map_or_else(|e| failed(&e), |worlds| named(Json(worlds)))
}

async fn fortunes(State(database): Shared) -> Response {
    match database.fortunes().await.map(page) {
        Ok(Ok(page)) => named(Html(page)),
        Ok(Err(error)) => failed(&error),
        Err(error) => failed(&error),
    }
}
