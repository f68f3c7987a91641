use marmota_derive::{Model, ModelEnum};

#[derive(ModelEnum)]
enum Status {
    Active,
}

#[derive(Model)]
struct Person {
    id: i64,
    #[model(max = 40)]
    status: Status,
}

fn main() {}
