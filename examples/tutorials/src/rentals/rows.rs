//! The rows of the rentals: the same at each call, with the numbers of rows of Pagila.

use std::collections::BTreeSet;

use marmota::prelude::*;

use super::{
    Actor, Address, Category, City, Country, Customer, Film, FilmActor, FilmCategory, Inventory,
    Language, Payment, Rental, Shop, Staff,
};
use crate::generated::{Random, date, insert};

const ACTORS: usize = 200;
const FILMS: usize = 1_000;
const CITIES: usize = 600;
const ADDRESSES: usize = 603;
const CUSTOMERS: usize = 599;
const COPIES: usize = 4_581;
const RENTALS: usize = 16_044;

const LANGUAGES: [&str; 6] = ["English", "Italian", "Japanese", "Mandarin", "French", "German"];
const CATEGORIES: [&str; 16] = [
    "Action",
    "Animation",
    "Children",
    "Classics",
    "Comedy",
    "Documentary",
    "Drama",
    "Family",
    "Foreign",
    "Games",
    "Horror",
    "Music",
    "New",
    "Sci-Fi",
    "Sports",
    "Travel",
];
const RATINGS: [&str; 5] = ["G", "PG", "PG-13", "R", "NC-17"];
const FIRST_NAMES: [&str; 16] = [
    "PENELOPE", "NICK", "ED", "JENNIFER", "JOE", "BETTE", "GRACE", "MATTHEW", "ZERO", "KARL",
    "UMA", "VIVIEN", "CUBA", "FRED", "HELEN", "DAN",
];
const LAST_NAMES: [&str; 24] = [
    "GUINESS",
    "WAHLBERG",
    "CHASE",
    "DAVIS",
    "LOLLOBRIGIDA",
    "NICHOLSON",
    "MOSTEL",
    "JOHANSSON",
    "SWANK",
    "GABLE",
    "CAGE",
    "BERRY",
    "WOOD",
    "BERGEN",
    "OLIVIER",
    "COSTNER",
    "VOIGHT",
    "TORN",
    "FAWCETT",
    "TRACY",
    "PALTROW",
    "MARX",
    "KILMER",
    "NAGENDRA",
];
const ADJECTIVES: [&str; 20] = [
    "ACADEMY",
    "ALONE",
    "BLANKET",
    "CHICAGO",
    "DRACULA",
    "ELEPHANT",
    "FERRIS",
    "GHOST",
    "HUNCHBACK",
    "ICE",
    "JAWBREAKER",
    "KILL",
    "LADY",
    "MAGIC",
    "NORTH",
    "QUEEN",
    "RIVER",
    "STORM",
    "TRAIN",
    "WOLVES",
];
const NOUNS: [&str; 20] = [
    "ACE",
    "BALLOON",
    "CROSSING",
    "DINOSAUR",
    "EGG",
    "FICTION",
    "GOLDFINGER",
    "HEAVEN",
    "IMPOSSIBLE",
    "JUGGLER",
    "KARATE",
    "LUCK",
    "MADNESS",
    "NECKLACE",
    "PANKY",
    "QUEST",
    "ROOTS",
    "SUNSET",
    "TRIP",
    "UPTOWN",
];
const COUNTRIES: [&str; 12] = [
    "Afghanistan",
    "Algeria",
    "Bangladesh",
    "Brazil",
    "Canada",
    "China",
    "France",
    "India",
    "Japan",
    "Mexico",
    "Nigeria",
    "United States",
];

/// Inserts all rows into an empty store.
///
/// # Errors
/// Errors of the store.
pub fn fill(store: &Store) -> Result<()> {
    let random = &mut Random(23);
    films(store, random)?;
    people(store, random)?;
    rentals(store, random)
}

fn films(store: &Store, random: &mut Random) -> Result<()> {
    insert(store, LANGUAGES.map(|name| Language { id: 0, name: name.to_owned() }))?;
    insert(store, CATEGORIES.map(|name| Category { id: 0, name: name.to_owned() }))?;
    let actor = |_| Actor {
        id: 0,
        first_name: random.of(&FIRST_NAMES).to_owned(),
        last_name: random.of(&LAST_NAMES).to_owned(),
    };
    insert(store, (0..ACTORS).map(actor))?;
    let film = |n: usize| Film {
        id: 0,
        // The first 400 titles are different, as in Pagila; then a number follows.
        title: match n / 400 {
            0 => format!("{} {}", ADJECTIVES[n % 20], NOUNS[n / 20]),
            more => format!("{} {} {}", ADJECTIVES[n % 20], NOUNS[n / 20 % 20], more + 1),
        },
        release_year: 2_006 + random.below(5) as i64,
        language: if random.below(4) == 0 { random.key(LANGUAGES.len()) } else { Ref::new(1) },
        rental_duration: 3 + random.below(5) as i64,
        rental_rate: Currency::from_scaled([9_900, 29_900, 49_900][random.below(3)]),
        length: (random.below(40) > 0).then(|| 46 + random.below(140) as i64),
        replacement_cost: Currency::from_scaled(99_900 + 10_000 * random.below(21) as i64),
        rating: random.of(&RATINGS).to_owned(),
    };
    insert(store, (0..FILMS).map(film))?;
    let mut cast = BTreeSet::new();
    while cast.len() < 5_462 {
        // The last three films have no actors.
        cast.insert((random.below(FILMS - 3) as i64 + 1, random.below(ACTORS) as i64 + 1));
    }
    insert(
        store,
        cast.into_iter().map(|(film, actor)| FilmActor {
            id: 0,
            film: Ref::new(film),
            actor: Ref::new(actor),
        }),
    )?;
    let category = |n| FilmCategory { id: 0, film: Ref::new(n), category: random.key(16) };
    insert(store, (1..=FILMS as i64).map(category))
}

fn people(store: &Store, random: &mut Random) -> Result<()> {
    let country = |n: usize| match COUNTRIES.get(n) {
        Some(name) => Country { id: 0, name: (*name).to_owned() },
        None => Country { id: 0, name: format!("Country {n}") },
    };
    insert(store, (0..109).map(country))?;
    // Half of the cities are in the countries with names.
    let city = |n| {
        let country = if random.below(2) == 0 { random.key(12) } else { random.key(109) };
        City { id: 0, name: format!("City {n}"), country }
    };
    insert(store, (1..=CITIES).map(city))?;
    let address =
        |n| Address { id: 0, street: format!("{n} Main Street"), city: random.key(CITIES) };
    insert(store, (1..=ADDRESSES).map(address))?;
    insert(store, [1, 2].map(|n| Shop { id: 0, address: Ref::new(n) }))?;
    let staff = |n: usize| Staff {
        id: 0,
        first_name: ["Mike", "Jon"][n].to_owned(),
        last_name: ["Hillyer", "Stephens"][n].to_owned(),
        address: Ref::new(n as i64 + 3),
        shop: Ref::new(n as i64 + 1),
    };
    insert(store, (0..2).map(staff))?;
    let customer = |n: usize| Customer {
        id: 0,
        shop: random.key(2),
        first_name: random.of(&FIRST_NAMES).to_owned(),
        last_name: format!("{}{n}", random.of(&LAST_NAMES)),
        email: format!("customer{n}@example.org"),
        address: Ref::new(n as i64 + 4),
        active: random.below(40) > 0,
    };
    insert(store, (1..=CUSTOMERS).map(customer))
}

fn rentals(store: &Store, random: &mut Random) -> Result<()> {
    // The last films have no copies.
    let copy = |_| Inventory { id: 0, film: random.key(FILMS - 42), shop: random.key(2) };
    insert(store, (0..COPIES).map(copy))?;
    let mut payments: Vec<Payment> = Vec::with_capacity(RENTALS);
    let mut rentals: Vec<Rental> = Vec::with_capacity(RENTALS);
    for n in 0..RENTALS {
        let (customer, staff) = (random.below(CUSTOMERS) as i64 + 1, random.below(2) as i64 + 1);
        let (year, day) = (2_005 + n as i64 % 2, random.below(336));
        rentals.push(Rental {
            id: 0,
            rental_date: date(year, day),
            return_date: (random.below(88) > 0).then(|| date(year + 1, day)),
            inventory: random.key(COPIES - 1),
            customer: Ref::new(customer),
            staff: Ref::new(staff),
        });
        payments.push(Payment {
            id: 0,
            customer: Ref::new(customer),
            staff: Ref::new(staff),
            rental: Ref::new(n as i64 + 1),
            amount: Currency::from_scaled([9_900, 29_900, 49_900, 69_900][random.below(4)]),
            payment_date: date(year, day),
        });
    }
    insert(store, rentals)?;
    insert(store, payments)
}
