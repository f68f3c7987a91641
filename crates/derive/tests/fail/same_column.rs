use marmota_derive::Model;

#[derive(Model)]
struct Person {
    id: i64,
    name: String,
    #[model(rename = "Name")]
    other: String,
}

#[derive(Model)]
#[allow(non_snake_case)]
struct Constants {
    id: i64,
    lastName: String,
    last_name: String,
}

fn main() {}
