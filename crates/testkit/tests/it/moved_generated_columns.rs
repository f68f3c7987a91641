//! Generated columns of databases that are moved: the other database computes the values itself.

use std::ops::ControlFlow;

use marmota_derive::Model;
use marmota_mariadb::Mariadb;
use marmota_postgres::Postgres;
use marmota_sqlite::Sqlite;
use marmota_store::pair::{self, PairFollower, PairRole, PairUrls};
use marmota_store::{Store, StoreBuilder};

use crate::{mariadb_url, postgres_url};

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Parcel {
    id: i64,
    weight: i64,
    count: i64,
    #[model(index, generated = "weight * count")]
    total: i64,
    note: Option<String>,
    #[model(version)]
    version: i64,
}

fn parcel(weight: i64) -> Parcel {
    Parcel { weight, count: 3, ..Parcel::default() }
}

/// Returns the rows, after a check of their values.
fn rows(store: &Store) -> Vec<Parcel> {
    let rows = store.list::<Parcel>().run().unwrap();
    assert!(rows.iter().all(|row| row.total == row.weight * row.count), "{rows:?}");
    rows
}

#[test]
fn rows_are_transferred() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite:{}", folder.path().join("a.db").display());
    let (postgres, mariadb) = (postgres_url(), mariadb_url());
    let sqlite = || Store::builder(Sqlite::from_url(&file).unwrap()).model::<Parcel>();
    let postgres = || Store::builder(Postgres::from_url(&postgres).unwrap()).model::<Parcel>();
    let mariadb = || Store::builder(Mariadb::from_url(&mariadb).unwrap()).model::<Parcel>();
    let store = sqlite().open().unwrap();
    store.insert_many(&(0..100).map(parcel).collect::<Vec<_>>()).run().unwrap();
    let before = rows(&store);
    store.close().unwrap();
    let transfer = |from: StoreBuilder, to: StoreBuilder| {
        let moved = from.transfer_to(to, &mut |_| {}).unwrap();
        assert_eq!(moved[0].rows, 100);
    };
    transfer(sqlite(), postgres());
    transfer(postgres(), mariadb());
    assert_eq!(rows(&mariadb().open().unwrap()), before);
}

#[test]
fn a_live_move_follows_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite:{}", folder.path().join("a.db").display());
    let postgres = postgres_url();
    let first = || Store::builder(Sqlite::from_url(&file).unwrap()).model::<Parcel>();
    let second = || Store::builder(Postgres::from_url(&postgres).unwrap()).model::<Parcel>();
    let primary = first().pair_role(PairRole::Primary).open().unwrap();
    primary.insert_many(&(0..20).map(parcel).collect::<Vec<_>>()).run().unwrap();
    let urls = PairUrls { primary: "first".to_owned(), secondary: "second".to_owned() };
    pair::fill(&primary, second(), &urls, &mut |_| ControlFlow::Continue(())).unwrap();
    let secondary = second().pair_role(PairRole::Secondary).open().unwrap();
    let mut follower = PairFollower::start(&primary, &secondary).unwrap();
    let key = primary.insert(&parcel(50)).run().unwrap();
    primary.patch::<Parcel>(key).set(Parcel::WEIGHT, 7).run().unwrap();
    primary.increment(Parcel::COUNT, key, 4).run().unwrap();
    // A row whose version no update gives is replaced.
    primary.execute("UPDATE parcel SET weight = 9 WHERE id < 4").run().unwrap();
    let compared = follower.compare().unwrap();
    assert_eq!((compared.differences, compared.rows), (Vec::new(), 21));
    follower.stop();
    assert_eq!(rows(&secondary), rows(&primary));
}
