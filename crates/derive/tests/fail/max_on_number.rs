use marmota_derive::Model;
use marmota_model::*;

#[derive(Model)]
struct Person {
    id: i64,
    #[model(max = 40)]
    age: Option<i32>,
    #[model(collate = "nocase", pattern = "a", email)]
    weight: f64,
    #[model(not_empty, length(min = 3))]
    born: Date,
    #[model(range(min = 3))]
    name: String,
}

fn main() {}
