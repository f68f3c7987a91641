//! Servers that end their connections, because they shut down or replace their routes: calls that
//! were not executed are sent again, and no call is executed twice. Over all transports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use marmota_derive::service;
use marmota_http::RouteChanges;
use marmota_model::Result;
use marmota_service::{Client, ItemStream, Lifetime, Services};
use parking_lot::Mutex;

use crate::place::Place;

const PATIENCE: Duration = Duration::from_secs(60);

/// No call may be executed twice.
#[service]
trait Ledger {
    async fn enter(&self, number: u64) -> Result<()>;
    async fn enter_all(&self, numbers: ItemStream<u64>) -> Result<()>;
}

/// Each stub has an instance, which its first call creates.
#[service]
trait Page {
    async fn enter(&self, number: u64) -> Result<()>;
}

#[derive(Clone, Default)]
struct Entries(Arc<Mutex<Vec<u64>>>);

impl Ledger for Entries {
    async fn enter(&self, number: u64) -> Result<()> {
        self.0.lock().push(number);
        Ok(())
    }

    async fn enter_all(&self, mut numbers: ItemStream<u64>) -> Result<()> {
        while let Some(number) = numbers.try_next().await? {
            self.0.lock().push(number);
        }
        Ok(())
    }
}

impl Page for Entries {
    async fn enter(&self, number: u64) -> Result<()> {
        self.0.lock().push(number);
        Ok(())
    }
}

/// Calls until the end; returns the number of calls.
async fn call(client: &Client, last: &AtomicU64, ends: &AtomicBool) -> u64 {
    let (mut calls, ledger) = (0, LedgerClient::new(client).await.unwrap());
    while !ends.load(Ordering::Relaxed) {
        let number = last.fetch_add(1, Ordering::Relaxed);
        match calls % 4 {
            0 => ledger.enter_all(ItemStream::iter([number])).await.unwrap(),
            1 => PageClient::new(client).await.unwrap().enter(number).await.unwrap(),
            _ => ledger.enter(number).await.unwrap(),
        }
        calls += 1;
    }
    calls
}

#[test]
fn no_call_fails_while_its_server_is_replaced() {
    for place in Place::all() {
        let entries = Entries::default();
        let pages = entries.clone();
        let pages = PageService::per(Lifetime::Stub, move |_| Ok(pages.clone()));
        let services = Services::new().service(LedgerService::shared(entries.clone())).unwrap();
        let services = services.service(pages).unwrap();
        let mut changes = RouteChanges::new();
        let mut server = place.start(services.router(), &changes);
        let clients = [(); 3].map(|()| {
            let client = Client::builder(&place.url());
            let client = match place.ca_file() {
                Some(file) => client.ca_file(file),
                None => client,
            };
            client.connect().unwrap()
        });
        let (ends, last) = (AtomicBool::new(false), AtomicU64::new(0));
        let (called, server): (u64, _) = thread::scope(|scope| {
            let (ends, last) = (&ends, &last);
            // Two callers share each connection.
            let callers = clients.iter().chain(&clients);
            let callers: Vec<_> = callers
                .map(|client| scope.spawn(move || block_on(call(client, last, ends))))
                .collect();
            for round in 0..20 {
                if round % 2 == 0 {
                    server.shutdown().unwrap();
                    changes = RouteChanges::new();
                    server = place.start(services.router(), &changes);
                } else {
                    let pause = changes.pause(PATIENCE).unwrap();
                    assert_eq!(pause.requests_in_progress(), 0);
                    pause.resume_with(services.router()).unwrap();
                }
                let before = entries.0.lock().len();
                let until = Instant::now() + PATIENCE;
                while entries.0.lock().len() < before + 20 {
                    if Instant::now() >= until {
                        ends.store(true, Ordering::Relaxed);
                        panic!("no calls are executed: {place:?}");
                    }
                    thread::yield_now();
                }
            }
            ends.store(true, Ordering::Relaxed);
            (callers.into_iter().map(|caller| caller.join().unwrap()).sum(), server)
        });
        let mut entered = entries.0.lock().clone();
        entered.sort_unstable();
        assert_eq!(entered, (0..called).collect::<Vec<_>>(), "{place:?}");
        server.shutdown().unwrap();
    }
}
