//! Virtual users, as in the load of the public challenge: each requests one route after the other on a
//! separate connection, and reads the answers.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long a user waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How far from one another users begin in the list of routes.
const STRIDE: usize = 37;

/// What the users have seen.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) requests: u64,
    /// What was wrong with those that have failed: no answer, or not the right one.
    pub(crate) failures: Vec<String>,
    /// How long each answer took, in order of length once all have ended.
    waits_ms: Vec<f64>,
}

impl Seen {
    /// So many of 100 answers took no longer, milliseconds.
    pub(crate) fn wait_ms(&self, per_cent: usize) -> f64 {
        let last = self.waits_ms.len().saturating_sub(1);
        self.waits_ms.get(last * per_cent / 100).copied().unwrap_or(f64::NAN)
    }
}

/// Has `users` ask for `routes`, each with the bytes of its answer, for some time.
pub(crate) fn run(port: u16, routes: &[(String, usize)], users: u32, time: Duration) -> Seen {
    let (all, end) = (Mutex::new(Seen::default()), Instant::now() + time);
    std::thread::scope(|scope| {
        for user in 0..users as usize {
            let all = &all;
            scope.spawn(move || {
                let mut seen = Seen::default();
                let agent = agent();
                for (route, bytes) in routes.iter().cycle().skip(user * STRIDE % routes.len()) {
                    if Instant::now() >= end {
                        break;
                    }
                    seen.ask(&agent, &format!("http://127.0.0.1:{port}/schedules/{route}"), *bytes);
                }
                if let Ok(mut all) = all.lock() {
                    all.requests += seen.requests;
                    all.failures.append(&mut seen.failures);
                    all.waits_ms.append(&mut seen.waits_ms);
                }
            });
        }
    });
    let mut seen = all.into_inner().unwrap_or_default();
    seen.waits_ms.sort_by(f64::total_cmp);
    seen
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    config.timeout_global(Some(PATIENCE)).build().into()
}

impl Seen {
    fn ask(&mut self, agent: &ureq::Agent, url: &str, bytes: usize) {
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
        let ask = |bytes| {
            let mut seen = Seen::default();
            seen.ask(&agent(), &format!("http://127.0.0.1:{port}/schedules/Red"), bytes);
            (seen.failures.len(), seen.waits_ms.len())
        };
        assert_eq!([ask(2), ask(3)], [(0, 1), (1, 0)]);
        let seen = run(port, &[("Red".into(), 2)], 3, Duration::ZERO);
        assert_eq!((seen.requests, seen.failures.len()), (0, 0));
    }

    #[test]
    fn waits_are_told_by_their_share() {
        let seen = Seen { waits_ms: (0..=100).map(f64::from).collect(), ..Seen::default() };
        assert_eq!([seen.wait_ms(95), seen.wait_ms(100)], [95.0, 100.0]);
        assert!(Seen::default().wait_ms(95).is_nan());
    }
}
