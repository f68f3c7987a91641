//! The questions as Rust expressions.

use marmota::group::{avg, count, max, min, sum};
use marmota::model::Comparison;
use marmota::prelude::*;
use marmota::related::one;
use tutorials::rentals::{
    Actor, Address, Category, City, Country, Customer, Film, FilmActor, FilmCategory, Inventory,
    Language, Payment, Rental, Shop, Staff,
};

use crate::Rows;
use crate::cells::{day, pairs, row, single, text};

/// Returns groups by a field of a related row with one value each.
fn by_related<T: ToString>(groups: Vec<(Option<String>, T)>) -> Rows {
    groups.into_iter().map(|(name, value)| row![text(name), value]).collect()
}

pub(crate) fn first_actors(store: &Store) -> Result<Rows> {
    let list = store.list::<Actor>().order(Actor::LAST_NAME.ascending());
    let rows = list.order(Actor::FIRST_NAME.ascending()).limit(10).run()?;
    Ok(rows.into_iter().map(|one| row![one.first_name, one.last_name]).collect())
}

pub(crate) fn actors_called_joe(store: &Store) -> Result<Rows> {
    let rows = store.list::<Actor>().filter(Actor::FIRST_NAME.eq("JOE")).run()?;
    Ok(rows.into_iter().map(|one| row![one.id, one.last_name]).collect())
}

pub(crate) fn actors_with_gen(store: &Store) -> Result<Rows> {
    Ok(single(
        store.list::<Actor>().filter(Actor::LAST_NAME.contains("gen")).column(Actor::ID).run()?,
    ))
}

pub(crate) fn actors_with_li(store: &Store) -> Result<Rows> {
    let list = store.list::<Actor>().filter(Actor::LAST_NAME.contains("li"));
    let list = list.order(Actor::LAST_NAME.ascending()).order(Actor::FIRST_NAME.ascending());
    let rows = list.run()?;
    Ok(rows.into_iter().map(|one| row![one.last_name, one.first_name]).collect())
}

pub(crate) fn three_countries(store: &Store) -> Result<Rows> {
    let names = ["Afghanistan", "Bangladesh", "China"];
    let rows = store.list::<Country>().filter(Country::NAME.is_in(names)).run()?;
    Ok(rows.into_iter().map(|one| row![one.id, one.name]).collect())
}

pub(crate) fn last_names(store: &Store) -> Result<Rows> {
    Ok(pairs(store.list::<Actor>().group_by(Actor::LAST_NAME).select(count()).run()?))
}

pub(crate) fn frequent_last_names(store: &Store) -> Result<Rows> {
    let groups = store.list::<Actor>().group_by(Actor::LAST_NAME).select(count());
    Ok(pairs(groups.having(count().ge(10)).run()?))
}

pub(crate) fn staff_with_addresses(store: &Store) -> Result<Rows> {
    let rows = store.list::<Staff>().with(one(Staff::ADDRESS)).run()?;
    let cells = |(staff, address): (Staff, Option<Address>)| {
        row![staff.first_name, staff.last_name, text(address.map(|address| address.street))]
    };
    Ok(rows.into_iter().map(cells).collect())
}

pub(crate) fn staff_in_august(store: &Store) -> Result<Rows> {
    let (first, last) = (day("2005-08-01"), day("2005-08-31"));
    let filter = Payment::PAYMENT_DATE.ge(first).and(Payment::PAYMENT_DATE.le(last));
    let groups = store.list::<Payment>().filter(filter);
    let groups = groups.group_by(Payment::STAFF.then(Staff::LAST_NAME));
    let groups = groups.select(sum(Payment::AMOUNT)).run()?;
    Ok(groups.into_iter().map(|(name, total)| row![text(name), text(total)]).collect())
}

pub(crate) fn films_with_most_actors(store: &Store) -> Result<Rows> {
    let groups = store.list::<FilmActor>().group_by(FilmActor::FILM.then(Film::TITLE));
    let groups = groups.select(count()).order(count().descending());
    Ok(by_related(groups.limit(10).run()?))
}

pub(crate) fn copies_of_a_film(store: &Store) -> Result<Rows> {
    let filter = Inventory::FILM.to(Film::TITLE.eq("HUNCHBACK IMPOSSIBLE"));
    Ok(vec![row![store.count::<Inventory>().filter(filter).run()?]])
}

pub(crate) fn best_customers(store: &Store) -> Result<Rows> {
    let customer = || Payment::CUSTOMER;
    let names = (customer().then(Customer::LAST_NAME), customer().then(Customer::FIRST_NAME));
    let groups = store.list::<Payment>().group_by(names).select(sum(Payment::AMOUNT));
    let groups = groups.order(sum(Payment::AMOUNT).descending()).limit(10).run()?;
    let cells = |((last, first), total)| {
        row![text::<String>(last), text::<String>(first), text::<Currency>(total)]
    };
    Ok(groups.into_iter().map(cells).collect())
}

pub(crate) fn english_films(store: &Store) -> Result<Rows> {
    let title = Film::TITLE.starts_with("K").or(Film::TITLE.starts_with("Q"));
    let filter = Film::LANGUAGE.to(Language::NAME.eq("English")).and(title);
    Ok(single(store.list::<Film>().filter(filter).column(Film::ID).run()?))
}

pub(crate) fn actors_of_a_film(store: &Store) -> Result<Rows> {
    let film = FilmActor::FILM.to(Film::TITLE.eq("ALONE TRIP"));
    let rows = store.list::<Actor>().filter(FilmActor::ACTOR.any(film)).run()?;
    Ok(rows.into_iter().map(|one| row![one.id, one.last_name]).collect())
}

pub(crate) fn customers_in_canada(store: &Store) -> Result<Rows> {
    let country = City::COUNTRY.to(Country::NAME.eq("Canada"));
    let filter = Customer::ADDRESS.to(Address::CITY.to(country));
    let rows = store.list::<Customer>().filter(filter).run()?;
    Ok(rows.into_iter().map(|one| row![one.id, one.email]).collect())
}

pub(crate) fn films_for_families(store: &Store) -> Result<Rows> {
    let family = FilmCategory::CATEGORY.to(Category::NAME.eq("Family"));
    let list = store.list::<Film>().filter(FilmCategory::FILM.any(family));
    Ok(single(list.column(Film::TITLE).run()?))
}

pub(crate) fn films_rented_most(store: &Store) -> Result<Rows> {
    let title = Rental::INVENTORY.then(Inventory::FILM).then(Film::TITLE);
    let groups = store.list::<Rental>().group_by(title).select(count());
    Ok(by_related(groups.order(count().descending()).limit(10).run()?))
}

pub(crate) fn business_of_shops(store: &Store) -> Result<Rows> {
    let groups = store.list::<Payment>().group_by(Payment::STAFF.then(Staff::SHOP));
    let groups = groups.select((sum(Payment::AMOUNT), count())).run()?;
    let cells = |(shop, (total, count)): (Option<Ref<Shop>>, (Option<Currency>, u64))| {
        row![text(shop.map(|shop| *shop.key())), text(total), count]
    };
    Ok(groups.into_iter().map(cells).collect())
}

pub(crate) fn places_of_shops(store: &Store) -> Result<Rows> {
    let rows = store.list::<Shop>().with(one(Shop::ADDRESS)).run()?;
    rows.into_iter()
        .map(|(shop, address)| {
            let city = store.get::<City>(*address.unwrap().city.key()).run()?;
            let country = store.get::<Country>(*city.country.key()).run()?;
            Ok(row![shop.id, city.name, country.name])
        })
        .collect()
}

pub(crate) fn films_by_category(store: &Store) -> Result<Rows> {
    let groups = store.list::<FilmCategory>().group_by(FilmCategory::CATEGORY.then(Category::NAME));
    Ok(by_related(groups.select(count()).run()?))
}

pub(crate) fn length_of_horror(store: &Store) -> Result<Rows> {
    let horror = FilmCategory::CATEGORY.to(Category::NAME.eq("Horror"));
    let list = store.list::<Film>().filter(FilmCategory::FILM.any(horror));
    Ok(vec![row![text(list.aggregate(avg(Film::LENGTH)).run()?)]])
}

pub(crate) fn lengths_by_rating(store: &Store) -> Result<Rows> {
    let length = Film::LENGTH;
    let groups = store.list::<Film>().group_by(Film::RATING);
    let groups = groups.select((avg(length), min(length), max(length))).run()?;
    let cells = |(rating, (mean, shortest, longest))| {
        row![
            text::<String>(Some(rating)),
            text::<f64>(mean),
            text::<i64>(shortest),
            text::<i64>(longest)
        ]
    };
    Ok(groups.into_iter().map(cells).collect())
}

pub(crate) fn rentals_not_returned(store: &Store) -> Result<Rows> {
    let filter = Rental::RETURN_DATE.is_null().and(Rental::RENTAL_DATE.lt(day("2006-01-01")));
    let rows = store.list::<Rental>().filter(filter).with(one(Rental::CUSTOMER)).run()?;
    let cells = |(rental, customer): (Rental, Option<Customer>)| {
        row![rental.id, text(customer.map(|customer| customer.last_name))]
    };
    Ok(rows.into_iter().map(cells).collect())
}

pub(crate) fn films_without_a_copy(store: &Store) -> Result<Rows> {
    let rows = store.list::<Film>().filter(Inventory::FILM.none(Filter::all([]))).run()?;
    Ok(rows.into_iter().map(|one| row![one.id, one.title]).collect())
}

pub(crate) fn copies_never_rented(store: &Store) -> Result<Rows> {
    let list = store.list::<Inventory>().filter(Rental::INVENTORY.none(Filter::all([])));
    Ok(single(list.column(Inventory::ID).run()?))
}

pub(crate) fn frequent_customers(store: &Store) -> Result<Rows> {
    let filter = Rental::CUSTOMER.count(Filter::all([]), Comparison::Greater, 38);
    Ok(single(store.list::<Customer>().filter(filter).column(Customer::ID).run()?))
}

pub(crate) fn customers_by_country(store: &Store) -> Result<Rows> {
    let country = Customer::ADDRESS.then(Address::CITY).then(City::COUNTRY).then(Country::NAME);
    let groups = store.list::<Customer>().group_by(country).select(count());
    Ok(by_related(groups.order(count().descending()).limit(10).run()?))
}

pub(crate) fn sales_by_rating(store: &Store) -> Result<Rows> {
    let rating = Payment::RENTAL.then(Rental::INVENTORY).then(Inventory::FILM).then(Film::RATING);
    let groups = store.list::<Payment>().group_by(rating);
    let groups = groups.select((sum(Payment::AMOUNT), avg(Payment::AMOUNT))).run()?;
    let cells = |(rating, (total, mean))| {
        row![text::<String>(rating), text::<Currency>(total), text::<f64>(mean)]
    };
    Ok(groups.into_iter().map(cells).collect())
}

pub(crate) fn payments_of_a_customer(store: &Store) -> Result<Rows> {
    let filter = Payment::CUSTOMER.eq(Ref::new(7));
    let rows = store.list::<Payment>().filter(filter).with(one(Payment::RENTAL)).run()?;
    rows.into_iter()
        .map(|(payment, rental)| {
            let copy = store.get::<Inventory>(*rental.unwrap().inventory.key()).run()?;
            let film = store.get::<Film>(*copy.film.key()).run()?;
            Ok(row![payment.id, payment.amount, film.title])
        })
        .collect()
}

pub(crate) fn busy_actors(store: &Store) -> Result<Rows> {
    let filter = FilmActor::ACTOR.count(Filter::all([]), Comparison::Greater, 35);
    Ok(single(store.list::<Actor>().filter(filter).column(Actor::ID).run()?))
}

pub(crate) fn rates_by_language(store: &Store) -> Result<Rows> {
    let groups = store.list::<Film>().group_by(Film::LANGUAGE.then(Language::NAME));
    let groups = groups.select((count(), avg(Film::RENTAL_RATE))).run()?;
    let cells = |(name, (count, mean)): (Option<String>, (u64, Option<f64>))| {
        row![text(name), count, text(mean)]
    };
    Ok(groups.into_iter().map(cells).collect())
}

pub(crate) fn copies_by_rating(store: &Store) -> Result<Rows> {
    let by = (Inventory::SHOP, Inventory::FILM.then(Film::RATING));
    let groups = store.list::<Inventory>().group_by(by).select(count()).run()?;
    let cells = |((shop, rating), count): ((Ref<Shop>, Option<String>), u64)| {
        row![shop.key(), text(rating), count]
    };
    Ok(groups.into_iter().map(cells).collect())
}

pub(crate) fn inactive_customers(store: &Store) -> Result<Rows> {
    let filter = Customer::ACTIVE.eq(false).and(Customer::SHOP.eq(Ref::new(1)));
    let city = Customer::ADDRESS.then(Address::CITY).then(City::NAME);
    let list = store.list::<Customer>().filter(filter).order(city.ascending());
    Ok(single(list.column(Customer::ID).run()?))
}
