use marmota_derive::Model;

#[derive(Model)]
#[model(index(nam))]
struct Person {
    #[model(max = "40")]
    name: String,
    #[model(pattern = "(")]
    email: String,
    #[model(uniqe)]
    age: i32,
}

fn main() {}
