//! A database is moved to another engine, and back, while threads write to it: no acknowledged write
//! is lost, and both databases have the same rows.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use marmota_derive::Model;
use marmota_mariadb::Mariadb;
use marmota_memory::Memory;
use marmota_model::{Blob, ErrorKind, Ref, Result};
use marmota_postgres::Postgres;
use marmota_sqlite::Sqlite;
use marmota_store::migration::Migration;
use marmota_store::pair::{self, PairFollower, PairRole, PairUrls};
use marmota_store::{Idempotency, Store, StoreBuilder};

use crate::{mariadb_url, postgres_url};

#[derive(Clone, Debug, Model)]
struct Team {
    id: i64,
    #[model(unique)]
    name: String,
}

#[derive(Clone, Debug, Model)]
struct Member {
    id: i64,
    #[model(on_delete = "cascade")]
    team: Ref<Team>,
    points: i64,
    photo: Blob,
    #[model(version)]
    version: i64,
}

/// Refers to its own table.
#[derive(Clone, Debug, Model)]
struct Page {
    id: i64,
    parent: Option<Ref<Page>>,
}

/// Its history is an internal table.
#[derive(Clone, Debug, Model)]
#[model(audit)]
struct Note {
    id: i64,
    text: String,
}

/// Opens the databases of a pair.
struct Databases {
    builders: [Box<dyn Fn() -> StoreBuilder + Send + Sync>; 2],
    _folder: tempfile::TempDir,
}

impl Databases {
    fn new(first: &str, second: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let open = |engine: &str| -> Box<dyn Fn() -> StoreBuilder + Send + Sync> {
            let path = folder.path().join(engine);
            let url = format!("{engine}:{}", path.display());
            match engine {
                "sqlite" => {
                    let url = format!("{url}?durability=relaxed");
                    Box::new(move || models(Store::builder(Sqlite::from_url(&url).unwrap())))
                }
                "memory" => {
                    let url = format!("{url}?durability=relaxed");
                    Box::new(move || models(Store::builder(Memory::from_url(&url).unwrap())))
                }
                "mariadb" => {
                    let url = mariadb_url();
                    Box::new(move || models(Store::builder(Mariadb::from_url(&url).unwrap())))
                }
                _ => {
                    let url = postgres_url();
                    Box::new(move || models(Store::builder(Postgres::from_url(&url).unwrap())))
                }
            }
        };
        Self { builders: [open(first), open(second)], _folder: folder }
    }

    fn open(&self, place: usize, role: PairRole) -> Store {
        (self.builders[place])().pair_role(role).open().unwrap()
    }

    fn fill(&self, primary: &Store) -> Result<()> {
        pair::fill(primary, (self.builders[1])(), &urls(), &mut |_| ControlFlow::Continue(()))
    }
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    // It is executed once, not again in the other database.
    let first = Migration::new(1, "first team").up(|transaction| {
        transaction.insert(&Team { id: 0, name: "first".to_owned() }).run().map(drop)
    });
    let builder = builder.model::<Team>().model::<Member>().model::<Page>().model::<Note>();
    builder.idempotency(Idempotency::default()).migration(first)
}

fn insert_teams(store: &Store, count: usize) {
    let team = |number| Team { id: 0, name: format!("early {number}") };
    let teams: Vec<Team> = (0..count).map(team).collect();
    store.insert_many(&teams).run().unwrap();
}

fn urls() -> PairUrls {
    PairUrls { primary: "first".to_owned(), secondary: "second".to_owned() }
}

/// Writes to the store that is the primary at the time, until it is stopped.
struct Writers {
    store: Arc<RwLock<Store>>,
    is_stopped: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<Vec<String>>>,
}

impl Writers {
    fn start(store: &Store) -> Self {
        let store = Arc::new(RwLock::new(store.clone()));
        let (is_stopped, written) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let thread = |number| {
            let (store, is_stopped, written) =
                (Arc::clone(&store), Arc::clone(&is_stopped), Arc::clone(&written));
            std::thread::spawn(move || write(number, &store, &is_stopped, &written))
        };
        let threads = (0..3).map(thread).collect();
        Self { store, is_stopped, written, threads }
    }

    /// Waits until more was written.
    fn wait(&self, writes: u64) {
        let end = self.written.load(Ordering::Relaxed) + writes;
        while self.written.load(Ordering::Relaxed) < end {
            assert!(!self.threads.iter().any(|thread| thread.is_finished()), "a writer has failed");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the threads. Returns the names of all teams that were acknowledged and not deleted.
    fn stop(self) -> Vec<String> {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}

fn write(
    thread: usize,
    store: &RwLock<Store>,
    is_stopped: &AtomicBool,
    written: &AtomicU64,
) -> Vec<String> {
    let mut kept = Vec::new();
    let mut page = None;
    for turn in 0.. {
        if is_stopped.load(Ordering::Relaxed) {
            break;
        }
        let store = store.read().unwrap();
        let name = format!("team {thread} {turn}");
        let id = store.insert(&Team { id: 0, name: name.clone() }).run().unwrap();
        let member = Member {
            id: 0,
            team: Ref::new(id),
            points: 1,
            photo: Blob::from(vec![thread as u8; 1 + turn % 50]),
            version: 0,
        };
        let member = store.insert(&member).run().unwrap();
        store.increment(Member::POINTS, member, 2).run().unwrap();
        let photo = Blob::from(vec![turn as u8; 3]);
        store.patch::<Member>(member).set(Member::PHOTO, photo).run().unwrap();
        if turn % 3 == 0 {
            // The name of a deleted team is taken by another one at once.
            store.delete::<Team>(id).run().unwrap();
            store.insert(&Team { id: 0, name: name.clone() }).run().unwrap();
        }
        kept.push(name);
        let parent = page.filter(|_| turn % 7 != 0);
        page = Some(Ref::new(store.insert(&Page { id: 0, parent }).run().unwrap()));
        // The batch before is sent again: its answer may have moved meanwhile.
        for turn in [turn, turn.saturating_sub(1)] {
            let mut batch = store.batch();
            let text = format!("{thread} {turn}");
            batch.idempotency_key(text.clone()).insert(&Note { id: 0, text });
            batch.all_or_nothing().run().unwrap();
        }
        written.fetch_add(1, Ordering::Relaxed);
        drop(store);
        // The follower has to be faster, on a busy machine too.
        std::thread::sleep(Duration::from_millis(100));
    }
    kept
}

/// Moves to the other engine and back while three threads write.
fn moves_and_returns(first: &str, second: &str) {
    let databases = Databases::new(first, second);
    let mut primary = databases.open(0, PairRole::Primary);
    insert_teams(&primary, 3_000);
    let writers = Writers::start(&primary);
    writers.wait(5);
    databases.fill(&primary).unwrap();
    let mut secondary = databases.open(1, PairRole::Secondary);
    for turn in 0..2 {
        let mut follower = PairFollower::start(&primary, &secondary).unwrap();
        writers.wait(5);
        let compared = follower.compare().unwrap();
        assert_eq!(compared.differences, [], "{:?}", follower.progress());
        assert!(compared.rows > 3_000, "{compared:?}");
        {
            let mut current = writers.store.write().unwrap();
            follower.flip(Duration::from_secs(30)).unwrap();
            *current = secondary.clone();
        }
        drop(follower);
        // A store of the old primary is refused.
        primary.close().unwrap();
        let place = turn % 2;
        let refused = (databases.builders[place])().open().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
        let other = databases.open(place, PairRole::Secondary);
        (primary, secondary) = (secondary, other);
        writers.wait(5);
    }
    let mut follower = PairFollower::start(&primary, &secondary).unwrap();
    let kept = writers.stop();
    let compared = follower.compare().unwrap();
    assert_eq!(compared.differences, []);
    follower.stop();
    for store in [&primary, &secondary] {
        let teams = store.list::<Team>().run().unwrap();
        let names: std::collections::HashSet<_> = teams.into_iter().map(|team| team.name).collect();
        assert!(kept.iter().all(|name| names.contains(name)), "an acknowledged row is missing");
        assert_eq!(names.len(), 3_001 + kept.len());
        assert_eq!(store.count::<Note>().run().unwrap(), kept.len() as u64, "each batch once");
    }
    // The secondary is refused also after the end; the primary is a database like any other.
    pair::end(&primary).unwrap();
    secondary.close().unwrap();
    primary.close().unwrap();
    assert_eq!((databases.builders[1])().open().unwrap_err().kind(), ErrorKind::Invalid);
    (databases.builders[0])().open().unwrap().close().unwrap();
}

#[test]
fn sqlite_to_postgres_and_back() {
    moves_and_returns("sqlite", "postgres");
}

#[test]
fn postgres_to_sqlite_and_back() {
    moves_and_returns("postgres", "sqlite");
}

#[test]
fn sqlite_to_mariadb_and_back() {
    moves_and_returns("sqlite", "mariadb");
}

#[test]
fn memory_to_sqlite_and_back() {
    moves_and_returns("memory", "sqlite");
}

#[test]
fn an_interrupted_fill_continues() {
    let databases = Databases::new("sqlite", "memory");
    let primary = databases.open(0, PairRole::Primary);
    insert_teams(&primary, 9_000);
    let mut pieces = 0;
    let mut stop = |_: pair::FillProgress<'_>| {
        pieces += 1;
        if pieces > 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let stopped = pair::fill(&primary, (databases.builders[1])(), &urls(), &mut stop);
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Closed);
    let refused = (databases.builders[1])().open().unwrap_err();
    assert!(refused.message().contains("only a part"), "{refused}");
    // Changes of rows that were copied, and of others.
    for id in [2, 3, 8_999] {
        primary.delete::<Team>(id).run().unwrap();
    }
    primary.insert(&Team { id: 0, name: "early 0".to_owned() }).run().unwrap();
    let mut first = None;
    let mut rows = |progress: pair::FillProgress<'_>| {
        first.get_or_insert(progress.rows_total);
        ControlFlow::Continue(())
    };
    pair::fill(&primary, (databases.builders[1])(), &urls(), &mut rows).unwrap();
    let secondary = databases.open(1, PairRole::Secondary);
    let follower = PairFollower::start(&primary, &secondary).unwrap();
    let compared = follower.compare().unwrap();
    assert_eq!((compared.rows, compared.different), (8_999, 0), "{compared:?}");
    // A row that another program has changed is found.
    let other = Team { id: 7, name: "changed".to_owned() };
    secondary.update(&other).run().unwrap();
    let compared = follower.compare().unwrap();
    assert_eq!(compared.different, 1, "{compared:?}");
    assert!(compared.differences[0].key.contains('7'), "{compared:?}");
    drop(follower);
    secondary.close().unwrap();
    primary.close().unwrap();
}

#[test]
fn an_interrupted_flip_is_settled() {
    let databases = Databases::new("memory", "sqlite");
    let primary = databases.open(0, PairRole::Primary);
    databases.fill(&primary).unwrap();
    let secondary = databases.open(1, PairRole::Secondary);
    let mut follower = PairFollower::start(&primary, &secondary).unwrap();
    insert_teams(&primary, 10);
    follower.flip(Duration::from_secs(30)).unwrap();
    // As after a crash before the record of the new primary was written.
    let undo = "UPDATE marmota_pair SET role = 'secondary', term = 0";
    secondary.execute(undo).run().unwrap();
    primary.close().unwrap();
    secondary.close().unwrap();
    for builder in &databases.builders {
        let refused = builder().open().unwrap_err();
        assert!(refused.message().contains("--settle"), "{refused}");
    }
    for _ in 0..2 {
        let both = [(databases.builders[0])(), (databases.builders[1])()];
        assert_eq!(pair::settle(&both).unwrap(), 1);
    }
    let settled = (databases.builders[1])().open().unwrap();
    assert_eq!(settled.count::<Team>().run().unwrap(), 11);
    settled.close().unwrap();
    assert_eq!((databases.builders[0])().open().unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_database_with_rows_is_refused() {
    let databases = Databases::new("sqlite", "memory");
    let primary = databases.open(0, PairRole::Primary);
    let other = (databases.builders[1])().open().unwrap();
    other.insert(&Team { id: 0, name: "mine".to_owned() }).run().unwrap();
    other.close().unwrap();
    let refused = databases.fill(&primary).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.message().contains("`team`"), "{refused}");
    primary.close().unwrap();
}
