//! Serves people on one port, over REST and for remote stores: `people_server [ADDRESS]
//! [DATABASE]`.
use marmota::prelude::*;
use marmota::remote::Service;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or("127.0.0.1:8888".into());
    let database = words.next().unwrap_or("sqlite:people.db".into());
    let store = marmota::open(&database)?.model::<people::Person>().open()?;
    let server = Server::bind(&address)?;
    println!("Serving people at {}/api", server.url());
    server.run(rest::api(&store).nest("", Service::new(&store).router()))?;
    Ok(store.close()?)
}
