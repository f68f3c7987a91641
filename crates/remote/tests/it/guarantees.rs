//! What a client knows of its server's engine, and what becomes of a client whose
//! server has another one.

use std::sync::Arc;

use marmota_derive::Model;
use marmota_memory::Memory;
use marmota_model::{ErrorKind, Field, Kind, Result, Role, Schema, Table};
use marmota_remote::{Remote, Service};
use marmota_store::engine::{Capability, Engine, ReadsMeanwhile, Session};
use marmota_store::plan::{Destructive, Plan};
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{Idempotency, Store, StoreBuilder};

use crate::place::{Place, Transport};
use crate::{Person, client, person};

/// Rows in memory under another capability.
struct Declaring(Memory, Capability);

impl Engine for Declaring {
    fn capability(&self) -> &Capability {
        &self.1
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

    fn session(&self) -> Result<Box<dyn Session>> {
        self.0.session()
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

fn served(capability: Capability) -> Service {
    let engine = Declaring(Memory::new(), capability);
    Service::new(&Store::builder(engine).model::<Person>().open().unwrap())
}

#[test]
fn a_client_has_its_servers_guarantees() {
    let declared = Capability::new("any", true)
        .with_sql()
        .with_row_locks()
        .with_key_gaps()
        .with_reads_meanwhile(ReadsMeanwhile::WaitForTables)
        .without_transactions();
    for place in Place::all() {
        let server = place.serve(&served(declared.clone()));
        let store = client(place.remote()).unwrap();
        let known = store.capability();
        assert_eq!(*known, declared.of_client(known.name));
        assert!(!known.transactions && !known.sql && !known.guarded_writes && known.key_gaps);
        store.close().unwrap();
        server.shutdown().unwrap();
    }
}

#[test]
fn a_client_that_needs_transactions_is_refused_where_the_server_has_none() {
    #[derive(Clone, Debug, Default, Model)]
    #[model(table = "person", audit)]
    struct Audited {
        id: i64,
        #[model(max = 20)]
        name: String,
        year: Option<i32>,
    }
    let service = served(Capability::new("plain", false).without_transactions());
    let remote = || Store::builder(Remote::in_process(&service));
    for (opened, what) in [
        (remote().model::<Person>().idempotency(Idempotency::default()).open(), "idempotency"),
        (remote().model::<Audited>().open(), "history"),
    ] {
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains(what), "{error}");
    }
    remote().model::<Person>().open().unwrap();
}

#[test]
fn a_client_lists_the_tables_that_are_served_to_it() {
    #[derive(Clone, Debug, Model)]
    #[model(audit)]
    struct City {
        id: i64,
    }
    let own = Schema::new("marmota_user", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    let builder = Store::builder(Memory::new()).model::<Person>().model::<City>().schema(own);
    let store = builder.open().unwrap();
    let service = Service::new(&store);
    let listed = |service: &Service| {
        Store::builder(Remote::in_process(service)).existing_tables().unwrap().unwrap()
    };
    assert_eq!(listed(&service), ["city", "marmota_history", "person"]);
    let rights = Rights::new(store.registry(), None, &[Grant::new("city", &[Right::Read])]);
    let rights = rights.unwrap();
    let service = service.admit(move |store, _| Ok(store.with_rights(Arc::clone(&rights))));
    assert_eq!(listed(&service), ["city", "marmota_history"]);
}

#[test]
fn a_server_that_comes_back_with_less_is_refused_by_name() {
    let place = Place::of(Transport::Unix);
    let server = place.serve(&served(Capability::new("whole", true)));
    let store = client(place.remote()).unwrap();
    store.insert(&person("Emmy")).run().unwrap();
    server.shutdown().unwrap();
    for (less, what) in [
        (Capability::new("plain", true).without_transactions(), "transactions"),
        (Capability::new("volatile", false), "survive a close"),
    ] {
        let server = place.serve(&served(less));
        let error = store.count::<Person>().run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains(what), "{error}");
        assert!(error.message().contains("open the store again"), "{error}");
        server.shutdown().unwrap();
    }
    let more = Capability::new("other", true).with_row_locks().with_key_gaps();
    let _server = place.serve(&served(more));
    assert_eq!(store.count::<Person>().run().unwrap(), 0);
}

#[test]
fn hooks_belong_to_the_store_that_is_served() {
    let hooked = |builder: StoreBuilder| {
        builder.model::<Person>().before::<Person>(|change| match &change.after {
            Some(person) if person.name.is_empty() => {
                Err(change.refuse(Person::NAME, "required", "must not be empty"))
            }
            _ => Ok(()),
        })
    };
    for place in Place::all() {
        let served = hooked(Store::builder(Memory::new())).open().unwrap();
        let server = place.serve(&Service::new(&served));
        let error = hooked(Store::builder(place.remote())).open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let store = client(place.remote()).unwrap();
        let error = store.insert(&person("")).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(
            (&*error.violations()[0].field, &*error.violations()[0].rule),
            ("name", "required")
        );
        store.insert(&person("Emmy")).run().unwrap();
        assert_eq!(served.count::<Person>().run().unwrap(), 1);
        store.close().unwrap();
        drop(server);
    }
}
