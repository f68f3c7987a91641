//! The command line of all peers (`--port N --threads N`) and the message that they return for
//! `/json`.

use serde::Serialize;
use std::net::{Ipv4Addr, SocketAddr};

/// The body of `/plaintext`.
pub const PLAINTEXT: &str = "Hello, World!";

/// Length of the JSON form of [`Message::HELLO`], in bytes.
pub const JSON_BYTES: usize = 27;

/// The object that `/json` returns; every peer serialises it for every request.
#[derive(Serialize)]
pub struct Message {
    /// Always "Hello, World!".
    pub message: &'static str,
}

impl Message {
    /// The message.
    pub const HELLO: Message = Message { message: PLAINTEXT };
}

/// The command-line options of a peer.
pub struct Options {
    /// Port to listen on, on 127.0.0.1.
    pub port: u16,
    /// The number of server threads. Default: the number of available cores.
    pub threads: usize,
    /// Arguments that are not options; some peers select a variant with them.
    pub words: Vec<String>,
}

impl Options {
    /// Parses the arguments of the process. For invalid ones it prints the reason and ends the process
    /// with code 2.
    pub fn from_args() -> Options {
        let mut options = Options {
            port: 8080,
            threads: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            words: Vec::new(),
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--port" => options.port = number(&arg, args.next()),
                "--threads" => options.threads = number::<usize>(&arg, args.next()).max(1),
                _ => options.words.push(arg),
            }
        }
        options
    }

    /// The address to listen on.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Returns whether `word` is among the arguments.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|given| given == word)
    }
}

fn number<T: std::str::FromStr>(option: &str, value: Option<String>) -> T {
    match value.as_deref().map(str::parse) {
        Some(Ok(number)) => number,
        _ => {
            eprintln!("{option} needs a number, got {value:?}");
            std::process::exit(2);
        }
    }
}
