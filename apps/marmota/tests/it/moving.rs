//! `move` between engines of every kind. The program is this test started again, with models that
//! refer to themselves and to each other.

use std::process::{Command, ExitCode};

use marmota::prelude::*;
use marmota::store::StoreBuilder;
use marmota::store::engine::Engine;
use marmota::store::migration::Migration;
use marmota_postgres::TemporaryPostgres;

use crate::program::{Ended, Folder};

/// The program's arguments, one per line; it runs only if this is set.
const WORDS: &str = "MARMOTA_TEST_MOVE";

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
struct Person {
    id: i64,
    #[model(search)]
    name: String,
    parent: Option<Ref<Person>>,
    photo: Blob,
    height: Option<f64>,
    #[model(version)]
    version: i64,
    #[model(created_at)]
    created: Timestamp,
}

#[derive(Clone, Debug, Model, PartialEq)]
struct Payment {
    id: Uuid,
    by: Ref<Person>,
    amount: Currency,
    day: Date,
}

fn nobody() -> Person {
    Person { name: "Nobody".into(), photo: Blob::from(Vec::new()), ..Person::default() }
}

fn models(url: &str) -> Result<StoreBuilder> {
    let first = Migration::new(1, "first person")
        .up(|transaction| transaction.insert(&nobody()).run().map(drop));
    Ok(marmota::open(url)?.model::<Payment>().model::<Person>().migration(first))
}

#[test]
#[ignore = "a process that another test starts"]
fn is_the_program() {
    let words = std::env::var(WORDS).expect("started by another test");
    let code = marmota::command::Command::new(models)
        .run_with(std::iter::once("people").chain(words.lines()));
    let number = (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap();
    std::process::exit(number.into());
}

fn people(folder: &Folder, words: &[&str]) -> Ended {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "moving::is_the_program", "--nocapture"]);
    command.current_dir(folder.0.path()).env_remove("MARMOTA_KEY").env_remove("MARMOTA_DB");
    let output = command.env(WORDS, words.join("\n")).output().unwrap();
    Ended {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn fill(url: &str) -> (Vec<Person>, Vec<Payment>) {
    let store = models(url).unwrap().open().unwrap();
    let people: Vec<Person> = (0..5_000_u32)
        .map(|number| Person {
            name: format!("Ümit {number}"),
            photo: Blob::from(vec![number as u8; number as usize % 50]),
            height: (number % 3 != 0).then(|| f64::from(number) / 7.0),
            ..Person::default()
        })
        .collect();
    let keys = store.insert_many(&people).run().unwrap();
    // References to earlier rows, to later ones, and to the row itself.
    for (at, to) in [(10, 20), (20, 4_000), (4_000, 4_000), (4_500, 10)] {
        let parent = Some(Ref::new(keys[to]));
        store.patch::<Person>(keys[at]).set(Person::PARENT, parent).run().unwrap();
    }
    let payments: Vec<Payment> = (0..3_000)
        .map(|number| Payment {
            id: Uuid::default(),
            by: Ref::new(keys[number as usize]),
            amount: Currency::from_scaled(number * 12_345),
            day: Date::default(),
        })
        .collect();
    store.insert_many(&payments).run().unwrap();
    let rows = (store.list().run().unwrap(), store.list().run().unwrap());
    store.close().unwrap();
    rows
}

fn rows(url: &str) -> (Vec<Person>, Vec<Payment>) {
    let store = models(url).unwrap().open().unwrap();
    let found = store.list::<Person>().filter(Filter::search("umit 4999")).run().unwrap();
    assert_eq!(found.len(), 1);
    let rows = (store.list().run().unwrap(), store.list().run().unwrap());
    store.close().unwrap();
    rows
}

#[test]
fn rows_move_between_engines_also_after_an_interruption() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let folder = Folder::new();
    let file = |name: &str| format!("sqlite:{}", folder.0.path().join(name).display());
    let (first, last) = (file("first.db"), file("last.db"));
    let memory = format!("memory:{}?durability=relaxed", folder.0.path().join("a.mem").display());
    let (middle, other) = (server.make_database().unwrap(), server.make_database().unwrap());
    let wanted = fill(&first);
    let odbc = crate::odbc_servers::mariadb_url();
    for (from, to) in
        [(&first, &middle), (&middle, &memory), (&memory, &other), (&other, &odbc), (&odbc, &last)]
    {
        let said = people(&folder, &["move", "--from", from, "--to", to]).with(0);
        assert!(said.contains("person: 5001 rows, the same in both, checksum "), "{said}");
        assert!(said.contains("marmota_migration: 1 row,"), "{said}");
        assert!(said.contains("marmota_history: 5"), "{said}");
        assert!(rows(to) == wanted, "{from} to {to}");
    }
    // After an interruption, existing rows are not copied again.
    let store = models(&middle).unwrap().open().unwrap();
    assert!(
        store
            .delete_where::<Payment>(Payment::AMOUNT.gt(Currency::from_scaled(12_345 * 2_000)))
            .run()
            .unwrap()
            > 900
    );
    store.close().unwrap();
    let said = people(&folder, &["move", "--from", &first, "--to", &middle]).with(0);
    assert!(said.contains("payment: 3000 rows (before: 2001)"), "{said}");
    // New keys are greater than those that were moved.
    let store = models(&middle).unwrap().open().unwrap();
    let key = store.insert(&nobody()).run().unwrap();
    assert!(wanted.0.iter().all(|person| person.id < key));
    store.close().unwrap();
    let said = people(&folder, &["move", "--from", &first, "--to", &middle]).with(1);
    assert!(said.contains("`person` has 5001 rows here and 5002 in the other database"), "{said}");
    let said = people(&folder, &["move", "--from", "sqlite:none.db", "--to", &middle]).with(1);
    assert!(said.contains("no database to move"), "{said}");
}

#[test]
fn users_are_moved_and_a_table_without_model_is_reported() {
    let folder = Folder::new();
    let file = |name: &str| format!("sqlite:{}", folder.0.path().join(name).display());
    let (from, to) = (file("from.db"), file("to.db"));
    let with_users = |url: &str| marmota::auth::models(models(url).unwrap()).open().unwrap();
    let users = |store: &marmota::store::Store| {
        let mut users = Vec::new();
        let sql = "SELECT id, name, token, groups FROM marmota_user ORDER BY id";
        store.sql(sql).json(&mut users).run().unwrap();
        String::from_utf8(users).unwrap()
    };
    let store = with_users(&from);
    let auth = marmota::auth::Auth::new(&store, marmota::auth::Settings::default()).unwrap();
    auth.add_user("ann", &[], false).unwrap();
    let wanted = users(&store);
    assert!(wanted.contains("\"ann\""), "{wanted}");
    drop(auth);
    store.close().unwrap();
    let extra = marmota::sqlite::Sqlite::from_url(&from).unwrap();
    extra.execute("CREATE TABLE extra (id INTEGER PRIMARY KEY)").unwrap();
    drop(extra);
    let said = people(&folder, &["move", "--from", &from, "--to", &to]).with(1);
    assert!(
        said.contains("tables without a model: extra;") && said.contains("--leave extra"),
        "{said}"
    );
    let there = marmota::sqlite::Sqlite::from_url(&to).unwrap();
    assert_eq!(there.existing_tables().unwrap(), Some(Vec::new()), "the target is unchanged");
    drop(there);
    let said = people(&folder, &["move", "--from", &from, "--to", &to, "--leave", "extra"]).with(0);
    assert!(said.contains("marmota_user: ") && said.contains("marmota_key: 0 rows"), "{said}");
    assert!(said.contains("marmota_session: 0 rows"), "{said}");
    let store = with_users(&to);
    assert_eq!(users(&store), wanted);
    store.close().unwrap();
}
