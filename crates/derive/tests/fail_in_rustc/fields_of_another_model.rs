use marmota_derive::Model;
use marmota_store::Store;

#[derive(Model)]
struct Person {
    id: i64,
    name: String,
    city: String,
}

#[derive(Model)]
struct City {
    id: i64,
    city: String,
    name: String,
}

fn verbs(store: &Store) {
    let _ = store.list::<Person>().filter(City::NAME.eq("y"));
    let _ = store.list::<Person>().order(City::NAME.ascending());
    let _ = store.list::<Person>().column(City::NAME);
    let _ = store.count::<Person>().filter(City::NAME.eq("y"));
    let _ = store.delete_where::<Person>(City::NAME.eq("y"));
    let _ = store.patch::<Person>(1).set(City::NAME, "y");
    let _ = store.increment::<Person, _>(City::ID, 1, 1);
    let _ = store.batch().patch::<Person>(1).set(City::NAME, "y");
    let _ = Person::NAME.eq("x").and(City::NAME.eq("y"));
}

fn main() {}
