//! A limit on the rate of requests of each client: a token bucket, which empties with each request
//! and fills with time.
//!
//! The buckets are in [`SHARDS`] hash tables, each with a lock, for all threads of the process.
//! Memory is bounded: a full table forgets the clients whose bucket is full, which changes nothing
//! for them, and all clients if that is not enough.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::Response;
use crate::proto::status::Status;
use crate::routing::layer::Layer;

/// Number of tables, so that threads rarely wait for each other.
const SHARDS: usize = 16;
/// Maximum number of clients in a table.
const CLIENTS_MAX: usize = 8 * 1024;

/// Returns the hash by which a request is counted; `None` does not count it.
type KeyOf = dyn Fn(&Request, &RandomState) -> Option<u64> + Send + Sync;

/// A layer that answers clients that send too many requests with 429 and `Retry-After`. The limit
/// holds for all threads of the process together.
///
/// ```
/// use marmota_http::{RateLimit, Router, Status, TestRequest};
///
/// let router = Router::new()
///     .get("/search", |_| async { "found" })
///     // 2 at once, then 5 a second, for each address.
///     .layer(RateLimit::per_address(5.0, 2));
/// for _ in 0..2 {
///     assert_eq!(router.call(TestRequest::get("/search"))?.status(), Status::OK);
/// }
/// let refused = router.call(TestRequest::get("/search"))?;
/// assert_eq!(refused.status(), Status::TOO_MANY_REQUESTS);
/// assert_eq!(refused.header("Retry-After"), Some("1"));
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub struct RateLimit {
    per_second: f64,
    burst: f64,
    key_of: Box<KeyOf>,
    /// With a key of this process, so that no client can choose whose bucket it shares.
    state: RandomState,
    shards: [Mutex<HashMap<u64, Bucket>>; SHARDS],
    started: Instant,
}

/// The requests that a client may send now, and when that was computed.
#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    at_s: f64,
}

impl RateLimit {
    /// Allows `per_second` requests per second for each address, and up to `burst` at once, at
    /// least 1. The address is [`Request::client_ip`], which respects trusted proxies. An IPv6
    /// address counts as its /64 network, because one client usually has all of it. All clients of
    /// Unix sockets share one bucket.
    pub fn per_address(per_second: f64, burst: u32) -> Self {
        Self::by(per_second, burst, |request, state| {
            // All clients of Unix sockets share a bucket.
            Some(match request.client_ip() {
                None => 0,
                Some(IpAddr::V4(address)) => state.hash_one(address),
                Some(IpAddr::V6(address)) => match address.to_ipv4_mapped() {
                    Some(address) => state.hash_one(address),
                    None => state.hash_one(&address.octets()[..8]),
                },
            })
        })
    }

    /// Like [`RateLimit::per_address`], for each value of `key`: a user, a token, a tenant.
    /// Requests for which it returns `None` are not counted.
    ///
    /// ```
    /// use marmota_http::{RateLimit, Router};
    /// let by_user = RateLimit::per(5.0, 20, |request| request.header_text("x-user").map(str::to_owned));
    /// let router = Router::new().get("/", |_| async { "ok" }).layer(by_user);
    /// ```
    pub fn per<F>(per_second: f64, burst: u32, key: F) -> Self
    where
        F: Fn(&Request) -> Option<String> + Send + Sync + 'static,
    {
        Self::by(per_second, burst, move |request, state| {
            key(request).map(|key| state.hash_one(key))
        })
    }

    /// Returns a limit with full buckets.
    fn by<F>(per_second: f64, burst: u32, key_of: F) -> Self
    where
        F: Fn(&Request, &RandomState) -> Option<u64> + Send + Sync + 'static,
    {
        Self {
            per_second: per_second.max(1e-6),
            burst: f64::from(burst.max(1)),
            key_of: Box::new(key_of),
            state: RandomState::new(),
            shards: Default::default(),
            started: Instant::now(),
        }
    }

    /// Takes a request from a client's bucket.
    ///
    /// # Errors
    /// The number of seconds until there is one.
    fn take(&self, key: u64, now_s: f64) -> Result<(), u64> {
        let shard = &self.shards[key as usize % SHARDS];
        let mut clients = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= CLIENTS_MAX && !clients.contains_key(&key) {
            let full = |bucket: &Bucket| {
                bucket.tokens + (now_s - bucket.at_s) * self.per_second >= self.burst
            };
            clients.retain(|_, bucket| !full(bucket));
            if clients.len() >= CLIENTS_MAX {
                clients.clear();
            }
        }
        let bucket = clients.entry(key).or_insert(Bucket { tokens: self.burst, at_s: now_s });
        let earned = (now_s - bucket.at_s).max(0.0) * self.per_second;
        bucket.tokens = (bucket.tokens + earned).min(self.burst);
        bucket.at_s = now_s;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return Ok(());
        }
        Err(((1.0 - bucket.tokens) / self.per_second).ceil().max(1.0) as u64)
    }
}

impl Layer for RateLimit {
    /// Takes a request from the client's bucket, or answers 429.
    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
        let Some(key) = (self.key_of)(request, &self.state) else {
            return ControlFlow::Continue(());
        };
        match self.take(key, self.started.elapsed().as_secs_f64()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(wait_s) => {
                headers.put("Retry-After", wait_s.to_string());
                let detail = format!("too many requests; try again in {wait_s} s");
                ControlFlow::Break(Response::problem(Status::TOO_MANY_REQUESTS, &detail))
            }
        }
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("per_second", &self.per_second)
            .field("burst", &self.burst)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let limit = RateLimit::per_address(2.0, 3);
        for _ in 0..3 {
            assert_eq!(limit.take(7, 0.0), Ok(()));
        }
        assert_eq!(limit.take(7, 0.0), Err(1));
        assert_eq!(limit.take(8, 0.0), Ok(()), "another client has a bucket of its own");
        assert_eq!(limit.take(7, 0.5), Ok(()));
        assert_eq!(limit.take(7, 0.5), Err(1));
        for _ in 0..3 {
            assert_eq!(limit.take(7, 100.0), Ok(()));
        }
        assert_eq!(limit.take(7, 100.0), Err(1));
        assert_eq!(RateLimit::per_address(0.1, 1).take(1, 0.0), Ok(()));
    }

    #[test]
    fn clients_are_bounded() {
        let limit = RateLimit::per_address(1.0, 2);
        for key in 0..1_000_000 {
            let _ = limit.take(key, key as f64 * 1e-6);
        }
        let clients: usize = limit.shards.iter().map(|shard| shard.lock().unwrap().len()).sum();
        assert!(clients <= SHARDS * CLIENTS_MAX, "{clients}");
    }
}
