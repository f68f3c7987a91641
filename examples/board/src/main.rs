//! A board of cards that several browsers edit together: `board [ADDRESS] [DATABASE]`.
use marmota::prelude::*;
use marmota::store::change::ChangeRetention;

#[derive(Clone, Debug, Model)]
struct Card {
    id: i64,
    #[model(not_empty, max = 200)]
    text: String,
    column: Column,
    #[model(version)]
    version: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, ModelEnum)]
enum Column {
    Todo,
    Doing,
    Done,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or("127.0.0.1:8080".into());
    let database = words.next().unwrap_or("sqlite:board.db".into());
    let store =
        marmota::open(&database)?.model::<Card>().changes(ChangeRetention::default()).open()?;
    let router =
        rest::api(&store).get("/", |_| async { Response::html(include_str!("page.html")) });
    let server = Server::bind(&address)?;
    println!("The board is at {}", server.url());
    server.run(router)?;
    Ok(store.close()?)
}
