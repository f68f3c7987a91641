//! The same body over all transports: in process, Unix socket,
//! upgraded HTTP, WebSocket, both with TLS; and what comes of connections that break.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_lite::future::block_on;
use marmota_derive::service;
use marmota_http::{RunningServer, Server};
use marmota_model::{Error, ErrorKind, Result};
use marmota_service::{Call, Client, Execution, Lifetime, Services};

use crate::authority::Authority;

#[service]
trait Room {
    /// The instance that answers.
    async fn number(&self) -> Result<usize>;
    async fn echo(&self, text: String) -> Result<String>;
    async fn fail(&self, a: i32) -> Result<()>;
    async fn slow(&self, ms: u64) -> Result<()>;
    /// Tells the caller's own listener so many times.
    async fn tell(&self, times: u32) -> Result<u32>;
}

#[service]
trait Listener {
    async fn heard(&self, number: u32) -> Result<u32>;
}

struct One(usize);

impl Room for One {
    async fn number(&self) -> Result<usize> {
        Ok(self.0)
    }

    async fn echo(&self, text: String) -> Result<String> {
        Ok(text)
    }

    async fn fail(&self, a: i32) -> Result<()> {
        assert!(a != 0, "on purpose");
        Err(Error::new(ErrorKind::Stale, format!("{a} is old")).retryable())
    }

    async fn slow(&self, ms: u64) -> Result<()> {
        std::thread::sleep(Duration::from_millis(ms));
        Ok(())
    }

    async fn tell(&self, times: u32) -> Result<u32> {
        let client = Call::current().and_then(|call| call.client()).unwrap();
        let listener = ListenerClient::new(&client).await?;
        let mut sum = 0;
        for number in 1..=times {
            sum += listener.heard(number).await?;
        }
        Ok(sum)
    }
}

struct Doubling;

impl Listener for Doubling {
    async fn heard(&self, number: u32) -> Result<u32> {
        Ok(number * 2)
    }
}

fn services(lifetime: Lifetime) -> Services {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let hosted = RoomService::per(lifetime, |_| Ok(One(NEXT.fetch_add(1, Ordering::Relaxed))));
    Services::new().service(hosted.execution(Execution::Pool(4))).unwrap()
}

fn offered() -> Services {
    Services::new().service(ListenerService::shared(Doubling)).unwrap()
}

/// How many clients [`everywhere`] gives.
pub(crate) const TRANSPORTS: usize = 6;

/// One without TLS, at a Unix socket too, and one with it.
pub(crate) struct Servers {
    plain: RunningServer,
    secure: RunningServer,
}

impl Servers {
    pub(crate) fn addresses(&self) -> &[marmota_http::Address] {
        self.plain.addresses()
    }

    pub(crate) fn shutdown(self) -> std::result::Result<(), marmota_http::ServerError> {
        self.plain.shutdown()?;
        self.secure.shutdown()
    }
}

/// Servers at a Unix socket and a port, and the clients of all transports.
pub(crate) fn everywhere(services: &Services) -> (Servers, Vec<(String, Client)>) {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let unix = format!("unix:@marmota-service-{}-{number}", std::process::id());
    let server = Server::bind("127.0.0.1:0").unwrap().also_bind(&unix).unwrap().listeners(1);
    let server = server.start(services.router()).unwrap();
    let authority = Authority::new();
    let secure = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let secure = secure.tls(authority.tls("127.0.0.1", 2200)).start(services.router()).unwrap();
    let https = format!("https://{}/api", secure.local_addr());
    let secure_web_socket = format!("wss://{}/api", secure.local_addr());
    let http = format!("http://{}/api", server.addresses()[0]);
    let web_socket = format!("ws://{}/api", server.addresses()[0]);
    let mut clients =
        vec![("in process".to_owned(), Client::in_process_offering(services, &offered()))];
    for url in [unix, http, web_socket, https, secure_web_socket] {
        let client = Client::builder(&url).callbacks(&offered()).ca_file(authority.file());
        clients.push((url, client.connect().unwrap()));
    }
    assert_eq!(clients.len(), TRANSPORTS);
    (Servers { plain: server, secure }, clients)
}

#[test]
fn calls_errors_and_callbacks_are_the_same_by_all_transports() {
    let (server, clients) = everywhere(&services(Lifetime::Call));
    for (case, client) in clients {
        block_on(async {
            let room = RoomClient::new(&client).await.unwrap();
            let text = "ß\"\\\n".repeat(10_000);
            assert_eq!(room.echo(text.clone()).await.unwrap(), text, "{case}");
            let error = room.fail(7).await.unwrap_err();
            assert_eq!((error.kind(), error.message()), (ErrorKind::Stale, "7 is old"), "{case}");
            assert!(error.is_retryable(), "{case}");
            let panicked = room.fail(0).await.unwrap_err();
            assert_eq!(panicked.kind(), ErrorKind::Bug, "{case}");
            assert!(panicked.message().starts_with("room.fail: "), "{case} {panicked}");
            assert_eq!(room.tell(3).await.unwrap(), 12, "{case}");
            let unknown = ListenerClient::new(&client).await.unwrap_err();
            assert_eq!(unknown.kind(), ErrorKind::NotFound, "{case}");
        });
    }
    server.shutdown().unwrap();
}

#[test]
fn a_session_is_a_connection_where_nobody_logs_in() {
    let (_server, clients) = everywhere(&services(Lifetime::Session));
    let number =
        |client: &Client| block_on(async { RoomClient::new(client).await.unwrap().number().await });
    let (mut seen, mut clients) = (Vec::new(), clients.into_iter());
    let error = number(&clients.next().unwrap().1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    for (case, client) in clients {
        let first = number(&client).unwrap();
        assert_eq!(number(&client).unwrap(), first, "{case}");
        assert!(!seen.contains(&first), "{case}");
        seen.push(first);
    }
}

#[test]
fn many_calls_are_under_way_on_one_connection() {
    let (_server, clients) = everywhere(&services(Lifetime::Call));
    for (case, client) in clients {
        let begun = std::time::Instant::now();
        std::thread::scope(|scope| {
            for number in 0..4 {
                let client = &client;
                scope.spawn(move || {
                    block_on(async {
                        let room = RoomClient::new(client).await.unwrap();
                        for turn in 0..50 {
                            let text = format!("{number} {turn}");
                            assert_eq!(room.echo(text.clone()).await.unwrap(), text);
                        }
                        room.slow(1_500).await.unwrap();
                    });
                });
            }
        });
        // One after another they take six seconds.
        assert!(begun.elapsed() < Duration::from_secs(5), "{case} {:?}", begun.elapsed());
    }
}

#[test]
fn what_waits_is_told_of_time_and_end() {
    let (server, clients) = everywhere(&services(Lifetime::Call));
    for (case, client) in clients.iter().skip(1) {
        block_on(async {
            let hasty = client.clone().deadline(Duration::from_millis(100));
            let room = loop {
                match RoomClient::new(&hasty).await {
                    Err(error) if error.kind() == ErrorKind::Timeout => {}
                    room => break room.unwrap(),
                }
            };
            let error = room.slow(1_000).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout, "{case}");
        });
    }
    server.shutdown().unwrap();
    for (case, client) in clients.into_iter().skip(1) {
        // It waits for a server that may come back, as long as it may wait.
        let hasty = client.deadline(Duration::from_millis(100));
        let error = block_on(async {
            loop {
                match RoomClient::new(&hasty).await {
                    // Its end is not known to the client yet.
                    Err(error) if error.kind() == ErrorKind::Timeout => {}
                    other => break other.unwrap_err(),
                }
            }
        });
        assert_eq!(error.kind(), ErrorKind::Refused, "{case} {error:?}");
    }
    assert_eq!(Client::connect("unix:@nobody-is-here").unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(Client::connect("ftp://x").unwrap_err().kind(), ErrorKind::Invalid);
}
