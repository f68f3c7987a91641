use marmota_derive::Model;

#[derive(Model)]
struct Borrowed<'a> {
    id: i64,
    name: &'a str,
}

#[derive(Model)]
struct Generic<T> {
    id: i64,
    value: T,
}

fn main() {}
