use marmota_derive::Model;

#[derive(Model)]
#[model(unique(where = "deleted = null"), index(email, where = ""))]
#[model(unique(where = "deleted = null", email), unique(email, where = 3))]
struct Person {
    id: i64,
    email: String,
    deleted: Option<i64>,
}

fn main() {}
