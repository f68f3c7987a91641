//! Measures how many deliveries a second reach a receiver on this machine:
//! `cargo run --release -p marmota-webhooks --example throughput [CHANGES]`.
//!
//! Each line is an engine and a receiver, which acknowledges a request after a pause. The time is from
//! the first commit to the last request.
#![allow(clippy::print_stdout, reason = "it prints its result")]

use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use marmota_derive::Model;
use marmota_memory::Memory;
use marmota_sqlite::Sqlite;
use marmota_store::action::block_on;
use marmota_store::change::ChangeRetention;
use marmota_store::{Store, StoreBuilder};
use marmota_webhooks::{Webhook, WebhookOptions, Webhooks};

/// Rows of one commit.
const ROWS_OF_COMMIT: usize = 100;
const DEADLINE: Duration = Duration::from_secs(600);

#[derive(Clone, Debug, Model)]
struct Issue {
    id: i64,
    title: String,
    state: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let changes = std::env::args().nth(1).map_or(Ok(5_000), |count| count.parse())?;
    println!("| engine | pause of the receiver | changes | time | deliveries a second |");
    println!("|---|---|---|---|---|");
    for pause in [0, 10] {
        let pause = Duration::from_millis(pause);
        line("memory", pause, changes, Store::builder(Memory::new()))?;
        let folder = tempfile::tempdir()?;
        let url = format!("sqlite:{}", folder.path().join("issues.db").display());
        line("SQLite, durable", pause, changes, Store::builder(Sqlite::from_url(&url)?))?;
    }
    Ok(())
}

/// Measures one engine and receiver, and prints the result.
fn line(
    name: &str,
    pause: Duration,
    changes: usize,
    builder: StoreBuilder,
) -> Result<(), Box<dyn Error>> {
    let builder = builder.model::<Issue>().changes(ChangeRetention::default());
    let store = marmota_webhooks::models(builder).open()?;
    let (url, received) = receiver(pause)?;
    let webhooks = Webhooks::new(&store);
    block_on(webhooks.set(&Webhook::new("local", &url, "issue")))?;
    let worker = webhooks.start(WebhookOptions::new().allow_private(true))?;
    let issue = Issue { id: 0, title: "Whistle".to_owned(), state: "open".to_owned() };
    let begun = Instant::now();
    for _ in 0..changes.div_ceil(ROWS_OF_COMMIT) {
        store.insert_many(&vec![issue.clone(); ROWS_OF_COMMIT]).run()?;
    }
    let sent = changes.div_ceil(ROWS_OF_COMMIT) * ROWS_OF_COMMIT;
    while received.load(Ordering::Acquire) < sent {
        if begun.elapsed() > DEADLINE {
            return Err(
                format!("only {} of {sent} arrived", received.load(Ordering::Acquire)).into()
            );
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let seconds = begun.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss, reason = "it is a figure to read")]
    let rate = sent as f64 / seconds;
    println!("| {name} | {} ms | {sent} | {seconds:.2} s | {rate:.0} |", pause.as_millis());
    worker.stop()?;
    store.close()?;
    Ok(())
}

/// Starts a receiver, whose threads end with the process; returns its URL and the number of requests.
fn receiver(pause: Duration) -> std::io::Result<(String, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/hook", listener.local_addr()?);
    let received = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&received);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let counter = Arc::clone(&counter);
            std::thread::spawn(move || serve(&stream, pause, &counter));
        }
    });
    Ok((url, received))
}

/// Acknowledges the requests of one connection until it is closed.
fn serve(mut stream: &TcpStream, pause: Duration, counter: &AtomicUsize) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line).ok()? > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().ok()?;
            }
            line.clear();
        }
        if line.is_empty() {
            return None;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        std::thread::sleep(pause);
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
        counter.fetch_add(1, Ordering::AcqRel);
    }
}
