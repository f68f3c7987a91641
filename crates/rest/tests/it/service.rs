//! The service under test: the same tables over every engine there is, each
//! behind a real server on a free port.

use std::net::SocketAddr;

use marmota_http::{RunningServer, Server};
use marmota_memory::Memory;
use marmota_model::{
    Collation, EnumStored, Field, KeyKind, Kind, Literal, Role, Rule, Schema, Variant,
};
use marmota_rest::Api;
use marmota_sqlite::{Durability, Location, Sqlite, SqliteOptions};
use marmota_store::engine::Engine;
use marmota_store::{Idempotency, Store, StoreBuilder};

use crate::client::Client;
use crate::slow::slow;

/// A running service.
pub(crate) struct Service {
    pub(crate) store: Store,
    server: RunningServer,
}

impl Service {
    pub(crate) fn new(engine: &'static str, on: impl Engine + 'static) -> Self {
        Self::of(engine, Store::builder(on))
    }

    /// A service whose store and lists are cached.
    pub(crate) fn cached(engine: &'static str, on: impl Engine + 'static) -> Self {
        Self::of(engine, Store::builder(on).cache(1 << 20))
    }

    pub(crate) fn of(engine: &'static str, builder: StoreBuilder) -> Self {
        let store = builder
            .idempotency(Idempotency::default())
            .schema(person())
            .schema(city())
            .schema(note())
            .open()
            .unwrap_or_else(|error| panic!("{engine}: {error:?}"));
        let api = Api::new(&store).page_rows_max(50).batch_operations_max(20);
        let server = Server::bind("127.0.0.1:0").unwrap().listeners(2).start(api.router()).unwrap();
        Self { store, server }
    }

    pub(crate) fn memory() -> Self {
        Self::new("memory", Memory::new())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.local_addr()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.address())
    }
}

/// Runs a test over every engine.
pub(crate) fn on_every_engine(test: impl Fn(&Service)) {
    run("memory", Memory::new(), &test);
    run("slow memory", slow(Memory::new()), &test);
    on_every_cached_engine(&test);
    run("sqlite in memory", sqlite(Location::Memory), &test);
    let folder = tempfile::tempdir().unwrap();
    run("sqlite file", sqlite(Location::File(folder.path().join("rest.db"))), &test);
}

/// Runs a test over services that answer from caches.
pub(crate) fn on_every_cached_engine(test: impl Fn(&Service)) {
    eprintln!("on cached memory");
    test(&Service::cached("cached memory", Memory::new()));
    eprintln!("on slow cached memory");
    test(&Service::cached("slow cached memory", slow(Memory::new())));
    eprintln!("on cached sqlite");
    test(&Service::cached("cached sqlite", sqlite(Location::Memory)));
}

fn sqlite(location: Location) -> Sqlite {
    // What these tests ask is not whether the disk keeps its word.
    let options = SqliteOptions { durability: Durability::Relaxed, ..SqliteOptions::default() };
    Sqlite::open(location, options).unwrap()
}

fn run(name: &'static str, engine: impl Engine + 'static, test: &impl Fn(&Service)) {
    eprintln!("on {name}");
    test(&Service::new(name, engine));
}

fn text(name: &'static str, chars_max: u32) -> Field {
    Field::new(name, Kind::Text { chars_max, collation: Collation::Binary })
}

/// A versioned table with everything the store plays a part in.
fn person() -> Schema {
    let year = Rule::Range { min: Some(Literal::Int(-3000)), max: Some(Literal::Int(2100)) };
    Schema::new(
        "person",
        vec![
            Field::new("id", Kind::I64).role(Role::Key),
            text("first_name", 40).rules(vec![Rule::NotEmpty]),
            text("last_name", 40).rules(vec![Rule::NotEmpty]),
            Field::new("year_of_birth", Kind::Int { min: i32::MIN.into(), max: i32::MAX.into() })
                .rules(vec![year]),
            Field::new("year_of_death", Kind::I64).nullable(true),
            text("email", 0).nullable(true).unique(true).rules(vec![Rule::Email]),
            Field::new("visits", Kind::Int { min: 0, max: 1000 }).default(Literal::Int(0)),
            Field::new("photo", Kind::Blob).nullable(true),
            Field::new("created_at", Kind::Timestamp).role(Role::CreatedAt),
            Field::new("updated_at", Kind::Timestamp).role(Role::UpdatedAt),
            Field::new("version", Kind::I64).role(Role::Version),
        ],
    )
}

/// A table without a version, whose keys the client gives.
fn city() -> Schema {
    Schema::new(
        "city",
        vec![
            Field::new("code", Kind::TEXT).role(Role::Key),
            text("name", 40),
            Field::new("people", Kind::I64).nullable(true),
            Field::new("arms", Kind::Blob).nullable(true),
        ],
    )
}

/// A table with a value of every other kind.
fn note() -> Schema {
    let variants = ["draft", "final"].into_iter().zip(1..);
    let variants: Vec<Variant> =
        variants.map(|(name, number)| Variant { name: name.into(), number }).collect();
    let state = Kind::Enum { variants: variants.into(), stored: EnumStored::Integer };
    Schema::new(
        "note",
        vec![
            Field::new("id", Kind::Uuid).role(Role::Key),
            Field::new("words", Kind::TEXT),
            Field::new("state", state).default(Literal::Text("draft".into())),
            Field::new("price", Kind::Currency).nullable(true),
            Field::new("weight", Kind::Float).nullable(true),
            Field::new("urgent", Kind::Bool).default(Literal::Bool(false)),
            Field::new("tags", Kind::Json).nullable(true),
            Field::new("day", Kind::Date).nullable(true),
            Field::new("hour", Kind::Time).nullable(true),
            Field::new("at", Kind::Timestamp).nullable(true),
            Field::new("of", Kind::Reference { table: "person".into(), key: KeyKind::Auto })
                .nullable(true),
        ],
    )
}
