use marmota_derive::Model;

#[derive(Model)]
#[model(index(last_nam, first_name), unique(email, email), unique(tenant))]
#[model(index(first_name), index(first_name))]
struct Person {
    id: i64,
    first_name: String,
    last_name: String,
    email: String,
}

fn main() {}
