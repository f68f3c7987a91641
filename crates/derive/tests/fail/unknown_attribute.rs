use marmota_derive::Model;

#[derive(Model)]
#[model(tabel = "people", max = 3, colour = "red")]
struct Person {
    #[model(primary_key)]
    id: i64,
    #[model(maxx = 40, uniqe)]
    name: String,
    #[model(table = "x", nullable)]
    email: String,
}

fn main() {}
