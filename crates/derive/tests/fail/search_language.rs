use marmota_derive::Model;

#[derive(Model)]
#[model(search_language = "french")]
struct Note {
    id: i64,
    #[model(search)]
    text: String,
}

#[derive(Model)]
#[model(search_language = "english")]
struct City {
    id: i64,
    name: String,
}

fn main() {}
