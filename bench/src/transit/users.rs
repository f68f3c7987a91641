//! Virtual users, as in the load of the public challenge: each requests one route after the other on a
//! separate connection, and reads the answers.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The distance between the starting positions of two users in the list of routes.
const STRIDE: usize = 37;

/// The requests of the virtual users.
#[derive(Clone, Default)]
pub(crate) struct UserStats {
    pub(crate) requests: u64,
    /// A description of each failed request: no response, or a wrong one.
    pub(crate) failures: Vec<String>,
    /// The duration of each successful request, sorted at the end.
    waits_ms: Vec<f64>,
}

impl UserStats {
    /// Returns a percentile of the durations, in milliseconds; NaN without requests.
    pub(crate) fn wait_ms(&self, per_cent: usize) -> f64 {
        let last = self.waits_ms.len().saturating_sub(1);
        self.waits_ms.get(last * per_cent / 100).copied().unwrap_or(f64::NAN)
    }
}

/// Runs `users` users for `time`. Each route has the expected length of its response.
pub(crate) fn run(port: u16, routes: &[(String, usize)], users: u32, time: Duration) -> UserStats {
    let (all, end) = (Mutex::new(UserStats::default()), Instant::now() + time);
    std::thread::scope(|scope| {
        for user in 0..users as usize {
            let all = &all;
            scope.spawn(move || {
                let mut stats = UserStats::default();
                let agent = agent();
                for (route, bytes) in routes.iter().cycle().skip(user * STRIDE % routes.len()) {
                    if Instant::now() >= end {
                        break;
                    }
                    stats.request(
                        &agent,
                        &format!("http://127.0.0.1:{port}/schedules/{route}"),
                        *bytes,
                    );
                }
                if let Ok(mut all) = all.lock() {
                    all.requests += stats.requests;
                    all.failures.append(&mut stats.failures);
                    all.waits_ms.append(&mut stats.waits_ms);
                }
            });
        }
    });
    let mut stats = all.into_inner().unwrap_or_default();
    stats.waits_ms.sort_by(f64::total_cmp);
    stats
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    config.timeout_global(Some(TIMEOUT)).build().into()
}

impl UserStats {
    fn request(&mut self, agent: &ureq::Agent, url: &str, bytes: usize) {
        let begun = Instant::now();
        self.requests += 1;
        match answer(agent, url) {
            Ok((200, body)) if body.len() == bytes && body.ends_with(b"]") => {
                self.waits_ms.push(begun.elapsed().as_secs_f64() * 1e3);
            }
            Ok((status, body)) => {
                let of = format!("{} bytes instead of {bytes}", body.len());
                self.failures.push(format!("{url}: status {status}, {of}"));
            }
            Err(error) => self.failures.push(format!("{url}: {error}")),
        }
    }
}

fn answer(agent: &ureq::Agent, url: &str) -> Result<(u16, Vec<u8>), ureq::Error> {
    let answer = agent.get(url).call()?;
    let status = answer.status().as_u16();
    let body =
        answer.into_body().into_with_config().limit(super::ANSWER_BYTES_MAX).read_to_vec()?;
    Ok((status, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    #[test]
    fn wrong_answers_are_failures() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for mut client in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    while let Ok(1..) = client.read(&mut [0; 4096]) {
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]";
                        if client.write_all(answer).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        let request = |bytes| {
            let mut stats = UserStats::default();
            stats.request(&agent(), &format!("http://127.0.0.1:{port}/schedules/Red"), bytes);
            (stats.failures.len(), stats.waits_ms.len())
        };
        assert_eq!([request(2), request(3)], [(0, 1), (1, 0)]);
        let stats = run(port, &[("Red".into(), 2)], 3, Duration::ZERO);
        assert_eq!((stats.requests, stats.failures.len()), (0, 0));
    }

    #[test]
    fn percentiles_of_the_waits() {
        let stats =
            UserStats { waits_ms: (0..=100).map(f64::from).collect(), ..UserStats::default() };
        assert_eq!([stats.wait_ms(95), stats.wait_ms(100)], [95.0, 100.0]);
        assert!(UserStats::default().wait_ms(95).is_nan());
    }
}
