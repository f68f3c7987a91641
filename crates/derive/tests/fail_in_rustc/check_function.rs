use marmota_derive::Model;

fn wrong_type(_: &i32) -> Result<(), String> {
    Ok(())
}

fn wrong_result(_: &str) -> bool {
    true
}

#[derive(Model)]
struct Person {
    id: i64,
    #[model(check = wrong_type)]
    name: String,
    #[model(check = wrong_result)]
    nick: Option<String>,
    #[model(check = no_such_function)]
    isbn: String,
}

fn main() {}
