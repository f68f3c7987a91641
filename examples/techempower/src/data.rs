//! The benchmark's tables, created and filled if they are missing.

use std::sync::Arc;

use marmota::model::Filter;
use marmota::prelude::*;

/// The number of rows in `world`, as the benchmark requires.
pub(crate) const WORLDS: i64 = 10_000;

/// A row of `world`. The columns have the names in the benchmark's scripts, which PostgreSQL folds
/// to lower case.
#[derive(Clone, Debug, Model, serde::Serialize)]
pub(crate) struct World {
    pub(crate) id: i64,
    #[model(rename = "randomnumber")]
    #[serde(rename = "randomNumber")]
    pub(crate) random_number: i32,
}

/// A row of `fortune`.
#[derive(Clone, Debug, Model)]
pub(crate) struct Fortune {
    pub(crate) id: i64,
    #[model(max = 2048)]
    pub(crate) message: String,
}

/// The state that handlers share.
#[derive(Clone)]
pub(crate) struct Data {
    /// The database.
    pub(crate) store: Store,
    /// `world` as rows of the memory engine, for the ORM.
    pub(crate) cache: Store,
    /// `world` as an array, for the routes that do not use the ORM.
    pub(crate) cached: Arc<[World]>,
}

impl Data {
    /// Opens the database, filling it if it is empty.
    pub(crate) fn open(db: &str) -> Result<Self> {
        let store = open(db)?;
        if store.count::<World>().run()? == 0 {
            fill(&store)?;
        }
        let cached: Arc<[World]> = store.list::<World>().run()?.into();
        let cache = marmota::open("memory:")?.model::<World>().open()?;
        cache.insert_many(&cached).run()?;
        Ok(Self { store, cache, cached })
    }
}

/// Creates missing tables and fills all of them again.
pub(crate) fn init(db: &str) -> Result<()> {
    let store = open(db)?;
    fill(&store)?;
    store.close()
}

fn open(db: &str) -> Result<Store> {
    // The public benchmark requires a Sync after each query.
    let each;
    let db = match db {
        url if url.starts_with("postgres") && !url.contains("group_reads=") => {
            let mark = if url.contains('?') { '&' } else { '?' };
            each = format!("{url}{mark}group_reads=false");
            &each
        }
        url => url,
    };
    // An update survives a crash of the server. A power cut may lose the last moments, as with the
    // databases of the public benchmark, unless the URL has another durability.
    let relaxed;
    let url = match db {
        "sqlite" => "sqlite:data/techempower.db?durability=relaxed&create_folders=true",
        url if url.starts_with("postgres") && !url.contains("durability=") => {
            let mark = if url.contains('?') { '&' } else { '?' };
            relaxed = format!("{url}{mark}durability=relaxed");
            &relaxed
        }
        url => url,
    };
    marmota::open(url)?.model::<World>().model::<Fortune>().open()
}

fn fill(store: &Store) -> Result<()> {
    let number = || fastrand::i32(1..=WORLDS as i32);
    let worlds: Vec<World> = (1..=WORLDS).map(|id| World { id, random_number: number() }).collect();
    let fortunes: Vec<Fortune> = (1..)
        .zip(FORTUNES)
        .map(|(id, message)| Fortune { id, message: message.to_owned() })
        .collect();
    store.transaction(|transaction| {
        transaction.delete_where::<World>(Filter::all([])).run()?;
        transaction.delete_where::<Fortune>(Filter::all([])).run()?;
        transaction.insert_many(&worlds).run()?;
        transaction.insert_many(&fortunes).run()?;
        Ok(())
    })
}

/// The twelve messages that the benchmark's verification expects.
const FORTUNES: [&str; 12] = [
    "fortune: No such file or directory",
    "A computer scientist is someone who fixes things that aren't broken.",
    "After enough decimal places, nobody gives a damn.",
    "A bad random number generator: 1, 1, 1, 1, 1, 4.33e+67, 1, 1, 1",
    "A computer program does what you tell it to do, not what you want it to do.",
    "Emacs is a nice operating system, but I prefer UNIX. — Tom Christaensen",
    "Any program that runs right is obsolete.",
    "A list is only as strong as its weakest link. — Donald Knuth",
    "Feature: A bug with seniority.",
    "Computers make very fast, very accurate mistakes.",
    "<script>alert(\"This should not be displayed in a browser alert box.\");</script>",
    "フレームワークのベンチマーク",
];
