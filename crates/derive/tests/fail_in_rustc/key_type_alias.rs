use marmota_derive::Model;

type Number = u32;

#[derive(Model)]
struct Person {
    id: Number,
}

fn main() {}
