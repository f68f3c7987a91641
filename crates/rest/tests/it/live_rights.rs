//! Live lists while rows, memberships, groups and their rules change at random: each document has the
//! rows of a plain GET, and no event has a value that no GET of its time has.
//!
//! If the readable fields differ from row to row, a GET has those of each row, and a live list those
//! of all rows and those of its order.
//!
//! `LIVE_RIGHTS_STEPS` sets the number of changes, `LIVE_RIGHTS_SEED` the seed.

use std::time::Duration;

use marmota_auth::{Auth, Settings};
use marmota_http::{RunningServer, Server};
use marmota_memory::Memory;
use marmota_model::{Field, KeyKind, Kind, Record, Role, Schema};
use marmota_rest::Api;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::change::ChangeRetention;
use marmota_store::rights::{Grant, Right};
use marmota_store::{Store, StoreBuilder};
use serde_json::Value;

use crate::auth::PASSWORD;
use crate::client::Client;
use crate::live_events::Events;

const GROUPS: [&str; 3] = ["one", "two", "three"];
const TARGETS: [&str; 4] = [
    "/api/note?count=true",
    "/api/note?order=-id&limit=3&count=true",
    "/api/note?filter=owner%3D2&order=-text&limit=2",
    "/api/note?filter=any(team.member)",
];
const RULES: [&str; 5] = [
    "owner = @user.id",
    "owner = @user.id or owner = 2",
    "any(team.member, person = @user.id)",
    "team.owner = @user.id",
    "none(team.member) or owner > 2",
];

fn models(builder: StoreBuilder) -> StoreBuilder {
    let id = || Field::new("id", Kind::I64).role(Role::Key);
    let team = || Kind::Reference { table: "team".into(), key: KeyKind::Auto };
    builder
        .schema(Schema::new("team", vec![id(), Field::new("owner", Kind::I64)]))
        .schema(Schema::new(
            "member",
            vec![id(), Field::new("team", team()), Field::new("person", Kind::I64)],
        ))
        .schema(Schema::new(
            "note",
            vec![
                id(),
                Field::new("owner", Kind::I64),
                Field::new("team", team()).nullable(true),
                Field::new("text", Kind::TEXT),
                Field::new("secret", Kind::TEXT),
            ],
        ))
}

/// A stream of a caller, which is open while the caller may read the list.
struct Watch {
    header: String,
    target: &'static str,
    events: Option<Events>,
    /// The number of events.
    seen: usize,
    /// What a GET returned since the last event. An event can be late if the document before it has
    /// the same rows.
    known: Vec<String>,
}

struct World {
    store: Store,
    auth: Auth,
    server: RunningServer,
    client: Client,
    random: fastrand::Rng,
    users: Vec<i64>,
    watches: Vec<Watch>,
    marker: u32,
}

impl World {
    fn new(builder: StoreBuilder, seed: u64) -> Self {
        let builder = models(builder).changes(ChangeRetention::default());
        let store = marmota_auth::models(builder).open().unwrap();
        let auth = Auth::new(&store, Settings::default().password_cost(64, 1)).unwrap();
        let server = Server::bind("127.0.0.1:0").unwrap().listeners(2);
        let server = server.start(Api::new(&store).auth(&auth).router()).unwrap();
        let client = Client::new(server.local_addr());
        let random = fastrand::Rng::with_seed(seed);
        let (users, watches) = (Vec::new(), Vec::new());
        let mut world = Self { store, auth, server, client, random, users, watches, marker: 0 };
        GROUPS.iter().for_each(|name| world.auth.set_group(name, &[]).unwrap());
        for name in ["ann", "bob"] {
            let (user, token) = world.auth.add_user(name, &[], false).unwrap();
            world.auth.set_password(name, &token, PASSWORD, None).unwrap();
            let token = world.auth.login(name, PASSWORD, None).unwrap().token;
            let header = format!("Authorization: Bearer {token}");
            world.users.push(user);
            world.watches.extend(TARGETS.map(|target| Watch {
                header: header.clone(),
                target,
                events: None,
                seen: 0,
                known: Vec::new(),
            }));
        }
        for _ in 0..3 {
            let owner = world.owner();
            world.insert("team", &[("owner", Some(owner))], &[]);
        }
        (0..6).for_each(|_| world.write());
        world
    }

    fn owner(&mut self) -> i64 {
        match self.random.u8(..3) {
            0 => 2,
            _ => self.random.choice(&self.users).copied().unwrap(),
        }
    }

    fn text(&mut self) -> String {
        self.marker += 1;
        format!("zq{}x", 100_000 + self.marker)
    }

    fn insert(&self, table: &str, numbers: &[(&str, Option<i64>)], texts: &[(&str, &str)]) {
        let mut record = Record::new(self.store.table(table).unwrap());
        for (name, number) in numbers {
            record
                .set(name, number.map_or(marmota_model::Value::Null, marmota_model::Value::Int))
                .unwrap();
        }
        for (name, text) in texts {
            record.set(name, *text).unwrap();
        }
        self.store.insert_record(&record).run().unwrap();
    }

    fn key(&mut self, table: &str) -> Option<marmota_model::Value> {
        let rows = self.store.list_records(&self.store.table(table).unwrap()).run().unwrap();
        self.random.choice(&rows).map(|row| row.value("id").unwrap().clone())
    }

    /// Writes a row.
    fn write(&mut self) {
        let table = if self.random.bool() { "note" } else { "member" };
        let (owner, team) = (self.owner(), self.random.i64(1..4));
        let [text, secret] = [(); 2].map(|()| self.text());
        let key = self.key(table);
        match (table, self.random.u8(..4), key) {
            ("note", 0, Some(key)) => {
                let mut record = Record::new(self.store.table(table).unwrap());
                match self.random.u8(..4) {
                    0 => record.set("owner", owner).unwrap(),
                    1 => record.set("team", team).unwrap(),
                    2 => record.set("text", &*text).unwrap(),
                    _ => record.set("secret", &*secret).unwrap(),
                };
                self.store.update_record(key, &record).run().unwrap();
            }
            (_, 1 | 2, Some(key)) if self.random.bool() || table == "member" => {
                self.store.delete_record(&self.store.table(table).unwrap(), key).run().unwrap();
            }
            ("note", ..) => {
                let team = self.random.bool().then_some(team);
                let texts = [("text", &*text), ("secret", &*secret)];
                self.insert(table, &[("owner", Some(owner)), ("team", team)], &texts);
            }
            _ => self.insert(table, &[("team", Some(team)), ("person", Some(owner))], &[]),
        }
    }

    /// Changes the grants of a group, or the groups of a user.
    fn grant(&mut self) {
        if self.random.bool() {
            let groups = GROUPS.into_iter().filter(|_| self.random.bool()).map(str::to_owned);
            let groups: Vec<String> = groups.collect();
            let user = self.random.choice(&self.users).copied().unwrap();
            return self.auth.change_user(user, Some(&groups), None, None).unwrap();
        }
        let mut grants = Vec::new();
        for _ in 0..self.random.u8(..3) {
            let mut grant = Grant::new("note", &[Right::Read]);
            if self.random.u8(..5) > 0 {
                grant = grant.rule(self.random.choice(RULES).unwrap());
            }
            if self.random.u8(..3) > 0 {
                let names = ["owner", "team", "text", "secret"];
                grant = grant.fields(names.into_iter().filter(|_| self.random.u8(..4) > 0));
            }
            grants.push(grant);
        }
        if self.random.bool() {
            grants.push(Grant::new("member", &[Right::Read]));
        }
        let name = self.random.choice(GROUPS).unwrap();
        self.auth.set_group(name, &grants).unwrap();
    }

    /// The status and the text of a plain GET for each watch.
    fn plain(&mut self) -> Vec<(u16, String)> {
        let client = &mut self.client;
        let answers = self.watches.iter().map(|watch| {
            let answer = client.send(&format!("GET {}", watch.target), &[&watch.header], b"");
            (answer.status, answer.text())
        });
        answers.collect()
    }

    /// Makes a change, and waits until all streams are what a plain GET is then.
    fn step(&mut self) {
        let before = self.plain();
        match self.random.u8(..3) {
            0 => self.grant(),
            _ => self.write(),
        }
        let after = self.plain();
        let address = self.server.local_addr();
        for ((watch, (_, before)), (status, after)) in
            self.watches.iter_mut().zip(before).zip(after)
        {
            if status == 200 {
                let page: Value = serde_json::from_str(&after).unwrap();
                let open = || Events::open(address, watch.target, &format!("{}\r\n", watch.header));
                let events = watch.events.get_or_insert_with(open);
                // Rights that came back after the response had ended.
                if !events.reaches(|document| is_page(document, &page)) && events.is_ended {
                    *events = open();
                    events.reaches(|document| is_page(document, &page));
                }
                let document = &events.document;
                assert!(is_page(document, &page), "{}: {document} is not {page}", watch.target);
            }
            let Some(events) = &mut watch.events else { continue };
            if status != 200 {
                while events.next_within(Duration::from_secs(20)) {}
                assert!(events.is_ended, "{} goes on without the right", watch.target);
            }
            watch.known.extend([before, after]);
            let is_quiet = events.data.is_empty();
            for text in events.data.drain(..) {
                watch.seen += 1;
                for marker in text.split('"').filter(|part| part.starts_with("zq")) {
                    let is_known = watch.known.iter().any(|known| known.contains(marker));
                    assert!(is_known, "{}: {marker} in {text}", watch.target);
                }
            }
            if !is_quiet {
                watch.known.clear();
            }
            if status != 200 {
                watch.events = None;
            }
        }
    }
}

/// Returns true if a document has the rows of a page, each with the same values in its fields.
fn is_page(document: &Value, page: &Value) -> bool {
    let parts = |document: &Value| [document["next"].clone(), document["count"].clone()];
    let (Some(rows), Some(all)) = (document["rows"].as_array(), page["rows"].as_array()) else {
        return false;
    };
    let is_part = |(row, all): (&Value, &Value)| {
        let Some(fields) = row.as_object() else { return false };
        fields.contains_key("id") && fields.iter().all(|(name, value)| all.get(name) == Some(value))
    };
    parts(document) == parts(page) && rows.len() == all.len() && rows.iter().zip(all).all(is_part)
}

fn steps(name: &'static str, builder: StoreBuilder, count: u64) {
    let setting = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let seed = setting("LIVE_RIGHTS_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    println!("{name}: LIVE_RIGHTS_SEED={seed}");
    let mut world = World::new(builder, seed);
    (0..setting("LIVE_RIGHTS_STEPS").unwrap_or(count)).for_each(|_| world.step());
    let events: usize = world.watches.iter().map(|watch| watch.seen).sum();
    println!("{name}: {events} events");
    assert!(events > 20, "only {events} events");
}

#[test]
fn no_event_has_what_its_caller_may_not_read() {
    steps("memory", Store::builder(Memory::new()).cache(1 << 20), 150);
    let sqlite = Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    steps("SQLite", Store::builder(sqlite), 150);
}

/// The order selects rows of which its field can be read, though not all rows have it.
#[test]
fn a_field_of_the_order_is_updated() {
    let mut world = World::new(Store::builder(Memory::new()), 1);
    let grant = |rule, fields: &[&'static str]| {
        Grant::new("note", &[Right::Read]).rule(rule).fields(fields.iter().copied())
    };
    let grants = [
        grant("owner = @user.id", &["owner", "team"]),
        grant("owner = 1000", &["owner", "team", "text"]),
    ];
    world.auth.set_group("one", &grants).unwrap();
    world.auth.change_user(world.users[0], Some(&["one".to_owned()]), None, None).unwrap();
    world.insert("note", &[("owner", Some(1000))], &[("text", "first"), ("secret", "hidden")]);
    let watch = world.watches.swap_remove(0);
    let target = "/api/note?order=-text&limit=2";
    let header = format!("{}\r\n", watch.header);
    let mut events = Events::open(world.server.local_addr(), target, &header);
    assert!(events.reaches(|document| document["rows"][0]["text"] == "first"));
    let note = world.store.table("note").unwrap();
    let rows = world.store.list_records(&note).run().unwrap();
    let of_owner = |row: &&Record| row.value("owner").unwrap() == &1000_i64.into();
    let key = rows.iter().find(of_owner).unwrap().value("id").unwrap().clone();
    let mut change = Record::new(note);
    change.set("text", "second").unwrap();
    world.store.update_record(key, &change).run().unwrap();
    assert!(events.reaches(|document| document["rows"][0]["text"] == "second"));
    assert!(events.document["rows"][0].get("secret").is_none(), "{}", events.document);
}
