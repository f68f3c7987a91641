use marmota_derive::Model;
use marmota_model::*;

#[derive(Model)]
struct Person {
    id: i64,
    #[model(created_at)]
    created: i64,
    #[model(updated_at)]
    updated: Option<Timestamp>,
    #[model(version)]
    version: u32,
    #[model(version)]
    again: i64,
    #[model(created_at, updated_at)]
    both: Timestamp,
}

fn main() {}
