use marmota_derive::Model;
use marmota_model::Timestamp;

#[derive(Model)]
struct Item {
    #[model(default_expression = "@user.id")]
    id: i64,
    #[model(default_expression)]
    name: String,
    #[model(default_expression = " ")]
    slug: String,
    #[model(computed = "price * count", default = 3, immutable)]
    total: i64,
    #[model(version, computed = "1")]
    version: i64,
    #[model(generated = "", computed = "1")]
    both: i64,
    #[model(generated = "price * count", default = 3)]
    sum: i64,
    #[model(created_at, generated)]
    made: Timestamp,
    price: i64,
    count: i64,
}

fn main() {}
