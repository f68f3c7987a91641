use marmota_derive::Model;

#[derive(Model)]
struct Person {
    #[model(key)]
    country: String,
    #[model(key)]
    number: i64,
}

fn main() {}
