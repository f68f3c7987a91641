//! axum with mysql_async or sqlx on MariaDB: per thread, a single-threaded runtime, a SO_REUSEPORT
//! listener and a pool of connections. The first argument is the database's URL, the second one the
//! driver: `mysql_async` or `sqlx`.

mod by_mysql_async;
mod by_sqlx;

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
use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use world::{Fortune, World, count, page};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Reads a row by key.
const WORLD: &str = "SELECT id, randomnumber FROM world WHERE id = ?";
/// Reads all fortunes.
const FORTUNES: &str = "SELECT id, message FROM fortune";
/// The connections of each thread, unless the third argument has another number.
const CONNECTIONS: usize = 32;

/// The statements of the benchmark, by a driver.
trait Database: Sized + Send + Sync + 'static {
    type Error: std::error::Error + Send;

    /// Opens a pool of at most this number of connections.
    fn open(url: &str, connections: usize) -> Result<Self, Self::Error>;

    /// Reads rows with one statement each, on one connection.
    fn worlds(&self, ids: Vec<i32>)
    -> impl Future<Output = Result<Vec<World>, Self::Error>> + Send;

    /// Reads rows, gives them new numbers, and updates them with one statement.
    fn update(&self, ids: Vec<i32>)
    -> impl Future<Output = Result<Vec<World>, Self::Error>> + Send;

    /// Reads all fortunes.
    fn fortunes(&self) -> impl Future<Output = Result<Vec<Fortune>, Self::Error>> + Send;
}

fn main() -> io::Result<()> {
    let options = Options::from_args();
    let Some(url) = options.words.first().cloned() else {
        return Err(io::Error::other("the database's URL is missing"));
    };
    let address = options.address();
    let connections = options.words.get(2).and_then(|text| text.parse().ok());
    let connections = connections.unwrap_or(CONNECTIONS);
    let is_sqlx = options.words.get(1).is_some_and(|driver| driver == "sqlx");
    let serve = move |url: String| {
        std::thread::spawn(move || match is_sqlx {
            true => serve::<by_sqlx::Pool>(address, &url, connections),
            false => serve::<by_mysql_async::Pool>(address, &url, connections),
        })
    };
    let threads: Vec<_> = (0..options.threads).map(|_| serve(url.clone())).collect();
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a server thread panicked"))??;
    }
    Ok(())
}

fn serve<D: Database>(address: SocketAddr, url: &str, connections: usize) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let open = D::open(url, connections);
        let database = open.map_err(|error| io::Error::other(error.to_string()))?;
        let listener = tokio::net::TcpListener::from_std(listener(address)?)?;
        let app = Router::new()
            .route("/db", get(db::<D>))
            .route("/queries", get(queries::<D>))
            .route("/updates", get(updates::<D>))
            .route("/fortunes", get(fortunes::<D>))
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

async fn db<D: Database>(State(database): State<Arc<D>>) -> Response {
    let mut worlds = match database.worlds(vec![world::random()]).await {
        Ok(worlds) => worlds,
        Err(error) => return failed(&error),
    };
    named(Json(worlds.pop()))
}

async fn queries<D: Database>(
    State(database): State<Arc<D>>,
    RawQuery(query): RawQuery,
) -> Response {
    let ids = (0..count(query.as_deref())).map(|_| world::random()).collect();
    database.worlds(ids).await.map_or_else(|e| failed(&e), |worlds| named(Json(worlds)))
}

async fn updates<D: Database>(
    State(database): State<Arc<D>>,
    RawQuery(query): RawQuery,
) -> Response {
    // In ascending order, so that two updates cannot deadlock.
    let mut ids: Vec<i32> = (0..count(query.as_deref())).map(|_| world::random()).collect();
    ids.sort_unstable();
    database.update(ids).await.map_or_else(|e| failed(&e), |worlds| named(Json(worlds)))
}

async fn fortunes<D: Database>(State(database): State<Arc<D>>) -> Response {
    match database.fortunes().await.map(page) {
        Ok(Ok(page)) => named(Html(page)),
        Ok(Err(error)) => failed(&error),
        Err(error) => failed(&error),
    }
}

/// Gives rows new numbers; returns the statement that updates them, and its values.
fn update_of(worlds: &mut [World]) -> (String, Vec<i32>) {
    let (ids, numbers) = world::updates(worlds);
    let mut text = "UPDATE world SET randomnumber = CASE id".to_owned();
    text.push_str(&" WHEN ? THEN ?".repeat(ids.len()));
    let _ = write!(text, " END WHERE id IN (?{})", ",?".repeat(ids.len() - 1));
    let pairs = ids.iter().zip(&numbers).flat_map(|(id, number)| [*id, *number]);
    (text, pairs.chain(ids.iter().copied()).collect())
}
