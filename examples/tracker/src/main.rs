//! The tracker as a server: `tracker [ADDRESS] [DATABASE] [FILES]`.
use marmota::auth::Settings;
use marmota::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or("127.0.0.1:8080".into());
    let database = words.next().unwrap_or("sqlite:tracker.db".into());
    let files = words.next().unwrap_or("files".into());
    let (auth, storage) = tracker::open(&database, &files, Settings::default())?;
    if let Some(token) = auth.setup_token() {
        println!("Set the password of `admin` with this token: {token}");
    }
    let server = Server::bind(&address)?;
    println!("The tracker is at {}", server.url());
    server.run(tracker::routes(&auth, &storage))?;
    storage.stop();
    Ok(auth.store().close()?)
}
