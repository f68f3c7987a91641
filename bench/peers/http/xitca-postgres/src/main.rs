//! xitca-http with xitca-postgres, a pipelined connection to the database on each thread, like its
//! TechEmpower entry. The sockets use io_uring, or epoll if an argument is `epoll`. The first argument
//! is the URL of the database.

mod database;

use database::Database;
use options::Options;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use world::{count, page};
use xitca_http::HttpServiceBuilder;
use xitca_http::body::Full;
use xitca_http::bytes::Bytes;
use xitca_http::config::HttpServiceConfig;
use xitca_http::h1::RequestBody;
use xitca_http::http::header::{CONTENT_TYPE, HeaderValue, SERVER};
use xitca_http::http::{self, IntoResponse, RequestExt, StatusCode, const_header_value};
use xitca_service::ready::ReadyService;
use xitca_service::{Service, ServiceExt, fn_build};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Request = http::Request<RequestExt<RequestBody>>;
type Response = http::Response<Full<Bytes>>;

fn main() -> io::Result<()> {
    let options = Options::from_args();
    let Some(url) = options.words.first().cloned() else {
        return Err(io::Error::other("the database's URL is missing"));
    };
    let config = HttpServiceConfig::new().max_request_headers::<8>();
    let server = xitca_server::Builder::new().backlog(4096).worker_threads(options.threads);
    let answers = fn_build(async move |_: ()| {
        let database = Database::connect(&url).await;
        database.map(Answers).inspect_err(|error| eprintln!("database connection: {error}"))
    });
    let server = if options.has("epoll") {
        let builder = HttpServiceBuilder::h1().config(config);
        server.bind("bench", options.address(), answers.enclosed(builder))?
    } else {
        let builder = HttpServiceBuilder::h1().io_uring().config(config);
        server.bind("bench", options.address(), answers.enclosed(builder))?
    };
    server.build().wait()
}

struct Answers(Database);

impl ReadyService for Answers {
    type Ready = ();

    async fn ready(&self) {}
}

impl Service<Request> for Answers {
    type Response = Response;
    type Error = Infallible;

    async fn call(&self, request: Request) -> Result<Response, Infallible> {
        Ok(match self.answer(&request).await {
            Ok(Some((content_type, body))) => {
                let mut response = request.into_response(Full::new(body));
                let headers = response.headers_mut();
                headers.append(SERVER, HeaderValue::from_static("X"));
                headers.append(CONTENT_TYPE, content_type);
                response
            }
            Ok(None) => failed(request, StatusCode::NOT_FOUND),
            Err(error) => {
                eprintln!("{error}");
                failed(request, StatusCode::INTERNAL_SERVER_ERROR)
            }
        })
    }
}

fn failed(request: Request, status: StatusCode) -> Response {
    let mut response = request.into_response(Full::new(Bytes::new()));
    *response.status_mut() = status;
    response
}

impl Answers {
    /// Returns the media type and the body.
    async fn answer(
        &self,
        request: &Request,
    ) -> Result<Option<(HeaderValue, Bytes)>, Box<dyn Error>> {
        let queries = || count(request.uri().query());
        let body = match request.uri().path() {
            "/db" => serde_json::to_vec(&self.0.world().await?)?,
            "/queries" => serde_json::to_vec(&self.0.worlds(queries()).await?)?,
            "/updates" => serde_json::to_vec(&self.0.update(queries()).await?)?,
            "/fortunes" => {
                let page = page(self.0.fortunes().await?)?;
                return Ok(Some((const_header_value::TEXT_HTML_UTF8, page.into())));
            }
            _ => return Ok(None),
        };
        Ok(Some((const_header_value::JSON, body.into())))
    }
}
