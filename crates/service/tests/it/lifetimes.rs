//! Which instance answers, on which thread, and how many calls at once: the
//! same body over all lifetimes and executions.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_lite::future::{block_on, yield_now};
use marmota_derive::service;
use marmota_model::{ErrorKind, Result};
use marmota_service::{Client, Execution, Hosted, Lifetime, Services};

#[service]
trait Witness {
    /// The instance's number, the thread's name and the most calls there were
    /// at once.
    async fn seen(&self, pause_ms: u64) -> Result<(usize, String, usize)>;
}

static NEXT: AtomicUsize = AtomicUsize::new(1);

/// Knows which one it is.
struct One {
    number: usize,
    inside: AtomicUsize,
    most: AtomicUsize,
}

impl One {
    fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { number, inside: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }
}

impl Witness for One {
    async fn seen(&self, pause_ms: u64) -> Result<(usize, String, usize)> {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        yield_now().await;
        std::thread::sleep(Duration::from_millis(pause_ms));
        let thread = format!("{:?}", std::thread::current().id());
        self.inside.fetch_sub(1, Ordering::SeqCst);
        Ok((self.number, thread, self.most.load(Ordering::SeqCst)))
    }
}

fn client(hosted: Hosted) -> Client {
    Client::in_process(&Services::new().service(hosted).unwrap())
}

/// What a number of calls saw, each from a thread of its own.
fn seen(client: &Client, calls: usize) -> Vec<(usize, String, usize)> {
    std::thread::scope(|scope| {
        let call = || {
            block_on(async { WitnessClient::new(client).await.unwrap().seen(20).await.unwrap() })
        };
        let threads: Vec<_> = (0..calls).map(|_| scope.spawn(call)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn instances_and_threads_are_as_asked_for() {
    let pool = Execution::Pool(3);
    for execution in [Execution::Inline, Execution::OneAtATime, Execution::OwnThread, pool] {
        for lifetime in [None, Some(Lifetime::Call), Some(Lifetime::Thread)] {
            let hosted = match lifetime {
                None => WitnessService::shared(One::new()),
                Some(lifetime) => WitnessService::per(lifetime, |_| Ok(One::new())),
            };
            let calls = seen(&client(hosted.execution(execution)), 6);
            let case = format!("{execution:?} {lifetime:?} {calls:?}");
            let instances: HashSet<usize> = calls.iter().map(|call| call.0).collect();
            let threads: HashSet<&str> = calls.iter().map(|call| &*call.1).collect();
            let most = calls.iter().map(|call| call.2).max().unwrap();
            match execution {
                Execution::Inline | Execution::OneAtATime => assert_eq!(threads.len(), 6, "{case}"),
                Execution::OwnThread => assert_eq!(threads.len(), 1, "{case}"),
                Execution::Pool(count) => assert!(threads.len() <= count, "{case}"),
            }
            match lifetime {
                None => assert_eq!(instances.len(), 1, "{case}"),
                Some(Lifetime::Call) => assert_eq!((instances.len(), most), (6, 1), "{case}"),
                Some(_) if execution == pool => assert!(instances.len() <= 3, "{case}"),
                Some(_) => assert_eq!(instances.len(), threads.len(), "{case}"),
            }
            if execution == Execution::OneAtATime {
                assert_eq!(most, 1, "{case}");
            }
            let runs_elsewhere = matches!(execution, Execution::OwnThread | Execution::Pool(_));
            let own = format!("{:?}", std::thread::current().id());
            let call = block_on(async {
                let hosted = WitnessService::shared(One::new()).execution(execution);
                WitnessClient::new(&client(hosted)).await.unwrap().seen(0).await.unwrap()
            });
            assert_eq!(call.1 != own, runs_elsewhere, "{case}");
        }
    }
}

#[test]
fn too_many_calls_or_instances_are_refused_as_busy() {
    let few = client(WitnessService::shared(One::new()).calls_max(1));
    block_on(async {
        let witness = WitnessClient::new(&few).await.unwrap();
        let mut first = Box::pin(witness.seen(0));
        assert!(futures_lite::future::poll_once(&mut first).await.is_none());
        assert_eq!(witness.seen(0).await.unwrap_err().kind(), ErrorKind::Busy);
        drop(first);
        witness.seen(0).await.unwrap();
    });
    let each = WitnessService::per(Lifetime::Thread, |_| Ok(One::new())).instances_max(1);
    let each = client(each);
    seen(&each, 1);
    let refused = block_on(async { WitnessClient::new(&each).await.unwrap().seen(0).await });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Busy);
    let each = WitnessService::per(Lifetime::Thread, |_| Ok(One::new()));
    let each = client(each.instances_max(1).idle(Duration::ZERO));
    for _ in 0..3 {
        assert_eq!(seen(&each, 1).len(), 1);
    }
}

#[test]
fn what_nobody_has_is_asked_for() {
    for lifetime in [Lifetime::Session, Lifetime::User, Lifetime::Group] {
        let client = client(WitnessService::per(lifetime, |_| Ok(One::new())));
        let error = block_on(async { WitnessClient::new(&client).await.unwrap().seen(0).await });
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
        assert!(error.message().contains("log in"), "{error}");
    }
}
