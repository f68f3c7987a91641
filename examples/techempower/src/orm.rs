//! The routes through the ORM: structs that are read and written with the store's verbs.

use marmota::prelude::*;
use marmota::store::action::all;

use crate::answer::{json, page};
use crate::data::{Data, Fortune, World};
use crate::number::{random_number, rows, world_id, world_ids};

pub(crate) fn routes(router: Router, data: &Data) -> Router {
    let (db, queries, cached, updates, fortunes) =
        (data.clone(), data.clone(), data.clone(), data.clone(), data.clone());
    router
        .get("/db", move |_| {
            let store = db.store.clone();
            async move { json(&store.get::<World>(world_id()).await?) }
        })
        .get("/queries", move |request: Request| {
            let store = queries.store.clone();
            async move { json(&read(&store, some(rows(&request, "queries"))).await?) }
        })
        .get("/cached-queries", move |request: Request| {
            let cache = cached.cache.clone();
            async move { json(&read(&cache, some(rows(&request, "count"))).await?) }
        })
        .get("/updates", move |request: Request| {
            let store = updates.store.clone();
            async move {
                let mut worlds = read(&store, world_ids(rows(&request, "queries"))).await?;
                for world in &mut worlds {
                    world.random_number = random_number();
                }
                store.update_many(&worlds).await?;
                json(&worlds)
            }
        })
        .get("/fortunes", move |_| {
            let store = fortunes.store.clone();
            async move {
                let fortunes = store.list::<Fortune>().await?;
                page(fortunes.iter().map(|fortune| (fortune.id, &*fortune.message)))
            }
        })
}

/// Random ids.
fn some(count: usize) -> impl Iterator<Item = i64> {
    (0..count).map(|_| world_id())
}

/// Reads rows by id with one query each, all in flight at once.
async fn read(store: &Store, ids: impl IntoIterator<Item = i64>) -> Result<Vec<World>> {
    all(ids.into_iter().map(|id| store.get::<World>(id))).await
}
