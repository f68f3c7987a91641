//! Clients that come, ask and leave at any moment.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::serving::{Serving, normal_rate};
use crate::{GET, Outcome, UPGRADE};

/// Connects, asks and leaves at any moment.
pub(crate) fn churn(server: &Serving, clients: usize, time: Duration) -> Outcome<()> {
    normal_rate(server, Duration::from_secs(2))?;
    server.tell("at the start")?;
    let (begun, rounds) = (Instant::now(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..clients as u64 {
            let rounds = &rounds;
            scope.spawn(move || {
                let mut state = seed + 1;
                let mut random = move |below: u64| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state % below
                };
                let post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n";
                let post = [&post[..], &[b'b'; 5_000]].concat();
                while begun.elapsed() < time {
                    let request = match random(4) {
                        0 => GET,
                        1 => b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
                        2 => UPGRADE,
                        _ => &post,
                    };
                    let Ok(mut stream) = server.connect() else { continue };
                    let length = request.len() as u64;
                    let cut = if random(2) == 0 { length } else { random(length.min(60)) };
                    let _ = stream.write_all(&request[..cut as usize]);
                    if cut as usize == request.len() {
                        let _ = stream.read(&mut [0; 1000]);
                    }
                    match random(3) {
                        0 => drop(stream.shutdown(Shutdown::Write)),
                        1 => std::thread::sleep(Duration::from_millis(random(20))),
                        _ => {}
                    }
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    println!("{} connections", rounds.load(Ordering::Relaxed));
    std::thread::sleep(Duration::from_secs(5));
    server.tell("afterwards")
}
