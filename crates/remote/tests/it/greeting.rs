//! What is said before the first operation.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use marmota_derive::Model;
use marmota_http::{AddedHeaders, Layer, Request, Response, Server};
use marmota_model::{Error, ErrorKind};
use marmota_remote::{Remote, Service};
use marmota_store::Store;
use marmota_store::rights::{Grant, Right, Rights};

use crate::place::Place;
use crate::{Person, client, person, served};

mod other {
    use super::Model;

    /// The same table with another kind of year.
    #[derive(Clone, Debug, Model)]
    pub(super) struct Person {
        id: i64,
        #[model(max = 20)]
        name: String,
        year: Option<f64>,
    }
}

#[test]
fn another_model_is_refused_by_its_field() {
    let service = Service::new(&served());
    let remote = Remote::in_process(&service);
    let error = Store::builder(remote).model::<other::Person>().open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let message = error.message();
    assert!(message.contains("`person`") && message.contains("`year` (integer"), "{message}");
}

#[test]
fn a_table_that_is_not_served_is_named() {
    #[derive(Clone, Debug, Model)]
    struct City {
        id: i64,
    }
    let remote = Remote::in_process(&Service::new(&served()));
    let error = Store::builder(remote).model::<City>().open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("`city`"), "{error}");
}

#[test]
fn a_store_with_accounts_is_not_served_without_authentication() {
    use marmota_model::{Field, Kind, Role, Schema};

    let id = vec![Field::new("id", Kind::I64).role(Role::Key)];
    let served = Store::builder(marmota_memory::Memory::new())
        .model::<Person>()
        .schema(Schema::new("marmota_user", id))
        .open()
        .unwrap();
    let start = |service: &Service| {
        Server::bind("127.0.0.1:0").unwrap().listeners(1).start(service.router())
    };
    let service = Service::new(&served);
    let error = start(&service).unwrap_err().to_string();
    assert!(error.contains("has accounts") && error.contains(".authenticate("), "{error}");
    start(&service.clone().allow_anonymous()).unwrap().shutdown().unwrap();
    start(&service.admit(|store, _| Ok(store.clone()))).unwrap().shutdown().unwrap();
}

#[test]
fn internal_tables_are_not_served() {
    use marmota_model::{Field, Kind, Role, Schema};

    let id = || vec![Field::new("id", Kind::I64).role(Role::Key)];
    let users = || Schema::new("marmota_user", id());
    let served = Store::builder(marmota_memory::Memory::new()).model::<Person>().schema(users());
    let served = served.open().unwrap();
    let grants = [Grant::new("*", &Right::ALL), Grant::new("marmota_user", &Right::ALL)];
    let rights = Rights::new(served.registry(), None, &grants).unwrap();
    for service in [
        Service::new(&served).admit(|store, _| Ok(store.clone())),
        Service::new(&served).admit(move |store, _| Ok(store.with_rights(Arc::clone(&rights)))),
    ] {
        let remote = Remote::in_process(&service);
        let error = Store::builder(remote).schema(users()).open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.message().contains("there is no table `marmota_user`"), "{error}");
    }
}

#[test]
fn a_client_shows_who_it_is() {
    let service = Service::new(&served()).admit(|store, credential| match credential {
        b"s3cret" => Ok(store.clone()),
        _ => Err(Error::new(ErrorKind::Denied, "nobody has this credential")),
    });
    for place in Place::all() {
        let server = place.serve(&service);
        for wrong in ["", "s3cre", "s3cret2"] {
            let remote = place.remote().credential(wrong);
            assert_eq!(client(remote).unwrap_err().kind(), ErrorKind::Denied, "{place:?}");
        }
        let store = client(place.remote().credential("s3cret")).unwrap();
        store.insert(&person("Emmy")).run().unwrap();
        store.close().unwrap();
        server.shutdown().unwrap();
    }
}

#[test]
fn a_url_of_no_server_is_refused() {
    for url in [
        "unix:",
        "http://",
        "http://:80",
        "ftp://host",
        "http://host/a b",
        "ws:host",
        "ws://",
        "shm:",
        "nothing",
    ] {
        assert_eq!(Remote::from_url(url).unwrap_err().kind(), ErrorKind::Invalid, "{url}");
    }
    for (url, means) in [("https://host", "https://host:443"), ("wss://a:1/b", "wss://a:1")] {
        let remote = Remote::from_url(url).unwrap();
        assert!(format!("{remote:?}").contains(means), "{remote:?}");
    }
}

#[test]
fn a_place_without_a_store_is_named() {
    let server = marmota_http::Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.start(marmota_http::Router::new()).unwrap();
    for scheme in ["http", "ws"] {
        let url = format!("{scheme}://{}/api", server.local_addr());
        let error = client(Remote::from_url(&url).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.message().contains("404"), "{error}");
    }
}

#[test]
fn who_is_not_admitted_any_more_is_refused_and_their_transaction_undone() {
    let served = served();
    let admits = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&admits);
    let service = Service::new(&served).admit(move |store, _| match asked.load(Ordering::SeqCst) {
        true => Ok(store.clone()),
        false => Err(Error::new(ErrorKind::Denied, "not any more")),
    });
    let places = Place::all();
    let _servers: Vec<_> = places.iter().map(|place| place.serve(&service)).collect();
    let elsewhere = places.iter().map(Place::remote);
    for remote in elsewhere.chain([Remote::in_process(&service)]) {
        let store = client(remote).unwrap();
        let own = store.begin_run().unwrap();
        own.insert(&person("Emmy")).run().unwrap();
        admits.store(false, Ordering::SeqCst);
        assert_eq!(own.insert(&person("Lise")).run().unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(store.count::<Person>().run().unwrap_err().kind(), ErrorKind::Denied);
        admits.store(true, Ordering::SeqCst);
        assert!(own.commit().run().is_err());
        drop(own);
        // The connection, and the writer's turn, are free again.
        store.insert(&person("Ada")).run().unwrap();
    }
    assert_eq!(
        served.count::<Person>().run().unwrap(),
        places.len() as u64 + 1,
        "nothing of the transactions"
    );
}

/// Notes where connections come from.
struct Peers(Arc<Mutex<Vec<IpAddr>>>);

impl Layer for Peers {
    fn enter(&self, request: &Request, _: &mut AddedHeaders) -> ControlFlow<Response> {
        self.0.lock().unwrap().extend(request.peer().ip());
        ControlFlow::Continue(())
    }
}

#[test]
fn connections_come_from_the_address_that_is_said() {
    let peers = Arc::default();
    let router = Service::new(&served()).router().layer(Peers(Arc::clone(&peers)));
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).start(router).unwrap();
    let remote = || Remote::from_url(&format!("http://{}/api", server.local_addr())).unwrap();
    for local in ["127.0.0.2", "127.0.0.3"] {
        let local = local.parse().unwrap();
        let store = client(remote().local_address(local)).unwrap();
        store.insert(&person("Emmy")).run().unwrap();
        assert_eq!(peers.lock().unwrap().last(), Some(&local));
    }
    // An address of nobody here (RFC 5737), and one of another kind.
    for (local, part) in [("192.0.2.1", "192.0.2.1"), ("::1", "must both be IPv4")] {
        let error = client(remote().local_address(local.parse().unwrap())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.message().contains(part), "{error}");
    }
    let remote = Remote::from_url("unix:nowhere").unwrap();
    let error = client(remote.local_address([127, 0, 0, 2].into())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("leave the local address out"), "{error}");
}
