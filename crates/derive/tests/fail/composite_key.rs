use marmota_derive::Model;

#[derive(Model)]
struct One {
    #[model(key(a))]
    key: String,
    a: i64,
}

#[derive(Model)]
struct Entry {
    #[model(key(playlist, trak, playlist, key, note))]
    key: i64,
    #[model(immutable)]
    playlist: i64,
    track: i64,
    note: Option<String>,
}

#[derive(Model)]
struct Made {
    #[model(key(a, b))]
    key: String,
    #[model(version)]
    a: i64,
    #[model(computed = "1")]
    b: i64,
}

fn main() {}
