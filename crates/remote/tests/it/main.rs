//! Clients and servers beyond what every engine promises (`conformance` has
//! that): contracts, credentials, connections that break, leases, strangers.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod authenticating;
mod authority;
mod breaking;
mod departing;
mod greeting;
mod guarantees;
mod passing_on;
mod pieces;
mod place;
mod strangers;
mod taken_back;
mod tls;
mod transactions;
mod web_socket;

use marmota_derive::Model;
use marmota_http::{RouteChanges, RunningServer};
use marmota_memory::Memory;
use marmota_model::Result;
use marmota_remote::{Remote, Service};
use marmota_store::Store;

use crate::place::Place;

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Person {
    id: i64,
    #[model(max = 20)]
    name: String,
    year: Option<i32>,
}

fn person(name: &str) -> Person {
    Person { id: 0, name: name.to_owned(), year: Some(1882) }
}

fn served() -> Store {
    Store::builder(Memory::new()).model::<Person>().open().unwrap()
}

fn client(remote: Remote) -> Result<Store> {
    Store::builder(remote).model::<Person>().open()
}

impl Place {
    fn serve(&self, service: &Service) -> RunningServer {
        self.start(service.router(), &RouteChanges::new())
    }

    fn remote(&self) -> Remote {
        let remote = Remote::from_url(&self.url()).unwrap();
        self.ca_file().into_iter().fold(remote, Remote::ca_file)
    }
}
