use marmota_derive::Model;

#[derive(Model)]
struct Person {
    name: String,
    email: Option<String>,
}

fn main() {}
