use marmota_derive::Model;

#[derive(Model)]
#[model(table, index)]
#[model = "people"]
struct Person {
    #[model]
    id: i64,
    #[model(max(40), unique = true, rename = 3)]
    name: String,
    #[model(length = 4, pattern, not_empty())]
    nick: String,
    #[model(range(3, 4))]
    age: i32,
    #[model(range(least = 3))]
    size: i32,
    #[model(check = "is_isbn", default)]
    isbn: String,
    #[model(max = 3, max = 4)]
    twice: String,
    #[model(max 3)]
    loose: String,
}

fn main() {}
