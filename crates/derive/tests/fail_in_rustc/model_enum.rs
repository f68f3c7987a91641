use marmota_derive::ModelEnum;

#[derive(ModelEnum)]
#[model(integer)]
enum Numbers {
    One = 1,
    Two,
}

#[derive(ModelEnum)]
#[model(text)]
enum Data {
    Plain,
    Tuple(i32),
    Named { a: i32 },
}

#[derive(ModelEnum)]
enum Names {
    Same,
    #[model(rename = "same")]
    Other,
    #[model(name = "x")]
    Unknown,
    #[model(rename = "")]
    Empty,
}

#[derive(ModelEnum)]
enum None {}

#[derive(ModelEnum)]
enum Generic<T> {
    A,
}

fn main() {}
