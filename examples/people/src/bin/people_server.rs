//! People on one port, as REST and for clients: `people_server [ADDRESS] [DATABASE]`.
use marmota::prelude::*;
use marmota::remote::Service;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or("127.0.0.1:8888".into());
    let database = words.next().unwrap_or("sqlite:people.db".into());
    let store = marmota::open(&database)?.model::<people::Person>().open()?;
    let server = Server::bind(&address)?;
    println!("People are served at {}/api", server.url());
    server.run(rest::api(&store).nest("", Service::new(&store).router()))?;
    Ok(store.close()?)
}
