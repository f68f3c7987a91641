use marmota_derive::Model;

#[derive(Model)]
#[model(table = "sqlite_people")]
struct Person {
    id: i64,
    #[model(rename = "last name")]
    name: String,
    größe: i32,
}

#[derive(Model)]
struct Größe {
    id: i64,
}

fn main() {}
