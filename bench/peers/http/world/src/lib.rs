//! The common code of the peers' TechEmpower servers on PostgreSQL: rows, statements, the page of
//! fortunes, and (optionally) a connection of tokio-postgres.

mod database;

pub use database::Database;

use askama::Template;
use serde::Serialize;

/// Reads a row by key.
pub const WORLD: &str = "SELECT id::int4, randomnumber FROM world WHERE id = $1";
/// Reads all fortunes.
pub const FORTUNES: &str = "SELECT id::int4, message FROM fortune";
/// Updates rows; the parameters are their keys in ascending order and the new numbers.
pub const UPDATE: &str = "UPDATE world w SET randomnumber = n.number \
     FROM (SELECT unnest($1::int4[]) AS id, unnest($2::int4[]) AS number) n \
     WHERE w.id = n.id";

/// The number of rows in `world`.
const WORLDS: i32 = 10_000;

/// A row of `world`.
#[derive(Serialize)]
pub struct World {
    /// Its key.
    pub id: i32,
    /// Its number.
    #[serde(rename = "randomNumber")]
    pub random_number: i32,
}

/// A row of `fortune`.
pub struct Fortune {
    /// Its key.
    pub id: i32,
    /// Its text.
    pub message: String,
}

/// Returns a random key or number, 1 to 10,000.
pub fn random() -> i32 {
    fastrand::i32(1..=WORLDS)
}

/// Returns the number of rows that a query string requests: `queries=N`, 1 to 500.
pub fn count(query: Option<&str>) -> usize {
    let named = |pair: &str| pair.strip_prefix("queries=").and_then(|text| text.parse().ok());
    query.and_then(|query| query.split('&').find_map(named)).unwrap_or(1).clamp(1, 500)
}

/// Sets new numbers, and returns the keys in ascending order and the numbers.
pub fn updates(worlds: &mut [World]) -> (Vec<i32>, Vec<i32>) {
    let numbers: std::collections::BTreeMap<i32, i32> =
        worlds.iter().map(|world| (world.id, random())).collect();
    for world in worlds {
        world.random_number = numbers[&world.id];
    }
    numbers.into_iter().unzip()
}

#[derive(Template)]
#[template(path = "fortunes.html")]
struct Page<'a> {
    fortunes: &'a [Fortune],
}

/// Renders the page of these fortunes and the one that is added to each request.
pub fn page(mut fortunes: Vec<Fortune>) -> Result<String, askama::Error> {
    let message = "Additional fortune added at request time.".to_owned();
    fortunes.push(Fortune { id: 0, message });
    fortunes.sort_unstable_by(|a, b| a.message.cmp(&b.message));
    Page { fortunes: &fortunes }.render()
}
