//! The connections of all subscribers, which one thread reads.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::event::epoll;

use super::target::Running;
use super::writers::Writers;

/// The threads that open connections.
const OPENERS: usize = 4;
/// The bytes at the end of a read in which an event can begin.
const REST_BYTES: usize = 48;
/// The time for the last events.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(20);

/// All subscribers.
pub(super) struct Subscribers {
    epoll: rustix::fd::OwnedFd,
    streams: Vec<(TcpStream, Vec<u8>)>,
    marker: &'static [u8],
    latencies_us: Vec<u32>,
    /// Numbers of the events that came after the writers had ended.
    late: u64,
}

impl Subscribers {
    /// Opens the connections; each has received the first event.
    pub(super) fn open(running: &Running, count: usize, queries: usize) -> Result<Self> {
        let opened = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..OPENERS)
                .map(|thread| {
                    scope.spawn(move || {
                        let numbers = (thread..count).step_by(OPENERS);
                        let open = |number: usize| {
                            let mut stream = running.connect()?;
                            running.subscribe(&mut stream, &format!("t{}", number % queries))?;
                            stream.set_nonblocking(true)?;
                            Ok((stream, Vec::new()))
                        };
                        numbers.map(open).collect::<Result<Vec<_>>>()
                    })
                })
                .collect();
            let ended = threads.into_iter().map(|thread| match thread.join() {
                Ok(streams) => streams,
                Err(_) => anyhow::bail!("a thread panicked"),
            });
            ended.collect::<Result<Vec<_>>>()
        })?;
        let streams: Vec<_> = opened.into_iter().flatten().collect();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (at, (stream, _)) in streams.iter().enumerate() {
            let data = epoll::EventData::new_u64(at as u64);
            epoll::add(&epoll, stream, data, epoll::EventFlags::IN)?;
        }
        let (marker, latencies_us) = (running.marker(), Vec::new());
        Ok(Self { epoll, streams, marker, latencies_us, late: 0 })
    }

    /// Receives events until `end`.
    pub(super) fn follow(&mut self, writers: &Writers, end: Instant) -> Result<()> {
        while Instant::now() < end {
            self.receive(Some(writers))?;
        }
        Ok(())
    }

    /// Receives the remaining events. Their time is not measured: it is that of the slowest before.
    pub(super) fn drain(&mut self, expected: u64) -> Result<()> {
        let end = Instant::now() + DRAIN_TIME_MAX;
        while (self.latencies_us.len() as u64 + self.late) < expected && Instant::now() < end {
            self.receive(None)?;
        }
        let slowest = self.latencies_us.iter().max().copied().unwrap_or_default();
        self.latencies_us.extend((0..self.late).map(|_| slowest));
        Ok(())
    }

    /// Returns the time of each event, in microseconds.
    pub(super) fn into_latencies(self) -> Vec<u32> {
        self.latencies_us
    }

    fn receive(&mut self, writers: Option<&Writers>) -> Result<()> {
        let mut events = Vec::with_capacity(1024);
        let timeout = rustix::fs::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout))?;
        let mut bytes = [0; 16 * 1024];
        for event in events {
            let (stream, rest) = &mut self.streams[event.data.u64() as usize];
            let count = match stream.read(&mut bytes) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            };
            ensure!(count > 0, "the server has closed the connection of a subscriber");
            rest.extend_from_slice(&bytes[..count]);
            let mut at = 0;
            while let Some((number, end)) = number_after(&rest[at..], self.marker) {
                at += end;
                match writers.map(|writers| writers.age_us(number)) {
                    Some(Some(age)) => self.latencies_us.push(age),
                    Some(None) => {}
                    None => self.late += 1,
                }
            }
            let kept = rest.len().saturating_sub(REST_BYTES).max(at);
            rest.drain(..kept);
        }
        Ok(())
    }
}

/// Returns the first number that follows the marker and has an end, with the place after it.
fn number_after(bytes: &[u8], marker: &[u8]) -> Option<(u64, usize)> {
    let start = bytes.windows(marker.len()).position(|part| part == marker)? + marker.len();
    let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let end = start + digits;
    let number = std::str::from_utf8(&bytes[start..end]).ok()?.parse().ok()?;
    (end < bytes.len()).then_some((number, end))
}

#[cfg(test)]
mod tests {
    use super::number_after;

    #[test]
    fn numbers_are_found_when_they_are_complete() {
        assert_eq!(number_after(b"{\"n\":12}", b"\"n\":"), Some((12, 7)));
        assert_eq!(number_after(b"{\"n\":12", b"\"n\":"), None);
        assert_eq!(number_after(b"{\"m\":12}", b"\"n\":"), None);
    }
}
