//! xitca-http with its router and a middleware that adds the Server header, like its TechEmpower
//! entry. It uses io_uring, which handled a sixth more pipelined requests per CPU second here, or epoll
//! if an argument is `epoll`.

use options::{Message, Options, PLAINTEXT};
use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use xitca_http::HttpServiceBuilder;
use xitca_http::body::Full;
use xitca_http::bytes::{BufMut, Bytes, BytesMut};
use xitca_http::config::HttpServiceConfig;
use xitca_http::h1::RequestBody;
use xitca_http::http::header::{CONTENT_TYPE, HeaderValue, SERVER};
use xitca_http::http::{self, IntoResponse, RequestExt, const_header_value};
use xitca_http::util::service::route::get;
use xitca_http::util::service::router::Router;
use xitca_service::{Service, ServiceExt, fn_service};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Request = http::Request<RequestExt<RequestBody>>;
type Response = http::Response<Full<Bytes>>;

fn main() -> io::Result<()> {
    let options = Options::from_args();
    let config = HttpServiceConfig::new().max_request_headers::<8>();
    let server = xitca_server::Builder::new().backlog(4096).worker_threads(options.threads);
    let router = || {
        Router::new()
            .insert("/plaintext", get(fn_service(plaintext)))
            .insert("/json", get(fn_service(json)))
            .enclosed_fn(named)
    };
    let server = if options.has("epoll") {
        let builder = HttpServiceBuilder::h1().config(config);
        server.bind("bench", options.address(), router().enclosed(builder))?
    } else {
        let builder = HttpServiceBuilder::h1().io_uring().config(config);
        server.bind("bench", options.address(), router().enclosed(builder))?
    };
    server.build().wait()
}

async fn named<S, E>(service: &S, request: Request) -> Result<Response, E>
where
    S: Service<Request, Response = Response, Error = E>,
{
    let mut response = service.call(request).await?;
    response.headers_mut().append(SERVER, HeaderValue::from_static("X"));
    Ok(response)
}

async fn plaintext(request: Request) -> Result<Response, Infallible> {
    let body = Full::new(Bytes::from_static(PLAINTEXT.as_bytes()));
    let mut response = request.into_response(body);
    response.headers_mut().append(CONTENT_TYPE, const_header_value::TEXT);
    Ok(response)
}

thread_local! {
    static SCRATCH: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

async fn json(request: Request) -> Result<Response, Infallible> {
    let body = SCRATCH.with_borrow_mut(|scratch| {
        serde_json::to_writer(scratch.writer(), &Message::HELLO)
            .expect("writing to a buffer cannot fail");
        scratch.split().freeze()
    });
    let mut response = request.into_response(Full::new(body));
    response.headers_mut().append(CONTENT_TYPE, const_header_value::JSON);
    Ok(response)
}
