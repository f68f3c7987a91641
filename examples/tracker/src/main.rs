//! The tracker as a server: `tracker [ADDRESS] [DATABASE] [FILES] [MAIL_SERVER] [WEBHOOK]`.
use marmota::auth::Settings;
use marmota::mail::SmtpSender;
use marmota::prelude::*;
use tracker::Tracker;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize, default| words.get(at).map_or(default, String::as_str);
    let server = Server::bind(word(0, "127.0.0.1:8080"))?;
    let (database, files) = (word(1, "sqlite:tracker.db"), word(2, "files"));
    let sender = SmtpSender::new(word(3, "smtp://127.0.0.1:25"), "Tracker <tracker@localhost>")?;
    let places = [database, files, &*server.url()];
    let tracker =
        Tracker::open(places, Settings::default(), &sender, words.get(4).map(String::as_str))?;
    if let Some(token) = tracker.auth.setup_token() {
        println!("Set the password of `admin` with this token: {token}");
    }
    println!("The tracker is at {}", server.url());
    server.run(tracker.routes())?;
    Ok(tracker.close()?)
}
