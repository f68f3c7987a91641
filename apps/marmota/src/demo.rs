//! The demo models of the program, and their first rows.

use marmota::prelude::*;
use marmota::store::StoreBuilder;

/// A person who made a discovery.
#[derive(Model)]
struct Person {
    id: i64,
    #[model(max = 40, not_empty)]
    first_name: String,
    #[model(max = 40, not_empty, index)]
    last_name: String,
    #[model(range(min = -3000, max = 2100))]
    year_of_birth: i32,
    year_of_death: Option<i32>,
    #[model(version)]
    version: i64,
}

/// A discovery of a person.
#[derive(Model)]
struct Discovery {
    id: i64,
    #[model(max = 80, not_empty, unique)]
    title: String,
    year: i32,
    by: Ref<Person>,
    #[model(created_at)]
    created: Timestamp,
    #[model(version)]
    version: i64,
}

type Life = (&'static str, &'static str, i32, Option<i32>, &'static [(&'static str, i32)]);

const LIVES: [Life; 6] = [
    ("Marie", "Curie", 1867, Some(1934), &[("Polonium", 1898), ("Radium", 1898)]),
    ("Ada", "Lovelace", 1815, Some(1852), &[("The first program", 1843)]),
    ("Irène", "Joliot-Curie", 1897, Some(1956), &[("Artificial radioactivity", 1934)]),
    ("Lise", "Meitner", 1878, Some(1968), &[("Nuclear fission", 1939)]),
    ("Chien-Shiung", "Wu", 1912, Some(1997), &[("Parity violation", 1957)]),
    ("Jocelyn", "Bell Burnell", 1943, None, &[("Pulsars", 1967)]),
];

/// Returns the builder of the store at `url`, with these models.
pub(crate) fn models(url: &str) -> Result<StoreBuilder> {
    Ok(marmota::open(url)?.model::<Person>().model::<Discovery>())
}

/// Inserts the first rows into an empty store.
pub(crate) fn seed(store: &Store) -> Result<()> {
    if store.count::<Person>().run()? > 0 {
        return Ok(());
    }
    store.transaction(|transaction| LIVES.iter().try_for_each(|life| insert(transaction, life)))
}

fn insert(transaction: &Transaction, life: &Life) -> Result<()> {
    let (first_name, last_name, year_of_birth, year_of_death, discoveries) = *life;
    let id = transaction
        .insert(&Person {
            id: 0,
            first_name: first_name.to_owned(),
            last_name: last_name.to_owned(),
            year_of_birth,
            year_of_death,
            version: 0,
        })
        .run()?;
    for (title, year) in discoveries {
        transaction
            .insert(&Discovery {
                id: 0,
                title: (*title).to_owned(),
                year: *year,
                by: Ref::new(id),
                created: Timestamp::default(),
                version: 0,
            })
            .run()?;
    }
    Ok(())
}
