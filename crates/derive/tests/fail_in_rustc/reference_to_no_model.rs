use marmota_derive::Model;
use marmota_model::*;

struct Address {
    id: i64,
}

#[derive(Model)]
struct Person {
    id: i64,
    address: Ref<Address>,
}

fn main() {}
