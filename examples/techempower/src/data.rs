//! The benchmark's tables, made and filled where they are missing.

use std::sync::Arc;

use marmota::prelude::*;

/// Rows of `world` and `cachedworld`, by the benchmark's rules.
pub(crate) const WORLDS: i64 = 10_000;

/// A row of `world`.
#[derive(Clone, Debug, Model, serde::Serialize)]
pub(crate) struct World {
    pub(crate) id: i64,
    #[model(rename = "randomNumber")]
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

/// A row of `cachedworld`, which is read from memory.
#[derive(Clone, Debug, Model, serde::Serialize)]
#[model(table = "cachedworld")]
pub(crate) struct CachedWorld {
    id: i64,
    #[model(rename = "randomNumber")]
    #[serde(rename = "randomNumber")]
    random_number: i32,
}

/// What the handlers share.
#[derive(Clone)]
pub(crate) struct Data {
    /// The database.
    pub(crate) store: Store,
    /// `cachedworld` as rows of the memory engine, for the ORM.
    pub(crate) cache: Store,
    /// `cachedworld` as an array, for the direct layer.
    pub(crate) cached: Arc<[CachedWorld]>,
}

impl Data {
    /// Opens the database, filling it if it is empty.
    pub(crate) fn open(db: &str) -> Result<Self> {
        // An update survives a crash of the server; a power cut may take the
        // last moments, as with the public benchmark's own databases.
        let url = if db == "sqlite" { "sqlite:data/techempower.db?durability=relaxed" } else { db };
        let store = marmota::open(url)?
            .model::<World>()
            .model::<Fortune>()
            .model::<CachedWorld>()
            .open()?;
        if store.count::<World>().run()? == 0 {
            fill(&store)?;
        }
        let cached: Arc<[CachedWorld]> = store.list::<CachedWorld>().run()?.into();
        let cache = marmota::open("memory:")?.model::<CachedWorld>().open()?;
        cache.insert_many(&cached).run()?;
        Ok(Self { store, cache, cached })
    }
}

fn fill(store: &Store) -> Result<()> {
    let number = || fastrand::i32(1..=WORLDS as i32);
    let worlds: Vec<World> = (1..=WORLDS).map(|id| World { id, random_number: number() }).collect();
    let cached: Vec<CachedWorld> =
        (1..=WORLDS).map(|id| CachedWorld { id, random_number: number() }).collect();
    let fortunes: Vec<Fortune> = (1..)
        .zip(FORTUNES)
        .map(|(id, message)| Fortune { id, message: message.to_owned() })
        .collect();
    store.transaction(|transaction| {
        transaction.insert_many(&worlds).run()?;
        transaction.insert_many(&cached).run()?;
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
