//! The HTTP server: REST over a store, and routes by callback.

use std::mem::MaybeUninit;
use std::sync::Arc;

use marmota::http::{Endpoint, Method, Router, RunningServer, Server, ServerError};
use marmota::remote::Service;
use marmota::rest::Api;
use marmota::service::Services;
use marmota::store::Store;
use marmota::{Error, ErrorKind};
use parking_lot::Mutex;

use crate::foreign::{MarmotaContext, MarmotaText, entry, required};
use crate::handles::{self, MarmotaHandle, Object};
use crate::http::request::{self, MarmotaHandler};
use crate::http::service::{self, MarmotaServiceHandler};
use crate::http::web_socket::{MarmotaSocketCallback, SocketHandler};
use crate::status::Failure;

/// The maximum number of routes of a server.
const ROUTES_MAX: usize = 10_000;

/// A server before its start, and while it runs.
struct ServerObject(Mutex<ServerState>);

struct ServerState {
    address: String,
    threads: Option<usize>,
    router: Option<Router>,
    routes: usize,
    services: Option<Services>,
    running: Option<RunningServer>,
}

impl ServerState {
    /// Counts a route that is added.
    fn count_route(&mut self) -> Result<(), Failure> {
        if self.routes >= ROUTES_MAX {
            return Err(Failure::busy(format!("the server has {ROUTES_MAX} routes")));
        }
        self.routes += 1;
        Ok(())
    }
}

impl Object for ServerObject {
    const KIND: u8 = 6;
    const NAME: &'static str = "server";
}

/// Creates a server for an address, such as "127.0.0.1:8080", "[::]:80" or "unix:/run/app.sock". Port
/// 0 is any free port.
///
/// Ownership: free it with `marmota_server_free`.
/// Threads: the server may be used on all threads.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_server_new(
    address: MarmotaText,
    server: Option<&mut MaybeUninit<MarmotaHandle>>,
) -> i32 {
    entry(|| {
        let server = required(server, "server")?;
        let state = ServerState {
            address: address.get("address")?.to_owned(),
            threads: None,
            router: Some(Router::new()),
            routes: 0,
            services: None,
            running: None,
        };
        server.write(handles::add(ServerObject(Mutex::new(state)))?);
        Ok(())
    })
}

/// Sets the number of threads. Default: one for each processor. A callback that waits, for another
/// server for example, occupies its thread: set more threads then.
///
/// Threads: any thread, before the start.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_server_threads(server: MarmotaHandle, threads: usize) -> i32 {
    entry(|| {
        if !(1..=1024).contains(&threads) {
            return Err(Failure::argument(format!("{threads} threads: use 1 to 1024")));
        }
        configure(server, |state| {
            state.threads = Some(threads);
            Ok(())
        })
    })
}

/// Adds the REST API of a store below a path, such as "/api". All callers may use all tables: protect
/// the address.
///
/// Threads: any thread, before the start.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_server_rest(
    server: MarmotaHandle,
    store: MarmotaHandle,
    path: MarmotaText,
) -> i32 {
    entry(|| {
        let (store, path) = (handles::find::<Store>(store)?, path.get("path")?);
        configure(server, |state| {
            let api = Api::new(&store).prefix(path).router();
            state.count_route()?;
            state.router = state.router.take().map(|router| router.nest("", api));
            Ok(())
        })
    })
}

/// Serves a store to other processes below a path, such as "/store": they open it by the URL
/// "http://HOST:PORT/store" (or "ws:"). All callers may use all tables: protect the address.
///
/// Threads: any thread, before the start.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_server_store(
    server: MarmotaHandle,
    store: MarmotaHandle,
    path: MarmotaText,
) -> i32 {
    entry(|| {
        let (store, path) = (handles::find::<Store>(store)?, path.get("path")?);
        configure(server, |state| {
            let service = Service::new(&store).router_at(path);
            state.count_route()?;
            state.router = state.router.take().map(|router| router.nest("", service));
            Ok(())
        })
    })
}

/// Adds a route: requests with the method ("GET", "POST", …) and a path that matches the pattern
/// ("/people/{id}") are answered by `handler`.
///
/// Threads: any thread, before the start. The handler runs on all threads of the server at once.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_server_route(
    server: MarmotaHandle,
    method: MarmotaText,
    pattern: MarmotaText,
    handler: MarmotaHandler,
    context: MarmotaContext,
) -> i32 {
    entry(|| {
        let handler = handler.ok_or_else(|| Failure::argument("`handler` is null"))?;
        let (method, pattern) = (method.get("method")?, pattern.get("pattern")?);
        let method = match Method::from_name(method.as_bytes()) {
            Method::Other => {
                let message = format!("method {method:?}: use GET, POST, PUT, PATCH or DELETE");
                return Err(Failure::argument(message));
            }
            method => method,
        };
        configure(server, |state| {
            state.count_route()?;
            let endpoint = Endpoint::direct(move |request, out| {
                request::answer(request, out, handler, context)
            });
            state.router = state.router.take().map(|router| router.on(method, pattern, endpoint));
            Ok(())
        })
    })
}

/// Adds a route that opens WebSockets: GET requests with a path that matches the pattern. Pages of other
/// origins are refused.
///
/// Threads: any thread, before the start. The callback runs on all threads of the server at once.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_server_websocket(
    server: MarmotaHandle,
    pattern: MarmotaText,
    callback: MarmotaSocketCallback,
    context: MarmotaContext,
) -> i32 {
    entry(|| {
        let handler = SocketHandler::new(callback, context)?;
        let pattern = pattern.get("pattern")?;
        configure(server, |state| {
            state.count_route()?;
            let router = state.router.take();
            let add = |router: Router| router.websocket(pattern, move |socket| handler.run(socket));
            state.router = router.map(add);
            Ok(())
        })
    })
}

/// Adds a service. `contract` has its methods as JSON: {"name": "calculator", "methods": [{"name": "add",
/// "parameters": [{"name": "a", "type": "i64"}, {"name": "b", "type": "i64"}], "result": "i64"}]}, with
/// types as in Rust. Callers use it by `marmota_client_call`, stubs in Rust, `POST
/// /services/calculator/add`, JSON-RPC at /services/-/rpc and WebSockets. All callers may call it:
/// protect the address.
///
/// Threads: any thread, before the start. The handler runs on 8 threads of the service at once.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_server_service(
    server: MarmotaHandle,
    contract: MarmotaText,
    handler: MarmotaServiceHandler,
    context: MarmotaContext,
) -> i32 {
    entry(|| {
        let hosted = service::hosted(contract.get("contract")?, handler, context)?;
        configure(server, |state| {
            let services = state.services.clone().unwrap_or_default();
            state.services = Some(services.service(hosted)?);
            Ok(())
        })
    })
}

/// Binds the address and starts the server's threads. Two routes with the same pattern are an error.
///
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_server_start(server: MarmotaHandle) -> i32 {
    entry(|| {
        configure(server, |state| {
            let mut bound = Server::bind(state.address.as_str()).map_err(of_server)?;
            if let Some(threads) = state.threads {
                bound = bound.threads_per_listener(threads);
            }
            let router = state.router.take().unwrap_or_default();
            let router = match state.services.take() {
                Some(services) => router.nest("", services.router_at("/services")),
                None => router,
            };
            state.running = Some(bound.start(router).map_err(of_server)?);
            Ok(())
        })
    })
}

/// Returns the port of a server that was started.
///
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_server_port(
    server: MarmotaHandle,
    port: Option<&mut MaybeUninit<u16>>,
) -> i32 {
    entry(|| {
        let port = required(port, "port")?;
        let server = handles::find::<ServerObject>(server)?;
        let state = server.0.lock();
        let running = state.running.as_ref().ok_or_else(|| {
            Failure::from(Error::new(ErrorKind::Closed, "the server does not run: start it first"))
        })?;
        port.write(running.local_addr().port());
        Ok(())
    })
}

/// Stops a server: requests that are executing are answered. It returns when the threads have ended;
/// no handler is called afterwards. The server cannot be started again.
///
/// Threads: any thread but the server's own.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_server_stop(server: MarmotaHandle) -> i32 {
    entry(|| stop(&*handles::find::<ServerObject>(server)?))
}

/// Stops a server, if it runs, and frees its handle.
///
/// Threads: any thread but the server's own.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_server_free(server: MarmotaHandle) -> i32 {
    entry(|| {
        let found = handles::find::<ServerObject>(server)?;
        stop(&found)?;
        handles::remove::<ServerObject>(server).map(drop)
    })
}

fn stop(server: &ServerObject) -> Result<(), Failure> {
    if request::is_answering() {
        let message = "a handler cannot stop its server: stop it on another thread";
        return Err(Failure::thread(message));
    }
    let running = server.0.lock().running.take();
    running.map_or(Ok(()), |running| running.shutdown().map_err(of_server))
}

fn configure(
    server: MarmotaHandle,
    change: impl FnOnce(&mut ServerState) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let server: Arc<ServerObject> = handles::find(server)?;
    let mut state = server.0.lock();
    if state.router.is_none() {
        let message = "the server was started already: create another one";
        return Err(Error::new(ErrorKind::Conflict, message).into());
    }
    change(&mut state)
}

#[expect(clippy::needless_pass_by_value, reason = "passed to `map_err`")]
fn of_server(error: ServerError) -> Failure {
    Error::new(ErrorKind::Io, error.to_string()).into()
}
