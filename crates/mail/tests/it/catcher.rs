//! An SMTP server for tests: it accepts mails on a free port, and keeps them.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const WAIT_MAX: Duration = Duration::from_secs(20);

/// A mail that was received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) to: String,
    /// The mail as it was sent, with soft line breaks of quoted-printable removed.
    pub(crate) text: String,
}

impl Received {
    /// Returns the token at the end of the link.
    pub(crate) fn token(&self) -> String {
        let text = self.text.replace("=3D", "=");
        let at = text.find("mt_").unwrap_or_else(|| panic!("no token in {text}"));
        let rest = text[at..].chars();
        rest.take_while(|char| char.is_ascii_alphanumeric() || "-_".contains(*char)).collect()
    }
}

#[derive(Default)]
struct Kept {
    mails: Mutex<Vec<Received>>,
    arrived: Condvar,
    /// The number of mails to refuse for now.
    refused: Mutex<u32>,
}

/// The server. Its thread ends with the test program.
pub(crate) struct Catcher {
    pub(crate) url: String,
    kept: Arc<Kept>,
}

impl Catcher {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("smtp://{}", listener.local_addr().unwrap());
        let kept = Arc::new(Kept::default());
        let keeps = Arc::clone(&kept);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let keeps = Arc::clone(&keeps);
                std::thread::spawn(move || serve(connection, &keeps));
            }
        });
        Self { url, kept }
    }

    /// Refuses the next mails with a temporary error.
    pub(crate) fn refuse(&self, mails: u32) {
        *self.kept.refused.lock().unwrap() = mails;
    }

    /// Waits for the mail with this number, and returns it.
    pub(crate) fn mail(&self, number: usize) -> Received {
        let mails = self.kept.mails.lock().unwrap();
        let (mails, _) = self
            .kept
            .arrived
            .wait_timeout_while(mails, WAIT_MAX, |mails| mails.len() <= number)
            .unwrap();
        mails.get(number).unwrap_or_else(|| panic!("{} mails, not {number}", mails.len())).clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.kept.mails.lock().unwrap().len()
    }
}

/// Answers the commands of one connection (RFC 5321).
fn serve(connection: TcpStream, kept: &Kept) -> Option<()> {
    let mut lines = BufReader::new(connection.try_clone().ok()?).lines();
    let answer = |text: &str| (&connection).write_all(format!("{text}\r\n").as_bytes()).ok();
    answer("220 catcher")?;
    let mut to = String::new();
    loop {
        let line = lines.next()?.ok()?;
        let command = line.to_ascii_uppercase();
        match () {
            () if command.starts_with("EHLO") => answer("250 catcher")?,
            () if command.starts_with("RCPT") => {
                to = line.split(['<', '>']).nth(1)?.to_owned();
                answer("250 OK")?;
            }
            () if command == "DATA" => {
                let mut refused = kept.refused.lock().unwrap();
                if *refused > 0 {
                    *refused -= 1;
                    drop(refused);
                    answer("451 try again later")?;
                    continue;
                }
                drop(refused);
                answer("354 go")?;
                let mut text = String::new();
                loop {
                    let line = lines.next()?.ok()?;
                    match line.strip_suffix('=') {
                        _ if line == "." => break,
                        Some(part) => text.push_str(part),
                        None => text = text + &line + "\n",
                    }
                }
                kept.mails.lock().unwrap().push(Received { to: to.clone(), text });
                kept.arrived.notify_all();
                answer("250 OK")?;
            }
            () if command == "QUIT" => return answer("221 bye"),
            () => answer("250 OK")?,
        }
    }
}
