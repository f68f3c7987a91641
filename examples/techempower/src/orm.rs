//! The routes through the ORM: structs in and out of the store.

use marmota::model::Model;
use marmota::prelude::*;

use crate::data::{CachedWorld, Data, Fortune, World};
use crate::fortune::{Line, write_page};
use crate::number::{random_number, rows, world_id};

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
            async move { json(&read::<World>(&store, rows(&request, "queries")).await?) }
        })
        .get("/cached-queries", move |request: Request| {
            let cache = cached.cache.clone();
            async move { json(&read::<CachedWorld>(&cache, rows(&request, "count")).await?) }
        })
        .get("/updates", move |request: Request| {
            let store = updates.store.clone();
            async move {
                let mut worlds = read::<World>(&store, rows(&request, "queries")).await?;
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
                page(&fortunes)
            }
        })
}

/// Rows by random keys, one by one.
async fn read<M: Model<Key = i64>>(store: &Store, count: usize) -> Result<Vec<M>> {
    let mut models = Vec::with_capacity(count);
    for _ in 0..count {
        models.push(store.get::<M>(world_id()).await?);
    }
    Ok(models)
}

fn json(value: &impl serde::Serialize) -> Result<Response, ApiError> {
    let body = serde_json::to_vec(value).map_err(std::io::Error::from).map_err(Error::from)?;
    Ok(Response::json_bytes(body))
}

fn page(fortunes: &[Fortune]) -> Result<Response, ApiError> {
    let lines =
        fortunes.iter().map(|fortune| Line { id: fortune.id, message: &fortune.message }).collect();
    let mut body = Vec::with_capacity(2048);
    write_page(lines, &mut body).map_err(Error::from)?;
    Ok(Response::with_body("text/html; charset=utf-8", body))
}
