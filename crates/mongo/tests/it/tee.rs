//! What is said to a server, overheard on the way.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;

/// Passes bytes on to a server, and keeps those that went there.
pub(crate) struct Tee {
    url: String,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Tee {
    /// In front of the server of a URL.
    pub(crate) fn before(url: &str) -> Self {
        let (host, database) = url["mongodb://".len()..].split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("mongodb://{}/{database}", listener.local_addr().unwrap());
        let said = Arc::new(Mutex::new(Vec::new()));
        let (host, kept) = (host.to_owned(), Arc::clone(&said));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&host) else { continue };
                let (back, answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let kept = Arc::clone(&kept);
                thread::spawn(move || pass(client, server, Some(&kept)));
                thread::spawn(move || pass(answers, back, None));
            }
        });
        Self { url, said }
    }

    /// The server's URL by this way.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// How often these bytes were said; forgets all that was.
    pub(crate) fn count(&self, bytes: &[u8]) -> usize {
        let said = std::mem::take(&mut *self.said.lock().unwrap());
        said.windows(bytes.len()).filter(|there| *there == bytes).count()
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, kept: Option<&Mutex<Vec<u8>>>) {
    let mut buffer = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if let Some(kept) = kept {
            kept.lock().unwrap().extend_from_slice(&buffer[..read]);
        }
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
