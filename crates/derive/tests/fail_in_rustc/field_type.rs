use marmota_derive::Model;

struct Address {
    street: String,
}

#[derive(Model)]
struct Person {
    id: i64,
    address: Address,
    letters: Option<Vec<char>>,
}

fn main() {}
