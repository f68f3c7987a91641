use marmota_derive::{Model, ModelEnum};

#[derive(Model)]
struct Tuple(i64, String);

#[derive(Model)]
struct Unit;

#[derive(Model)]
enum Status {
    Active,
}

#[derive(Model)]
union Either {
    id: i64,
}

#[derive(ModelEnum)]
struct Person {
    id: i64,
}

fn main() {}
