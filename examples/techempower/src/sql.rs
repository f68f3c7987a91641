//! The routes in raw SQL: statements with bound values, all of a request submitted at once.

use std::sync::OnceLock;

use marmota::prelude::*;
use marmota::store::action::all;

use crate::answer::{json, page};
use crate::data::{Data, World};
use crate::number::{ROWS_MAX, random_number, rows, world_id, world_ids};

const WORLD: &str = "SELECT randomnumber, id FROM world WHERE id = ?";
const FORTUNES: &str = "SELECT id, message FROM fortune";

pub(crate) fn routes(router: Router, data: &Data) -> Router {
    let (db, queries, cached, updates, fortunes) =
        (data.clone(), data.clone(), data.clone(), data.clone(), data.clone());
    router
        .get("/asyncdb", move |_| {
            let store = db.store.clone();
            async move { json(&world(&store, world_id()).await?) }
        })
        .get("/asyncqueries", move |request: Request| {
            let store = queries.store.clone();
            async move {
                json(&worlds(&store, (0..rows(&request, "queries")).map(|_| world_id())).await?)
            }
        })
        .get("/asynccached", move |request: Request| {
            let cached = std::sync::Arc::clone(&cached.cached);
            async move {
                let chosen = (0..rows(&request, "count")).map(|_| &cached[world_id() as usize - 1]);
                json(&chosen.collect::<Vec<_>>())
            }
        })
        .get("/asyncupdates", move |request: Request| {
            let store = updates.store.clone();
            async move {
                let mut worlds = worlds(&store, world_ids(rows(&request, "queries"))).await?;
                worlds.iter_mut().for_each(|world| world.random_number = random_number());
                update(&store, &worlds).await?;
                json(&worlds)
            }
        })
        .get("/asyncfortunes", move |_| {
            let store = fortunes.store.clone();
            async move {
                let query = store.sql(FORTUNES);
                let read = query.map(|row| Ok((row.read("id")?, row.read::<String>("message")?)));
                let fortunes: Vec<(i64, String)> = read.await?;
                page(fortunes.iter().map(|(id, message)| (*id, &**message)))
            }
        })
}

async fn world(store: &Store, id: i64) -> Result<World> {
    found(id, store.sql(WORLD).bind(id).value().await?)
}

async fn worlds(store: &Store, ids: impl IntoIterator<Item = i64>) -> Result<Vec<World>> {
    let ids: Vec<i64> = ids.into_iter().collect();
    let numbers = all(ids.iter().map(|&id| store.sql(WORLD).bind(id).value())).await?;
    ids.into_iter().zip(numbers).map(|(id, number)| found(id, number)).collect()
}

fn found(id: i64, number: Option<i32>) -> Result<World> {
    let none = || Error::new(ErrorKind::NotFound, format!("no world has the id {id}"));
    Ok(World { id, random_number: number.ok_or_else(none)? })
}

/// Updates all rows with one statement.
async fn update(store: &Store, worlds: &[World]) -> Result<()> {
    let is_mariadb = store.capability().name == "mariadb";
    let text = if is_mariadb { update_by_case(worlds.len()) } else { update_text(worlds.len()) };
    let mut statement = worlds.iter().fold(store.execute(text), |all, world| {
        all.bind(world.id).bind(i64::from(world.random_number))
    });
    if is_mariadb {
        statement = worlds.iter().fold(statement, |all, world| all.bind(world.id));
    }
    statement.await.map(|_| ())
}

/// Returns the statement for MariaDB, whose UPDATE reads no list of rows.
fn update_by_case(rows: usize) -> &'static str {
    static TEXTS: [OnceLock<String>; ROWS_MAX + 1] = [const { OnceLock::new() }; ROWS_MAX + 1];
    TEXTS[rows].get_or_init(|| {
        let cases = " WHEN ? THEN ?".repeat(rows);
        let ids = vec!["?"; rows].join(",");
        format!("UPDATE world SET randomnumber = CASE id{cases} END WHERE id IN ({ids})")
    })
}

/// Returns the statement for this number of rows, which is made once.
fn update_text(rows: usize) -> &'static str {
    static TEXTS: [OnceLock<String>; ROWS_MAX + 1] = [const { OnceLock::new() }; ROWS_MAX + 1];
    TEXTS[rows].get_or_init(|| {
        let places = vec!["(CAST(? AS integer),CAST(? AS integer))"; rows].join(",");
        format!(
            "WITH changed(id, number) AS (VALUES {places}) \
             UPDATE world SET randomnumber = changed.number FROM changed WHERE world.id = changed.id"
        )
    })
}
