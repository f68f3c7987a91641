//! A store that is served, and reached from elsewhere: an engine whose tables
//! are those of a server that it starts as soon as they are known.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use marmota_auth::{Auth, Settings};
use marmota_http::{Address, Request, Router, RunningServer, Server, Tls};
use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_remote::{Remote, Service};
use marmota_store::engine::{Capability, Engine, Session};
use marmota_store::history::HISTORY_TABLE;
use marmota_store::operation::ANSWERS;
use marmota_store::plan::{Destructive, Plan};
use marmota_store::{Idempotency, Store, StoreBuilder};
use marmota_testkit::conformance::event_loop::unscheduled;
use marmota_testkit::conformance::{AddModels, Served, Subject};

/// The table of what a program has migrated.
const MIGRATIONS: &str = "marmota_migration";

/// How a client reaches a service. The server has these other routes, too.
type Reach = fn(&Service, Router) -> Reached;

/// The client, and what has to live as long.
type Reached = (Remote, Option<RunningServer>, Option<tempfile::TempDir>);

/// The transports that there are.
pub(crate) const TRANSPORTS: [(&str, Reach); 6] = [
    ("in process", in_process),
    ("a Unix socket", over_unix),
    ("HTTP", over_http),
    ("a WebSocket", over_a_web_socket),
    ("TLS", over_tls),
    ("a WebSocket in TLS", over_a_web_socket_in_tls),
];

pub(crate) fn in_process(service: &Service, _: Router) -> Reached {
    (Remote::in_process(service), None, None)
}

pub(crate) fn over_unix(service: &Service, routes: Router) -> Reached {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("unix:{}", folder.path().join("socket").display());
    let server = Server::bind(url.as_str()).unwrap().listeners(1);
    let server = server.start(routes.nest("", service.router())).unwrap();
    (Remote::from_url(&url).unwrap(), Some(server), Some(folder))
}

pub(crate) fn over_http(service: &Service, routes: Router) -> Reached {
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.start(routes.nest("", service.router_at("/data"))).unwrap();
    let url = format!("http://{}/data", server.local_addr());
    (Remote::from_url(&url).unwrap(), Some(server), None)
}

pub(crate) fn over_a_web_socket(service: &Service, routes: Router) -> Reached {
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.start(routes.nest("", service.router())).unwrap();
    let url = format!("ws://{}/api", server.local_addr());
    (Remote::from_url(&url).unwrap(), Some(server), None)
}

fn over_tls(service: &Service, routes: Router) -> Reached {
    secure("https", service, routes)
}

fn over_a_web_socket_in_tls(service: &Service, routes: Router) -> Reached {
    secure("wss", service, routes)
}

fn secure(scheme: &str, service: &Service, routes: Router) -> Reached {
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let [pem, own] = ["a.pem", "a.key"].map(|name| folder.path().join(name));
    std::fs::write(&pem, certificate.pem()).unwrap();
    std::fs::write(&own, key.serialize_pem()).unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).tls(Tls::files(&pem, own));
    // Other requests come without TLS, to the same thread.
    let plain = format!("unix:{}", folder.path().join("socket").display());
    let server = server.also_bind(plain.as_str()).unwrap();
    let server = server.start(routes.nest("", service.router())).unwrap();
    let url = format!("{scheme}://{}/api", server.local_addr());
    (Remote::from_url(&url).unwrap().ca_file(pem), Some(server), Some(folder))
}

/// A subject whose stores are reached by `reach`, over databases of `engine`.
pub(crate) fn subject(
    name: &'static str,
    reach: Reach,
    engine: impl Fn() -> Box<dyn Engine> + Send + Sync + 'static,
) -> Subject {
    hosted(name, reach, engine, None)
}

/// The same of a server that keeps accounts where its engine has transactions, and looks up the
/// client's token for each operation; and that has what `also` adds to its store.
pub(crate) fn with_accounts(
    name: &'static str,
    reach: Reach,
    engine: impl Fn() -> Box<dyn Engine> + Send + Sync + 'static,
    also: AddModels,
) -> Subject {
    let door = Arc::new(Door::default());
    hosted(name, reach, engine, Some((Arc::clone(&door), also))).with_server(door)
}

fn hosted(
    name: &'static str,
    reach: Reach,
    engine: impl Fn() -> Box<dyn Engine> + Send + Sync + 'static,
    door: Option<(Arc<Door>, AddModels)>,
) -> Subject {
    Subject::served(name, move |models| {
        let inner = Shared(Arc::from(engine()));
        let opening = inner.capability().of_client("remote");
        let (door, running) = (door.clone(), OnceLock::new());
        let builder = Store::builder(Hosted { inner, models, reach, door, opening, running });
        match models {
            Some(models) => models(builder),
            None => builder,
        }
    })
}

const PASSWORD: &str = "correct horse battery";

/// How the server that was started last is reached by others, and its accounts.
#[derive(Default)]
struct Door(Mutex<(Option<Auth>, Option<Address>)>);

impl Door {
    /// Opens the accounts of a store; gives what a client shows, and what it shows it to.
    fn open(&self, store: &Store) -> (String, Service, Router) {
        let ping = Router::new().get("/ping", |_: Request| async {
            // That of the thread which serves.
            unscheduled().as_nanos().to_string()
        });
        if !store.registry().has_accounts() {
            return (String::new(), Service::new(store), ping);
        }
        // Each token is read anew; a password is cheap, for its cost is no wait.
        let settings = Settings::default().cache_ttl(Duration::ZERO).password_cost(64, 1);
        let auth = Auth::new(store, settings).unwrap();
        if let Some(token) = auth.setup_token() {
            auth.set_password("admin", token, PASSWORD, None).unwrap();
        }
        let token = auth.login("admin", PASSWORD, None).unwrap().token;
        let known = auth.clone();
        let service = Service::new(store).authenticate(move |_, token| known.store_of(token));
        let routes = marmota_rest::Api::new(store).prefix("/rest").auth(&auth).router();
        *self.0.lock().unwrap() = (Some(auth), None);
        (token, service, ping.nest("", routes))
    }

    /// Notes where the server is, without TLS.
    fn listens(&self, server: Option<&RunningServer>) {
        self.0.lock().unwrap().1 = server.and_then(|server| server.addresses().last().cloned());
    }

    /// Sends a request to the server, and gives the body of the answer; none if the service is in
    /// this process.
    fn request(&self, request: &str) -> Option<Result<String>> {
        let address = self.0.lock().unwrap().1.clone()?;
        let mut answer = String::new();
        let done = match &address {
            Address::Net(address) => TcpStream::connect(address).and_then(|mut stream| {
                stream.write_all(request.as_bytes())?;
                stream.read_to_string(&mut answer)
            }),
            Address::Path(path) => UnixStream::connect(path).and_then(|mut stream| {
                stream.write_all(request.as_bytes())?;
                stream.read_to_string(&mut answer)
            }),
            other => panic!("{other} is no address of a test"),
        };
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        Some(match done {
            Ok(_) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
            Ok(_) => Err(Error::new(ErrorKind::Protocol, answer)),
            Err(error) => Err(error.into()),
        })
    }
}

impl Served for Door {
    fn ping(&self) -> Result<Duration> {
        let ping = "GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let Some(answer) = self.request(ping) else { return Ok(Duration::ZERO) };
        Ok(Duration::from_nanos(answer?.trim().parse().unwrap()))
    }

    fn log_in(&self) -> Result<()> {
        let body = format!(r#"{{"name":"admin","password":"{PASSWORD}"}}"#);
        let request = format!(
            "POST /rest/auth/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        match self.request(&request) {
            Some(answer) => answer.map(drop),
            None => {
                let auth = self.0.lock().unwrap().0.clone().unwrap();
                auth.login("admin", PASSWORD, None).map(drop)
            }
        }
    }
}

/// The database's engine, which the server has and, before it is started, the
/// client.
#[derive(Clone)]
struct Shared(Arc<dyn Engine>);

impl Engine for Shared {
    fn capability(&self) -> &Capability {
        self.0.capability()
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        self.0.plan(tables, version)
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        self.0.migrate(tables, version, destructive)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        self.0.open_table(table)
    }

    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        self.0.existing_tables()
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        self.0.session()
    }

    fn copy_to(
        &self,
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<marmota_store::backup::Copied> {
        self.0.copy_to(path, progress)
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

struct Hosted {
    inner: Shared,
    models: Option<AddModels>,
    reach: Reach,
    /// Of a server that keeps accounts.
    door: Option<(Arc<Door>, AddModels)>,
    /// What is known before the server has started.
    opening: Capability,
    running: OnceLock<Running>,
}

struct Running {
    // In the order in which they end.
    remote: Remote,
    _server: Option<RunningServer>,
    _folder: Option<tempfile::TempDir>,
    store: Store,
}

impl Hosted {
    /// The builder of the store that is served.
    fn served(&self, tables: &[Arc<Table>], version: u32) -> StoreBuilder {
        let builder = Store::builder(self.inner.clone()).schema_version(version);
        let builder = match &self.door {
            Some((_, also)) => match self.inner.capability().transactions {
                true => also(marmota_auth::models(builder)),
                false => also(builder),
            },
            None => builder,
        };
        if let Some(models) = self.models {
            return models(builder);
        }
        tables.iter().fold(builder, |builder, table| match table.name() {
            HISTORY_TABLE => builder,
            ANSWERS => builder.idempotency(Idempotency::default()),
            _ => builder.schema(table.schema().clone()),
        })
    }
}

impl Engine for Hosted {
    fn capability(&self) -> &Capability {
        match self.running.get() {
            Some(running) => running.remote.capability(),
            None => &self.opening,
        }
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        self.inner.plan(tables, version)
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        // Migrations are the server's business: its own program does them.
        if tables.iter().any(|table| table.name() == MIGRATIONS) {
            return self.inner.migrate(tables, version, destructive);
        }
        let plan = self.inner.plan(tables, version)?;
        plan.check(destructive)?;
        let store = self.served(tables, version).allow_destructive(destructive.clone()).open()?;
        let (token, service, routes) = match &self.door {
            Some((door, _)) => door.open(&store),
            None => (String::new(), Service::new(&store), Router::new()),
        };
        let (remote, server, folder) = (self.reach)(&service, routes);
        let remote = remote.credential(token);
        if let Some((door, _)) = &self.door {
            door.listens(server.as_ref());
        }
        remote.migrate(tables, version, destructive)?;
        let running = Running { remote, _server: server, _folder: folder, store };
        assert!(self.running.set(running).is_ok(), "it is opened once");
        Ok(plan)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        self.inner.open_table(table)
    }

    /// Asked for before there are tables to be served.
    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        self.inner.existing_tables()
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        match self.running.get() {
            Some(running) => running.remote.session(),
            None => self.inner.session(),
        }
    }

    fn close(&self) -> Result<()> {
        match self.running.get() {
            Some(running) => running.remote.close().and_then(|()| running.store.close()),
            None => self.inner.close(),
        }
    }
}
