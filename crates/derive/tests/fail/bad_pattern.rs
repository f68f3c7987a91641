use marmota_derive::Model;

#[derive(Model)]
struct Person {
    id: i64,
    #[model(pattern = "[A-Z")]
    country: String,
    #[model(pattern = "a)|(b")]
    either: String,
    #[model(pattern = "é{2,1}")]
    twice: Option<String>,
}

fn main() {}
