//! Writes at a fixed rate, over several connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::target::Running;

const THREADS: u64 = 8;

/// The threads that write, and the times at which writes were sent.
pub(super) struct Writers {
    begun: Instant,
    /// The time of each write, by its number, in microseconds after the begin.
    sent_us: Arc<[AtomicU32]>,
    threads: Vec<JoinHandle<Result<u64>>>,
}

impl Writers {
    /// Starts to write rows at a rate per second, for some time. Each row has a random one of
    /// `topics`, or a topic without subscribers.
    pub(super) fn start(
        running: &Running,
        topics: Option<u64>,
        rate: u64,
        time: Duration,
    ) -> Result<Self> {
        let most = rate * time.as_secs() + rate;
        let sent_us: Arc<[AtomicU32]> = (0..most).map(|_| AtomicU32::new(0)).collect();
        let begun = Instant::now();
        let mut threads = Vec::new();
        for thread in 0..THREADS.min(rate) {
            let mut stream = running.connect()?;
            let requests: Vec<(u64, Vec<u8>)> = (thread..rate * time.as_secs())
                .step_by(THREADS.min(rate) as usize)
                .map(|number| {
                    // The multiplier spreads consecutive writes over the topics.
                    let topic = topics.map(|topics| number.wrapping_mul(2_654_435_761) % topics);
                    let topic = topic.map_or("other".to_owned(), |topic| format!("t{topic}"));
                    (number, running.write(&topic, number))
                })
                .collect();
            let sent_us = Arc::clone(&sent_us);
            threads.push(std::thread::spawn(move || {
                let mut written = 0;
                for (number, request) in requests {
                    let due = begun + Duration::from_secs_f64(number as f64 / rate as f64);
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    if begun.elapsed() > time {
                        break;
                    }
                    let at = begun.elapsed().as_micros() as u32;
                    sent_us[number as usize].store(at.max(1), Ordering::Release);
                    stream.write_all(&request)?;
                    answer(&mut stream)?;
                    written += 1;
                }
                Ok(written)
            }));
        }
        Ok(Self { begun, sent_us, threads })
    }

    /// Returns the time since a write was sent, in microseconds; `None` for an unknown number.
    pub(super) fn age_us(&self, number: u64) -> Option<u32> {
        let sent = self.sent_us.get(number as usize)?.load(Ordering::Acquire);
        (sent > 0).then(|| (self.begun.elapsed().as_micros() as u32).saturating_sub(sent))
    }

    /// Waits for the threads. Returns the number of writes, and the time that they took.
    pub(super) fn join(self) -> Result<(u64, Duration)> {
        let mut written = 0;
        for thread in self.threads {
            written += thread.join().ok().context("a writer panicked")??;
        }
        Ok((written, self.begun.elapsed()))
    }
}

/// Reads one answer, which has a length.
fn answer(stream: &mut TcpStream) -> Result<()> {
    let mut read = Vec::with_capacity(512);
    let mut bytes = [0; 2048];
    loop {
        let count = stream.read(&mut bytes)?;
        ensure!(count > 0, "the server has closed the connection of a writer");
        read.extend_from_slice(&bytes[..count]);
        let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
        ensure!(head.starts_with("http/1.1 2"), "a write failed: {head}");
        let length = head.split("content-length: ").nth(1).context("no length")?;
        let length: usize = length.split("\r\n").next().unwrap_or_default().parse()?;
        if read.len() >= end + 4 + length {
            return Ok(());
        }
    }
}
