//! Streams that are slow, given up, broken or late: by all transports.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_lite::future::{block_on, poll_once};
use futures_lite::stream;
use marmota_derive::service;
use marmota_http::Server;
use marmota_model::{Error, ErrorKind, Result};
use marmota_service::{ByteStream, Client, Execution, Hosted, ItemSender, ItemStream, Services};

use crate::proxy::Proxy;
use crate::streams::{Disk, FilesClient, services};
use crate::transports::everywhere;

/// More items than can be between a sender and its receiver: a window, and what is gathered on
/// both sides of it, at two bytes each.
const AHEAD_MAX: usize = 100_000;
const MANY: u64 = 1_000_000;

use crate::streams::Files as _;

/// A number reaches what it should; an end without it is a test that hangs.
#[track_caller]
pub(crate) fn reaches(count: &AtomicUsize, wanted: usize, case: &str) {
    let begun = Instant::now();
    while count.load(Ordering::SeqCst) != wanted {
        assert!(begun.elapsed() < Duration::from_secs(120), "{case}: {count:?} for {wanted}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits at a gate before all but the first item.
#[service]
trait Gate {
    async fn sum(&self, numbers: ItemStream<u64>) -> Result<u64>;
    /// The first item, and no other is taken.
    async fn first(&self, numbers: ItemStream<u64>) -> Result<Option<u64>>;
    /// What a stream ends with, as the method sees it.
    async fn end(&self, numbers: ItemStream<u64>) -> Result<String>;
    async fn open(&self) -> Result<()>;
    /// One number, and none for ever.
    async fn endless(&self) -> Result<ItemStream<u64>>;
    async fn panicking(&self, items: u64) -> Result<ItemStream<u64>>;
}

#[derive(Clone)]
pub(crate) struct Keeper {
    gate: (async_channel::Sender<()>, async_channel::Receiver<()>),
    kept: Arc<std::sync::Mutex<Vec<ItemSender<u64>>>>,
    pub(crate) inside: Arc<AtomicUsize>,
    /// What the last stream ended with.
    ended: Arc<std::sync::Mutex<Option<ErrorKind>>>,
}

struct Inside(Arc<AtomicUsize>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Keeper {
    pub(crate) fn new() -> Self {
        Self {
            gate: async_channel::bounded(1),
            kept: Arc::default(),
            inside: Arc::default(),
            ended: Arc::default(),
        }
    }

    pub(crate) fn hosted(&self) -> Hosted {
        GateService::shared(self.clone()).execution(Execution::Pool(2))
    }

    fn served(&self) -> Services {
        Services::new().service(self.hosted()).unwrap()
    }
}

impl Gate for Keeper {
    async fn sum(&self, mut numbers: ItemStream<u64>) -> Result<u64> {
        let mut sum = numbers.try_next().await?.unwrap_or_default();
        self.gate.1.recv().await.unwrap();
        while let Some(number) = numbers.try_next().await? {
            sum += number;
        }
        Ok(sum)
    }

    async fn first(&self, mut numbers: ItemStream<u64>) -> Result<Option<u64>> {
        numbers.try_next().await
    }

    async fn end(&self, mut numbers: ItemStream<u64>) -> Result<String> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let _inside = Inside(Arc::clone(&self.inside));
        loop {
            match numbers.try_next().await {
                Ok(Some(_)) => {}
                Ok(None) => return Ok("its end".to_owned()),
                Err(error) => {
                    *self.ended.lock().unwrap() = Some(error.kind());
                    return Ok(format!("{:?}", error.kind()));
                }
            }
        }
    }

    async fn open(&self) -> Result<()> {
        self.gate.0.send(()).await.unwrap();
        Ok(())
    }

    async fn endless(&self) -> Result<ItemStream<u64>> {
        let (sender, items) = ItemStream::channel(1);
        sender.send(1).await?;
        self.kept.lock().unwrap().push(sender);
        Ok(items)
    }

    async fn panicking(&self, items: u64) -> Result<ItemStream<u64>> {
        Ok(ItemStream::iter((0..).inspect(move |number| assert!(*number < items, "on purpose"))))
    }
}

#[test]
fn a_slow_receiver_holds_back_the_sender_and_nobody_else() {
    let disk = Disk::default();
    let (server, clients) = everywhere(&services(&disk));
    for (case, client) in clients {
        disk.0.made.store(0, Ordering::SeqCst);
        let made = || disk.0.made.load(Ordering::SeqCst);
        block_on(async {
            let files = FilesClient::new(&client).await.unwrap();
            let mut numbers = files.count(MANY).await.unwrap();
            assert_eq!(numbers.try_next().await.unwrap(), Some(0), "{case}");
            for turn in 0..50 {
                assert_eq!(files.echo(turn.to_string()).await.unwrap(), turn.to_string(), "{case}");
            }
            assert!(made() < AHEAD_MAX, "{case}: {} were made for one", made());
            // Another stream is not held up.
            let others = files.count(10_000).await.unwrap().collect(10_000).await.unwrap();
            assert_eq!(others.len(), 10_000, "{case}");
            for wanted in 1..MANY {
                assert_eq!(numbers.try_next().await.unwrap(), Some(wanted), "{case}");
                let ahead = made() - wanted as usize;
                assert!(ahead < AHEAD_MAX + 10_000, "{case}: {ahead} are ahead at {wanted}");
            }
            assert_eq!(numbers.try_next().await.unwrap(), None, "{case}");
            disk.0.made.store(0, Ordering::SeqCst);
            let (mut bytes, mut taken) = (files.get(20_000_000).await.unwrap(), 0);
            while let Some(piece) = bytes.try_next().await.unwrap() {
                taken += piece.len();
                let ahead = made() * 1_000 - taken;
                assert!(ahead < 2 * AHEAD_MAX, "{case}: {ahead} bytes are ahead at {taken}");
            }
            assert_eq!(taken, 20_000_000, "{case}");
        });
        reaches(&disk.0.open, 0, &case);
    }
    server.shutdown().unwrap();
}

#[test]
fn a_slow_method_holds_back_its_caller() {
    let keeper = Keeper::new();
    let (server, clients) = everywhere(&keeper.served());
    for (case, client) in clients {
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        let numbers = ItemStream::iter((0..MANY / 4).inspect(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        }));
        block_on(async {
            let gate = GateClient::new(&client).await.unwrap();
            let mut sum = Box::pin(gate.sum(numbers));
            for _ in 0..50 {
                assert!(poll_once(&mut sum).await.is_none(), "{case}");
                let first = gate.first(ItemStream::iter(7..MANY)).await.unwrap();
                assert_eq!(first, Some(7), "{case}");
            }
            let ahead = made.load(Ordering::SeqCst);
            assert!(ahead < AHEAD_MAX, "{case}: {ahead} were made for one");
            gate.open().await.unwrap();
            assert_eq!(sum.await.unwrap(), (0..MANY / 4).sum::<u64>(), "{case}");
        });
    }
    server.shutdown().unwrap();
}

#[test]
fn what_nobody_takes_is_not_made_and_the_connection_goes_on() {
    let disk = Disk::default();
    let (server, clients) = everywhere(&services(&disk));
    for (case, client) in clients {
        block_on(async {
            let files = FilesClient::new(&client).await.unwrap();
            for _ in 0..100 {
                // More at once than there may be, were they not ended.
                let mut numbers = files.count(u64::MAX).await.unwrap();
                assert_eq!(numbers.try_next().await.unwrap(), Some(0), "{case}");
                drop(numbers);
                drop(files.get(u64::MAX).await.unwrap());
                drop(files.doubled(ItemStream::iter(0..)).await.unwrap());
            }
            // Given up before its answer came, or behind it.
            for _ in 0..20 {
                let mut call = Box::pin(files.count(u64::MAX));
                let _ = poll_once(&mut call).await;
                drop(call);
                let mut call = Box::pin(files.sum(ItemStream::iter(0..)));
                assert!(poll_once(&mut call).await.is_none(), "{case}");
                drop(call);
            }
            assert_eq!(files.echo("a".to_owned()).await.unwrap(), "a", "{case}");
            let numbers = files.count(30_000).await.unwrap().collect(30_000).await.unwrap();
            assert_eq!(numbers.len(), 30_000, "{case}");
        });
        reaches(&disk.0.open, 0, &case);
    }
    server.shutdown().unwrap();
}

#[test]
fn a_caller_that_goes_is_told_to_the_method() {
    let keeper = Keeper::new();
    let (server, clients) = everywhere(&keeper.served());
    for (case, client) in clients.into_iter().skip(1) {
        block_on(async {
            let gate = GateClient::new(&client).await.unwrap();
            let (sender, numbers) = ItemStream::channel(1);
            sender.send(1).await.unwrap();
            let mut end = Box::pin(gate.end(numbers));
            while keeper.inside.load(Ordering::SeqCst) == 0 {
                assert!(poll_once(&mut end).await.is_none(), "{case}");
                std::thread::yield_now();
            }
            drop(end);
            reaches(&keeper.inside, 0, &case);
            assert_eq!(keeper.ended.lock().unwrap().take(), Some(ErrorKind::Lost), "{case}");
            assert_eq!(sender.send(2).await.unwrap_err().kind(), ErrorKind::Closed, "{case}");
        });
    }
    server.shutdown().unwrap();
}

#[test]
fn an_error_in_the_middle_comes_behind_the_items_before_it() {
    let disk = Disk::default();
    let both = services(&disk).service(GateService::shared(Keeper::new())).unwrap();
    let (server, clients) = everywhere(&both);
    for (case, client) in clients {
        block_on(async {
            let files = FilesClient::new(&client).await.unwrap();
            for items in [0, 1, 40_000] {
                let mut numbers = files.breaking(items).await.unwrap();
                for wanted in 0..items {
                    assert_eq!(numbers.try_next().await.unwrap(), Some(wanted), "{case}");
                }
                let error = numbers.try_next().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Stale, "{case}");
                assert_eq!(error.message(), format!("{items} are enough"), "{case}");
                assert_eq!(numbers.try_next().await.unwrap(), None, "{case}");
            }
            let broken = || Error::new(ErrorKind::Conflict, "no more");
            let numbers = ItemStream::try_iter((0..30_000).map(Ok).chain([Err(broken())]));
            let error = files.sum(numbers).await.unwrap_err();
            assert_eq!((error.kind(), error.message()), (ErrorKind::Conflict, "no more"), "{case}");
            let bytes = ByteStream::new(stream::iter([Ok(vec![1; 9]), Err(broken())]));
            let error = files.put("a".to_owned(), bytes).await.unwrap_err();
            assert_eq!((error.kind(), error.message()), (ErrorKind::Conflict, "no more"), "{case}");
            let gate = GateClient::new(&client).await.unwrap();
            let mut numbers = gate.panicking(30_000).await.unwrap();
            let error = loop {
                if let Err(error) = numbers.try_next().await {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::Bug, "{case}");
            assert!(error.message().starts_with("gate.panicking: "), "{case} {error}");
        });
    }
    server.shutdown().unwrap();
}

#[test]
fn a_connection_that_breaks_is_no_end() {
    let keeper = Keeper::new();
    let disk = Disk::default();
    let both = services(&disk).service(GateService::shared(keeper.clone())).unwrap();
    let unix = format!("marmota-streams-{}", std::process::id());
    let server = Server::bind("127.0.0.1:0").unwrap().also_bind(format!("unix:@{unix}")).unwrap();
    let server = server.listeners(1).start(both.router()).unwrap();
    let net = Proxy::net(&server.addresses()[0].to_string());
    let local = Proxy::unix(&format!("@{unix}"));
    for (proxy, url) in [
        (&net, format!("http://{}/api", net.address)),
        (&net, format!("ws://{}/api", net.address)),
        (&local, format!("unix:{}", local.address)),
    ] {
        let client = Client::connect(&url).unwrap();
        block_on(async {
            let files = FilesClient::new(&client).await.unwrap();
            let gate = GateClient::new(&client).await.unwrap();
            let mut endless = gate.endless().await.unwrap();
            let mut many = files.count(u64::MAX).await.unwrap();
            assert_eq!(endless.try_next().await.unwrap(), Some(1), "{url}");
            assert_eq!(many.try_next().await.unwrap(), Some(0), "{url}");
            let (_sender, numbers) = ItemStream::channel(1);
            let mut end = Box::pin(gate.end(numbers));
            while keeper.inside.load(Ordering::SeqCst) == 0 {
                assert!(poll_once(&mut end).await.is_none(), "{url}");
                std::thread::yield_now();
            }
            proxy.cut();
            let error = endless.try_next().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Lost, "{url} {error}");
            let error = loop {
                // What has come before is not lost.
                if let Err(error) = many.try_next().await {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::Lost, "{url} {error}");
            assert_eq!(end.await.unwrap_err().kind(), ErrorKind::Lost, "{url}");
            reaches(&keeper.inside, 0, &url);
            reaches(&disk.0.open, 0, &url);
            // The next connection has streams of its own.
            let numbers = files.count(30_000).await.unwrap().collect(30_000).await.unwrap();
            assert_eq!(numbers.len(), 30_000, "{url}");
        });
    }
    server.shutdown().unwrap();
}

#[test]
fn time_without_progress_is_an_error_on_either_side() {
    let keeper = Keeper::new();
    let disk = Disk::default();
    let both = services(&disk).service(GateService::shared(keeper.clone())).unwrap();
    let (server, clients) = everywhere(&both.stream_timeout(Duration::from_millis(50)));
    for (case, client) in clients.into_iter().skip(1) {
        block_on(async {
            let gate = GateClient::new(&client).await.unwrap();
            // The caller sends nothing more.
            let (sender, numbers) = ItemStream::channel(1);
            sender.send(1).await.unwrap();
            assert_eq!(gate.end(numbers).await.unwrap(), "Timeout", "{case}");
            drop(sender);
            // The caller takes nothing more.
            let files = FilesClient::new(&client).await.unwrap();
            let mut numbers = files.count(u64::MAX).await.unwrap();
            reaches(&disk.0.open, 0, &case);
            let error = loop {
                if let Err(error) = numbers.try_next().await {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::Timeout, "{case} {error}");
            // The method gives nothing more.
            let hasty = client.clone().deadline(Duration::from_millis(50));
            let mut endless = loop {
                match GateClient::new(&hasty).await {
                    Ok(gate) => match gate.endless().await {
                        Ok(endless) => break endless,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{case}"),
                    },
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{case}"),
                }
            };
            let first = endless.try_next().await;
            if let Ok(first) = first {
                assert_eq!(first, Some(1), "{case}");
                let error = endless.try_next().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Timeout, "{case} {error}");
            }
            assert_eq!(files.echo("a".to_owned()).await.unwrap(), "a", "{case}");
        });
    }
    server.shutdown().unwrap();
}
