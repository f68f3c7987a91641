//! Instances that are a stub's own, over all transports: who has one, and when
//! it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use marmota_derive::service;
use marmota_model::{ErrorKind, Result};
use marmota_service::{Hosted, Lifetime, Services};

use serde_json::json;

use crate::transports::everywhere;
use crate::web_sockets::Browser;

#[service]
trait Counter {
    async fn add(&self, number: usize) -> Result<usize>;
}

/// Counts for itself, and counts among those that there are.
struct Count(AtomicUsize, Arc<AtomicUsize>);

impl Counter for Count {
    async fn add(&self, number: usize) -> Result<usize> {
        Ok(self.0.fetch_add(number, Ordering::SeqCst) + number)
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

fn hosted(alive: &Arc<AtomicUsize>) -> Hosted {
    let alive = Arc::clone(alive);
    CounterService::per(Lifetime::Stub, move |_| {
        alive.fetch_add(1, Ordering::SeqCst);
        Ok(Count(AtomicUsize::new(0), Arc::clone(&alive)))
    })
}

#[track_caller]
fn reaches(alive: &AtomicUsize, wanted: usize, case: &str) {
    let begun = Instant::now();
    while alive.load(Ordering::SeqCst) != wanted {
        assert!(begun.elapsed() < Duration::from_secs(60), "{case}: {alive:?} are alive");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_stub_has_an_instance_of_its_own_as_long_as_it_lives() {
    let alive = Arc::new(AtomicUsize::new(0));
    let (server, clients) = everywhere(&Services::new().service(hosted(&alive)).unwrap());
    for (case, client) in clients {
        let (one, other) = block_on(async {
            let one = CounterClient::new(&client).await.unwrap();
            let other = CounterClient::new(&client).await.unwrap();
            // Made by the first call, not by the stub.
            assert_eq!(alive.load(Ordering::SeqCst), 0, "{case}");
            for turn in 1..=3 {
                assert_eq!(one.add(2).await.unwrap(), 2 * turn, "{case}");
                assert_eq!(other.add(5).await.unwrap(), 5 * turn, "{case}");
            }
            (one, other)
        });
        assert_eq!(alive.load(Ordering::SeqCst), 2, "{case}");
        let same = one.clone();
        drop(one);
        assert_eq!(block_on(same.add(1)).unwrap(), 7, "{case}: a clone is the same stub");
        drop(same);
        reaches(&alive, 1, &case);
        assert_eq!(block_on(other.add(5)).unwrap(), 20, "{case}");
        // Whoever goes without a word takes its instances along.
        drop(client);
        drop(other);
        reaches(&alive, 0, &case);
    }
    server.shutdown().unwrap();
}

#[test]
fn there_are_no_more_of_them_than_there_may_be() {
    let alive = Arc::new(AtomicUsize::new(0));
    let services = Services::new().service(hosted(&alive).instances_max(2)).unwrap();
    let (server, clients) = everywhere(&services);
    block_on(async {
        let mut kept = Vec::new();
        for (_, client) in clients.iter().take(2) {
            let stub = CounterClient::new(client).await.unwrap();
            stub.add(1).await.unwrap();
            kept.push(stub);
        }
        for (case, client) in &clients {
            let stub = CounterClient::new(client).await.unwrap();
            let error = stub.add(1).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Busy, "{case}");
            assert!(error.message().contains("`instances_max`"), "{case}: {error}");
        }
        drop(kept);
        reaches(&alive, 0, "released");
        let stub = CounterClient::new(&clients[2].1).await.unwrap();
        assert_eq!(stub.add(1).await.unwrap(), 1);
    });
    drop(clients);
    reaches(&alive, 0, "ended");
    server.shutdown().unwrap();
}

#[test]
fn a_request_by_itself_has_none() {
    let alive = Arc::new(AtomicUsize::new(0));
    let (server, _) = everywhere(&Services::new().service(hosted(&alive)).unwrap());
    let url = format!("http://{}/api", server.addresses()[0]);
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut answer = agent
        .post(format!("{url}/counter/add"))
        .content_type("application/json")
        .send(r#"{"number":1}"#)
        .unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    assert_eq!(answer.status(), 501, "{text}");
    assert!(text.contains("counter.add") && text.contains("connect over a socket"), "{text}");
    let call = r#"{"jsonrpc":"2.0","method":"counter.add","params":[1],"id":1,"stub":1}"#;
    let text =
        agent.post(format!("{url}/-/rpc")).content_type("application/json").send(call).unwrap();
    let text = text.into_body().read_to_string().unwrap();
    assert!(text.contains("connect over a socket"), "{text}");
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    server.shutdown().unwrap();
}

#[test]
fn a_page_numbers_its_stubs_itself() {
    let alive = Arc::new(AtomicUsize::new(0));
    let (server, _) = everywhere(&Services::new().service(hosted(&alive)).unwrap());
    let mut page = Browser::open(&server.addresses()[0].to_string());
    let mut add = |stub: u64, number: u64| {
        page.say(
            &json!({"jsonrpc":"2.0","method":"counter.add","params":[number],"id":1,"stub":stub}),
        );
        page.hear()["result"].as_u64().unwrap()
    };
    assert_eq!([add(1, 1), add(2, 5), add(1, 1), add(2, 5)], [1, 5, 2, 10]);
    page.say(&json!({"jsonrpc":"2.0","method":"-.release","params":["counter", 1]}));
    reaches(&alive, 1, "released");
    drop(page);
    reaches(&alive, 0, "ended");
    server.shutdown().unwrap();
}
