//! actix-http with tokio-postgres, like actix's TechEmpower entry for databases: actix-http's
//! dispatcher, a custom service, and one pipelined database connection per thread. The first
//! argument is the database's URL.

use actix_http::body::BoxBody;
use actix_http::header::{CONTENT_TYPE, HeaderValue, SERVER};
use actix_http::{Error, HttpService, KeepAlive, Request, Response, StatusCode};
use actix_server::Server;
use actix_service::{fn_factory, fn_service};
use options::Options;
use serde::Serialize;
use std::error::Error as Failure;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use world::{Database, count, page};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[actix_rt::main]
async fn main() -> io::Result<()> {
    let options = Options::from_args();
    let Some(url) = options.words.first().cloned() else {
        return Err(io::Error::other("the database's URL is missing"));
    };
    Server::build()
        .backlog(4096)
        .workers(options.threads)
        .bind("bench", options.address(), move || {
            let url = url.clone();
            let service = fn_factory(move || {
                let url = url.clone();
                async move {
                    let database = Database::connect(&url).await.map_err(|error| {
                        eprintln!("database connection: {error}");
                    })?;
                    let database = Rc::new(database);
                    Ok::<_, ()>(fn_service(move |request: Request| {
                        let database = Rc::clone(&database);
                        async move { Ok::<_, Error>(answer(&database, &request).await) }
                    }))
                }
            });
            HttpService::build()
                .keep_alive(KeepAlive::Os)
                .client_request_timeout(Duration::ZERO)
                .h1(service)
                .tcp()
        })?
        .run()
        .await
}

async fn answer(database: &Database, request: &Request) -> Response<BoxBody> {
    let queries = || count(request.uri().query());
    let answered = match request.path() {
        "/db" => json(database.world().await),
        "/queries" => json(database.worlds(queries()).await),
        "/updates" => json(database.update(queries()).await),
        "/fortunes" => fortunes(database).await,
        _ => return Response::new(StatusCode::NOT_FOUND),
    };
    answered.unwrap_or_else(|error| {
        eprintln!("{error}");
        Response::internal_server_error()
    })
}

type Answered = Result<Response<BoxBody>, Box<dyn Failure>>;

fn json<T: Serialize>(value: Result<T, impl Failure + 'static>) -> Answered {
    Ok(named("application/json", serde_json::to_vec(&value?)?))
}

async fn fortunes(database: &Database) -> Answered {
    let page = page(database.fortunes().await?)?;
    Ok(named("text/html; charset=utf-8", page.into_bytes()))
}

fn named(content_type: &'static str, body: Vec<u8>) -> Response<BoxBody> {
    let mut response = Response::ok().set_body(BoxBody::new(body));
    let headers = response.headers_mut();
    headers.insert(SERVER, HeaderValue::from_static("A"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
