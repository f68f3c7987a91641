//! A receiver of webhooks, stores, and waits for conditions.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use marmota_derive::Model;
use marmota_memory::Memory;
use marmota_model::Result;
use marmota_store::Store;
use marmota_store::action::block_on;
use marmota_store::change::ChangeRetention;
use marmota_webhooks::{
    DeliveryQuery, DeliveryRow, Webhook, WebhookOptions, WebhookWorker, Webhooks,
};
use serde_json::Value;

/// Longer than any condition takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[derive(Clone, Debug, Model)]
pub(crate) struct Issue {
    pub(crate) id: i64,
    pub(crate) title: String,
    pub(crate) state: String,
    pub(crate) number: i64,
}

pub(crate) fn issue(title: &str, number: i64) -> Issue {
    Issue { id: 0, title: title.to_owned(), state: "open".to_owned(), number }
}

pub(crate) fn memory() -> Store {
    let builder = Store::builder(Memory::new()).model::<Issue>();
    marmota_webhooks::models(builder.changes(ChangeRetention::default())).open().unwrap()
}

/// Starts a worker with options that permit receivers on this machine.
pub(crate) fn start(store: &Store, options: WebhookOptions) -> (Webhooks, WebhookWorker) {
    let webhooks = Webhooks::new(store);
    let worker = webhooks.start(options.allow_private(true)).unwrap();
    (webhooks, worker)
}

pub(crate) fn local() -> WebhookOptions {
    WebhookOptions::new().timeout(Duration::from_secs(2))
}

/// Waits until a condition is true.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < DEADLINE, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn deliveries(webhooks: &Webhooks, name: &str) -> Vec<DeliveryRow> {
    block_on(webhooks.deliveries(name, DeliveryQuery::new().limit(1_000))).unwrap()
}

pub(crate) fn set(webhooks: &Webhooks, webhook: &Webhook) -> Result<()> {
    block_on(webhooks.set(webhook)).map(drop)
}

/// A request as a receiver got it.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Returns the number of the issue after the change.
    pub(crate) fn number(&self) -> i64 {
        self.json()["data"]["after"]["number"].as_i64().unwrap()
    }

    /// Verifies the signature by another implementation of Standard Webhooks.
    pub(crate) fn verify(&self, secret: &str) -> bool {
        let webhook = standardwebhooks::Webhook::new(secret).unwrap();
        let mut headers = http::HeaderMap::new();
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            headers.insert(name, self.header(name).parse().unwrap());
        }
        webhook.verify(self.body.as_bytes(), &headers).is_ok()
    }
}

impl Received {
    /// Returns true for the signature that another implementation makes, at any time.
    pub(crate) fn is_signed(&self, secret: &str) -> bool {
        let webhook = standardwebhooks::Webhook::new(secret).unwrap();
        let seconds = self.header("webhook-timestamp").parse().unwrap();
        let signature = webhook.sign(self.header("webhook-id"), seconds, self.body.as_bytes());
        signature.unwrap() == self.header("webhook-signature")
    }
}

/// A receiver on a free port. It answers with what a function returns: a status with headers.
pub(crate) struct Receiver {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    pub(crate) fn new(answer: impl Fn(&Received) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (list, answer) = (Arc::clone(&received), Arc::new(answer));
        // The thread ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(std::result::Result::ok) {
                let (list, answer) = (Arc::clone(&list), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &list, &*answer));
            }
        });
        Self { url, received }
    }

    /// A receiver that acknowledges everything.
    pub(crate) fn ok() -> Self {
        Self::new(|_| "204 No Content".to_owned())
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.received.lock().unwrap().len()
    }
}

fn serve(stream: TcpStream, list: &Mutex<Vec<Received>>, answer: &dyn Fn(&Received) -> String) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    let mut headers = Vec::new();
    let mut line = String::new();
    // A client that was killed ends the request early.
    while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
        if let Some((name, value)) = line.trim().split_once(": ") {
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        line.clear();
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let Some(length) = length.and_then(|(_, value)| value.parse().ok()) else { return };
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let received = Received { headers, body: String::from_utf8(body).unwrap() };
    let head = answer(&received);
    list.lock().unwrap().push(received);
    let end = if head.contains("\r\n\r\n") {
        ""
    } else {
        "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    };
    let _ = writer.write_all(format!("HTTP/1.1 {head}{end}").as_bytes());
    if head.contains("endless") {
        while writer.write_all(&[b'x'; 64 * 1024]).is_ok() {}
    }
}
