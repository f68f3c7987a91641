//! How fast streams pass, by each transport, and how much memory they take: 1 GiB and a million
//! numbers each way, between client and server of one process.
//!
//! `cargo run --release -p marmota-service --example flow`
#![allow(clippy::unwrap_used, reason = "it is a measurement")]

use std::future::Future;
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use futures_lite::stream;
use marmota_derive::service;
use marmota_http::Server;
use marmota_model::Result;
use marmota_service::{ByteStream, Client, ItemStream, Services};

const BYTES: u64 = 1 << 30;
const PIECE_BYTES: u64 = 16 * 1024;
const ITEMS: u64 = 1_000_000;
const CALLS: u64 = 2_000;

#[service]
trait Flow {
    async fn echo(&self, number: u64) -> Result<u64>;
    async fn get(&self, bytes: u64) -> Result<ByteStream>;
    async fn put(&self, content: ByteStream) -> Result<u64>;
    async fn count(&self, to: u64) -> Result<ItemStream<u64>>;
    async fn sum(&self, numbers: ItemStream<u64>) -> Result<u64>;
}

struct Plain;

fn bytes(count: u64) -> ByteStream {
    let pieces = (0..count / PIECE_BYTES).map(|_| Ok(vec![7; PIECE_BYTES as usize]));
    ByteStream::new(stream::iter(pieces))
}

async fn length(mut content: ByteStream) -> Result<u64> {
    let mut count = 0;
    while let Some(piece) = content.try_next().await? {
        count += piece.len() as u64;
    }
    Ok(count)
}

async fn sum(mut numbers: ItemStream<u64>) -> Result<u64> {
    let mut sum = 0;
    while let Some(number) = numbers.try_next().await? {
        sum += number;
    }
    Ok(sum)
}

impl Flow for Plain {
    async fn echo(&self, number: u64) -> Result<u64> {
        Ok(number)
    }

    async fn get(&self, count: u64) -> Result<ByteStream> {
        Ok(bytes(count))
    }

    async fn put(&self, content: ByteStream) -> Result<u64> {
        length(content).await
    }

    async fn count(&self, to: u64) -> Result<ItemStream<u64>> {
        Ok(ItemStream::iter(0..to))
    }

    async fn sum(&self, numbers: ItemStream<u64>) -> Result<u64> {
        sum(numbers).await
    }
}

/// How long it takes, and that it is right.
async fn timed(work: impl Future<Output = Result<u64>>, wanted: u64) -> Duration {
    let begun = Instant::now();
    assert_eq!(work.await.unwrap(), wanted);
    begun.elapsed()
}

/// The most memory that the process has had, in MiB.
fn memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

async fn measure(name: &str, client: &Client) {
    let flow = FlowClient::new(client).await.unwrap();
    let echoes = async {
        for number in 0..CALLS {
            flow.echo(number).await?;
        }
        Ok(0)
    };
    let echo = timed(echoes, 0).await / CALLS as u32;
    let get = timed(async { length(flow.get(BYTES).await?).await }, BYTES).await;
    let put = timed(flow.put(bytes(BYTES)), BYTES).await;
    let total = (0..ITEMS).sum();
    let count = timed(async { sum(flow.count(ITEMS).await?).await }, total).await;
    let summed = timed(flow.sum(ItemStream::iter(0..ITEMS)), total).await;
    let rate = |amount: u64, time: Duration| amount as f64 / time.as_secs_f64() / 1e6;
    println!(
        "{name:12} a call {echo:>10.1?}, result {:>6.0} MB/s and {:>5.2} M items/s, parameter {:>6.0} \
         MB/s and {:>5.2} M items/s, {} MiB at most",
        rate(BYTES, get),
        rate(ITEMS, count),
        rate(BYTES, put),
        rate(ITEMS, summed),
        memory_mib()
    );
}

fn main() {
    let services = Services::new().service(FlowService::shared(Plain)).unwrap();
    let name = format!("@marmota-flow-{}", std::process::id());
    let server = Server::bind("127.0.0.1:0").unwrap().also_bind(format!("unix:{name}")).unwrap();
    let server = server.listeners(1).start(services.router()).unwrap();
    let host = server.addresses()[0].to_string();
    block_on(measure("in process", &Client::in_process(&services)));
    for (kind, url) in [
        ("unix", format!("unix:{name}")),
        ("http", format!("http://{host}/api")),
        ("ws", format!("ws://{host}/api")),
    ] {
        block_on(measure(kind, &Client::connect(&url).unwrap()));
    }
    server.shutdown().unwrap();
}
