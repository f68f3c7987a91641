//! Contracts that are compared again on each new connection: what a stub's calls come to when the
//! server was replaced meanwhile by one that means something else. Over all transports.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_lite::future::{block_on, poll_once};
use marmota_derive::service;
use marmota_http::{RunningServer, Server};
use marmota_model::{Error, ErrorKind, Result};
use marmota_service::{Client, Lifetime, Services};

use crate::authority::Authority;
use crate::proxy::Proxy;

mod old {
    use super::{Result, service};

    #[service]
    pub(super) trait Scale {
        async fn weigh(&self, grams: i32) -> Result<i32>;
        /// Never answers.
        #[idempotent]
        async fn hold(&self) -> Result<()>;
    }
}

mod new {
    use super::{Result, service};

    #[service]
    pub(super) trait Scale {
        async fn hold(&self) -> Result<()>;
        async fn weigh(&self, grams: f64) -> Result<String>;
    }
}

/// Counts the calls that have come.
#[derive(Clone, Default)]
struct Kitchen(Arc<AtomicUsize>);

impl Kitchen {
    fn calls(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn called(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl old::Scale for Kitchen {
    async fn weigh(&self, grams: i32) -> Result<i32> {
        self.called();
        Ok(grams)
    }

    async fn hold(&self) -> Result<()> {
        self.called();
        std::future::pending().await
    }
}

impl new::Scale for Kitchen {
    async fn hold(&self) -> Result<()> {
        self.called();
        Ok(())
    }

    async fn weigh(&self, grams: f64) -> Result<String> {
        self.called();
        Ok(format!("{grams} g"))
    }
}

fn old_services(kitchen: &Kitchen) -> Services {
    Services::new().service(old::ScaleService::shared(kitchen.clone())).unwrap()
}

fn new_services(kitchen: &Kitchen) -> Services {
    Services::new().service(new::ScaleService::shared(kitchen.clone())).unwrap()
}

#[track_caller]
fn reach(case: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{case}: it does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A transport, and servers that take each other's place behind it.
struct Stand {
    by: &'static str,
    authority: Authority,
    server: Option<RunningServer>,
    /// What leads to the server.
    proxy: Option<Proxy>,
    unix: String,
}

const BY: [&str; 5] = ["unix", "http", "ws", "https", "wss"];

impl Stand {
    fn new(by: &'static str, services: &Services) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unix = format!("@marmota-contracts-{}-{number}", std::process::id());
        let (authority, server, proxy) = (Authority::new(), None, None);
        let mut stand = Self { by, authority, server, proxy, unix };
        stand.start(services);
        stand
    }

    /// Starts a server, and leads to it.
    fn start(&mut self, services: &Services) {
        let place = match self.by {
            "unix" => format!("unix:{}", self.unix),
            _ => "127.0.0.1:0".to_owned(),
        };
        let mut server = Server::bind(&place).unwrap().listeners(1);
        if self.by.ends_with('s') && self.by != "ws" {
            server = server.tls(self.authority.tls("127.0.0.1", 2200));
        }
        let server = server.start(services.router()).unwrap();
        let address = match self.by {
            "unix" => self.unix.clone(),
            _ => server.addresses()[0].to_string(),
        };
        match &self.proxy {
            Some(proxy) => {
                proxy.lead_to(&address);
                proxy.open();
            }
            None if self.by == "unix" => self.proxy = Some(Proxy::unix(&address)),
            None => self.proxy = Some(Proxy::net(&address)),
        }
        self.server = Some(server);
    }

    fn client(&self) -> Client {
        let address = &self.proxy.as_ref().unwrap().address;
        let url = match self.by {
            "unix" => format!("unix:{address}"),
            by => format!("{by}://{address}/api"),
        };
        Client::builder(&url).ca_file(self.authority.file()).connect().unwrap()
    }

    /// Takes the server away.
    fn stop(&mut self, client: &Client) {
        if let Some(proxy) = &self.proxy {
            proxy.shut();
        }
        if let Some(server) = self.server.take() {
            server.shutdown().unwrap();
        }
        reach(self.by, || !client.is_connected());
    }

    fn replace(&mut self, client: &Client, services: &Services) {
        self.stop(client);
        self.start(services);
    }
}

/// It differs, and says in what.
#[track_caller]
fn differs(error: &Error, by: &str) {
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{by}: {error}");
    let says = |words: &str| error.message().contains(words);
    assert!(says("weigh(grams: i32) -> i32") && says("weigh(grams: f64) -> String"), "{error}");
}

#[test]
fn a_server_that_was_replaced_by_another_version_is_told_by_the_methods_name() {
    for by in BY {
        let (first, second) = (Kitchen::default(), Kitchen::default());
        let mut stand = Stand::new(by, &old_services(&first));
        let client = stand.client();
        block_on(async {
            let scale = old::ScaleClient::new(&client).await.unwrap();
            assert_eq!(old::Scale::weigh(&scale, 3).await.unwrap(), 3, "{by}");
            // It may be sent again, and was sent: it is under way when the server goes.
            let mut again = Box::pin(old::Scale::hold(&scale));
            assert!(poll_once(&mut again).await.is_none());
            reach(by, || first.calls() == 2);
            stand.stop(&client);
            let mut waits = Box::pin(old::Scale::weigh(&scale, 4));
            assert!(poll_once(&mut waits).await.is_none(), "{by}");
            stand.start(&new_services(&second));
            differs(&waits.await.unwrap_err(), by);
            differs(&again.await.unwrap_err(), by);
            differs(&old::Scale::weigh(&scale, 5).await.unwrap_err(), by);
            differs(&old::ScaleClient::new(&client).await.unwrap_err(), by);
            assert_eq!(second.calls(), 0, "{by}: nothing has come there");
            // Beside it a stub of the new version goes on.
            let newer = new::ScaleClient::new(&client).await.unwrap();
            assert_eq!(new::Scale::weigh(&newer, 0.5).await.unwrap(), "0.5 g", "{by}");
            differs(&old::Scale::weigh(&scale, 5).await.unwrap_err(), by);
            // What is as it was, goes on as it did.
            stand.replace(&client, &old_services(&first));
            assert_eq!(old::Scale::weigh(&scale, 6).await.unwrap(), 6, "{by}");
            let error = new::Scale::weigh(&newer, 0.5).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{by}: {error}");
            stand.replace(&client, &Services::new());
            let error = old::Scale::weigh(&scale, 7).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{by}: {error}");
            assert!(error.message().contains("`scale`"), "{error}");
        });
        stand.stop(&client);
    }
}

#[test]
fn a_service_whose_instances_are_another_sort_asks_for_a_new_stub() {
    let kitchen = Kitchen::default();
    let mut stand = Stand::new("http", &old_services(&kitchen));
    let client = stand.client();
    let own = kitchen.clone();
    let hosted = old::ScaleService::per(Lifetime::Stub, move |_| Ok(own.clone()));
    let own = Services::new().service(hosted).unwrap();
    block_on(async {
        let scale = old::ScaleClient::new(&client).await.unwrap();
        stand.replace(&client, &own);
        let error = old::Scale::weigh(&scale, 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("create a new stub"), "{error}");
        let anew = old::ScaleClient::new(&client).await.unwrap();
        assert_eq!(old::Scale::weigh(&anew, 2).await.unwrap(), 2);
        drop(anew);
    });
    stand.stop(&client);
}
