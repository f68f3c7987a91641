//! Lists with related rows.

use marmota_model::Ref;
use marmota_store::related::{many, one};

use crate::conformance::harness::models;
use crate::conformance::harness::models::{City, Country};
use crate::conformance::harness::subject::{Stand, Subject};

fn stand_of_cities(subject: &Subject) -> (Stand<'_>, Vec<i64>) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert_many(&[Country::new("FR", "France"), Country::new("IT", "Italy")]).run().unwrap();
    let cities = [("Lyon", "FR"), ("Turin", "IT"), ("Bourges", "FR"), ("Paris", "FR")];
    let cities = cities.map(|(name, country)| City::new(name, country));
    let mut keys = stand.insert_many(&cities).run().unwrap();
    for twin in ["Milan", "Alba"] {
        let twin_of = Some(Ref::new(keys[0]));
        keys.push(stand.insert(&City { twin: twin_of, ..City::new(twin, "IT") }).run().unwrap());
    }
    stand.settle();
    (stand, keys)
}

/// A list with relations has, for each row, the row to which it refers and the rows that refer to
/// it, sorted, selected and limited for each row.
pub fn lists_come_with_related_rows(subject: &Subject) {
    let (stand, _) = stand_of_cities(subject);
    let names =
        |cities: &[City]| -> Vec<String> { cities.iter().map(|it| it.name.clone()).collect() };
    let by_name = || many(City::COUNTRY).order(City::NAME.ascending());
    let found = stand.list::<Country>().with(by_name().limit(2)).run().unwrap();
    let found: Vec<(String, Vec<String>)> =
        found.iter().map(|(country, cities)| (country.name.clone(), names(cities))).collect();
    let wanted = [("France", ["Bourges", "Lyon"]), ("Italy", ["Alba", "Milan"])];
    let wanted = wanted.map(|(name, cities)| (name.to_owned(), cities.map(str::to_owned).to_vec()));
    assert_eq!(found, wanted);
    let selected = by_name().filter(City::TWIN.is_null()).order(City::ID.descending());
    let found = stand.list::<Country>().order(Country::NAME.descending()).with(selected);
    let found = found.run().unwrap();
    let found: Vec<Vec<String>> = found.iter().map(|(_, cities)| names(cities)).collect();
    assert_eq!(found, [vec!["Turin"], vec!["Bourges", "Lyon", "Paris"]]);

    let all = (one(City::COUNTRY), one(City::TWIN), many(City::TWIN).limit(1));
    let found = stand.list::<City>().filter(City::NAME.is_in(["Lyon", "Alba"])).with(all);
    let found = marmota_store::action::block_on(async { found.await }).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|(city, (country, twin, twins))| {
            let country = country.as_ref().map(|country| &*country.name);
            (&*city.name, country, twin.as_ref().map(|twin| &*twin.name), names(twins))
        })
        .collect();
    let wanted = [
        ("Lyon", Some("France"), None, vec!["Milan".to_owned()]),
        ("Alba", Some("Italy"), Some("Lyon"), vec![]),
    ];
    assert_eq!(found, wanted);
    let none = stand.list::<City>().filter(City::ID.eq(0)).with(one(City::TWIN)).run().unwrap();
    assert!(none.is_empty());
}

/// Related rows of more rows than one operation may name are complete.
pub fn many_rows_come_with_related_rows(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert(&Country::new("FR", "France")).run().unwrap();
    let cities: Vec<City> = (0..450).map(|at| City::new(&format!("{at}"), "FR")).collect();
    let keys = stand.insert_many(&cities).run().unwrap();
    let twins: Vec<City> = keys
        .iter()
        .map(|key| City { twin: Some(Ref::new(*key)), ..City::new(&key.to_string(), "FR") })
        .collect();
    stand.insert_many(&twins).run().unwrap();
    stand.settle();
    let originals = || stand.list::<City>().filter(City::TWIN.is_null());
    let found = originals().with(many(City::TWIN).limit(3)).run().unwrap();
    assert_eq!(found.len(), keys.len());
    for (city, twins) in &found {
        assert_eq!((twins.len(), &twins[0].name), (1, &city.id.to_string()));
    }
}

register!($ related_promises related:
    lists_come_with_related_rows,
    many_rows_come_with_related_rows,
);
