use marmota_derive::Model;
use marmota_model::*;

#[derive(Model)]
struct Person {
    id: i64,
    #[model(range(min = 10, max = 1))]
    age: i32,
    #[model(range(min = 1.5, max = 1.25))]
    wage: Currency,
    #[model(length(min = 9, max = 2))]
    nick: String,
    #[model(length(min = -1), max = 0)]
    name: String,
    #[model(range(min = 0, max = 256))]
    small: u8,
}

fn main() {}
