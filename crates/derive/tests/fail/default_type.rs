use marmota_derive::Model;
use marmota_model::*;

#[derive(Model)]
struct Person {
    id: i64,
    #[model(default = "1")]
    age: i32,
    #[model(default = 300)]
    small: u8,
    #[model(default = 1)]
    name: String,
    #[model(default = 1.00001)]
    wage: Currency,
    #[model(default = 1)]
    active: bool,
    #[model(default = 20261121)]
    born: Date,
    #[model(default = "x")]
    photo: Blob,
    #[model(default = "longer", max = 3)]
    nick: String,
    #[model(created_at, default = "2026-11-21T00:00:00Z")]
    created: Timestamp,
    #[model(default = 'c')]
    letter: String,
    #[model(default = None)]
    nothing: Option<i32>,
}

fn main() {}
