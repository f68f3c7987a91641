//! A shop that rents films, with the tables and numbers of rows of the Pagila sample database.

mod rows;

use marmota::prelude::*;
pub use rows::fill;

#[derive(Clone, Debug, Model)]
pub struct Language {
    pub id: i64,
    pub name: String,
}

#[derive(Clone, Debug, Model)]
pub struct Category {
    pub id: i64,
    pub name: String,
}

#[derive(Clone, Debug, Model)]
#[model(relation(films = "film_actor.film"))]
pub struct Actor {
    pub id: i64,
    pub first_name: String,
    #[model(index)]
    pub last_name: String,
}

#[derive(Clone, Debug, Model)]
#[model(relation(actors = "film_actor.actor", categories = "film_category.category"))]
pub struct Film {
    pub id: i64,
    #[model(index)]
    pub title: String,
    pub release_year: i64,
    pub language: Ref<Language>,
    pub rental_duration: i64,
    pub rental_rate: Currency,
    pub length: Option<i64>,
    pub replacement_cost: Currency,
    pub rating: String,
}

#[derive(Clone, Debug, Model)]
#[model(unique(film, actor))]
pub struct FilmActor {
    pub id: i64,
    pub film: Ref<Film>,
    pub actor: Ref<Actor>,
}

#[derive(Clone, Debug, Model)]
#[model(unique(film, category))]
pub struct FilmCategory {
    pub id: i64,
    pub film: Ref<Film>,
    pub category: Ref<Category>,
}

#[derive(Clone, Debug, Model)]
pub struct Country {
    pub id: i64,
    pub name: String,
}

#[derive(Clone, Debug, Model)]
pub struct City {
    pub id: i64,
    pub name: String,
    pub country: Ref<Country>,
}

#[derive(Clone, Debug, Model)]
pub struct Address {
    pub id: i64,
    pub street: String,
    pub city: Ref<City>,
}

#[derive(Clone, Debug, Model)]
pub struct Shop {
    pub id: i64,
    pub address: Ref<Address>,
}

#[derive(Clone, Debug, Model)]
pub struct Staff {
    pub id: i64,
    pub first_name: String,
    pub last_name: String,
    pub address: Ref<Address>,
    pub shop: Ref<Shop>,
}

#[derive(Clone, Debug, Model)]
pub struct Customer {
    pub id: i64,
    pub shop: Ref<Shop>,
    pub first_name: String,
    #[model(index)]
    pub last_name: String,
    #[model(email, unique)]
    pub email: String,
    pub address: Ref<Address>,
    pub active: bool,
}

/// A copy of a film.
#[derive(Clone, Debug, Model)]
pub struct Inventory {
    pub id: i64,
    pub film: Ref<Film>,
    pub shop: Ref<Shop>,
}

#[derive(Clone, Debug, Model)]
pub struct Rental {
    pub id: i64,
    pub rental_date: Date,
    pub return_date: Option<Date>,
    pub inventory: Ref<Inventory>,
    pub customer: Ref<Customer>,
    pub staff: Ref<Staff>,
}

#[derive(Clone, Debug, Model)]
pub struct Payment {
    pub id: i64,
    pub customer: Ref<Customer>,
    pub staff: Ref<Staff>,
    pub rental: Ref<Rental>,
    pub amount: Currency,
    #[model(index)]
    pub payment_date: Date,
}

/// Opens the store at a URL.
///
/// # Errors
/// Errors of the engine.
pub fn open(url: &str) -> Result<Store> {
    let builder = marmota::open(url)?.model::<Language>().model::<Category>().model::<Actor>();
    let builder = builder.model::<Film>().model::<FilmActor>().model::<FilmCategory>();
    let builder = builder.model::<Country>().model::<City>().model::<Address>().model::<Shop>();
    let builder = builder.model::<Staff>().model::<Customer>().model::<Inventory>();
    builder.model::<Rental>().model::<Payment>().open()
}
