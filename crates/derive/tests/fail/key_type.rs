use marmota_derive::Model;
use marmota_model::*;

#[derive(Model)]
struct Narrow {
    id: i32,
}

#[derive(Model)]
struct Optional {
    id: Option<i64>,
}

#[derive(Model)]
struct Marked {
    #[model(key, unique, default = "2026-01-01")]
    day: Date,
}

fn main() {}
