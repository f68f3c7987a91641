//! [`MailCatcher`]: a mail server for tests, which accepts mails on a free port and keeps them.

use std::io::{BufRead, BufReader, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

const WAIT_MAX: Duration = Duration::from_secs(20);

/// A mail that was received.
#[derive(Clone, Debug)]
pub struct CaughtMail {
    /// The receiver.
    pub to: String,
    /// The mail as it was sent, with soft line breaks of quoted-printable removed.
    pub text: String,
}

impl CaughtMail {
    /// Returns the one-time token in the text; an empty text if it has no token.
    #[must_use]
    pub fn token(&self) -> String {
        let at = self.text.find("mt_").unwrap_or(self.text.len());
        let rest = self.text[at..].chars();
        rest.take_while(|char| char.is_ascii_alphanumeric() || "-_".contains(*char)).collect()
    }
}

#[derive(Debug, Default)]
struct Kept {
    mails: Mutex<Vec<CaughtMail>>,
    arrived: Condvar,
    /// The number of mails to refuse for now.
    refused: Mutex<u32>,
}

/// A mail server on 127.0.0.1. Its threads end with the program.
#[derive(Debug)]
pub struct MailCatcher {
    url: String,
    kept: Arc<Kept>,
}

impl MailCatcher {
    /// Starts the server.
    ///
    /// # Errors
    /// No port is free.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("smtp://{}", listener.local_addr()?);
        let kept = Arc::new(Kept::default());
        let keeps = Arc::clone(&kept);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let keeps = Arc::clone(&keeps);
                std::thread::spawn(move || serve(&connection, &keeps));
            }
        });
        Ok(Self { url, kept })
    }

    /// Returns the URL for [`crate::SmtpSender::new`].
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Refuses the next mails with a temporary error.
    pub fn refuse(&self, mails: u32) {
        *self.kept.refused.lock() = mails;
    }

    /// Waits for the mail with this number, at most 20 seconds; the first is 0.
    #[must_use]
    pub fn mail(&self, number: usize) -> Option<CaughtMail> {
        let mut mails = self.kept.mails.lock();
        let is_missing = |mails: &mut Vec<CaughtMail>| mails.len() <= number;
        self.kept.arrived.wait_while_for(&mut mails, is_missing, WAIT_MAX);
        mails.get(number).cloned()
    }

    /// Returns the number of mails.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kept.mails.lock().len()
    }
}

/// Answers the commands of one connection (RFC 5321).
fn serve(mut connection: &TcpStream, kept: &Kept) -> Option<()> {
    let mut lines = BufReader::new(connection.try_clone().ok()?).lines();
    let mut answer = |text: &str| connection.write_all(format!("{text}\r\n").as_bytes()).ok();
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
                let mut refused = kept.refused.lock();
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
                kept.mails.lock().push(CaughtMail { to: to.clone(), text });
                kept.arrived.notify_all();
                answer("250 OK")?;
            }
            () if command == "QUIT" => return answer("221 bye"),
            () => answer("250 OK")?,
        }
    }
}
