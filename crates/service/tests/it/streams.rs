//! Streams of bytes and items as parameters and results, the same by all transports.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_lite::future::block_on;
use futures_lite::stream::{self, StreamExt as _};
use marmota_derive::service;
use marmota_http::Server;
use marmota_model::{Error, ErrorKind, Result};
use marmota_service::{ByteStream, Call, Client, Execution, ItemStream, Services};

use crate::transports::everywhere;

#[service]
pub(crate) trait Files {
    async fn put(&self, name: String, content: ByteStream) -> Result<u64>;
    async fn get(&self, bytes: u64) -> Result<ByteStream>;
    async fn count(&self, to: u64) -> Result<ItemStream<u64>>;
    async fn sum(&self, numbers: ItemStream<i64>) -> Result<i64>;
    async fn doubled(&self, numbers: ItemStream<i64>) -> Result<ItemStream<i64>>;
    /// So many numbers, and an error behind them.
    async fn breaking(&self, items: u64) -> Result<ItemStream<u64>>;
    /// Both in one call.
    async fn both(&self, first: ItemStream<i64>, second: ByteStream) -> Result<(i64, u64)>;
    async fn echo(&self, text: String) -> Result<String>;
    /// Doubled by the caller's own service.
    async fn by_caller(&self, numbers: ItemStream<i64>) -> Result<ItemStream<i64>>;
}

#[service]
trait Doubling {
    async fn double(&self, numbers: ItemStream<i64>) -> Result<ItemStream<i64>>;
}

/// Counts what its streams have made, and how many of them are open.
#[derive(Clone, Default)]
pub(crate) struct Disk(pub(crate) Arc<Seen>);

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) made: AtomicUsize,
    pub(crate) open: AtomicUsize,
}

struct Open(Arc<Seen>);

impl Open {
    fn new(seen: &Arc<Seen>) -> Self {
        seen.open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(seen))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Files for Disk {
    async fn put(&self, name: String, mut content: ByteStream) -> Result<u64> {
        let mut sum = name.len() as u64;
        while let Some(piece) = content.try_next().await? {
            sum += piece.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        }
        Ok(sum)
    }

    async fn get(&self, bytes: u64) -> Result<ByteStream> {
        let open = Open::new(&self.0);
        let pieces = std::iter::successors(Some(bytes), |left| left.checked_sub(1_000));
        let pieces = pieces.take_while(|left| *left > 0).map(move |left| {
            open.0.made.fetch_add(1, Ordering::SeqCst);
            Ok(vec![7; left.min(1_000) as usize])
        });
        Ok(ByteStream::new(stream::iter(pieces)))
    }

    async fn count(&self, to: u64) -> Result<ItemStream<u64>> {
        let open = Open::new(&self.0);
        Ok(ItemStream::iter((0..to).inspect(move |_| {
            open.0.made.fetch_add(1, Ordering::SeqCst);
        })))
    }

    async fn sum(&self, mut numbers: ItemStream<i64>) -> Result<i64> {
        let mut sum = 0;
        while let Some(number) = numbers.try_next().await? {
            sum += number;
        }
        Ok(sum)
    }

    async fn doubled(&self, numbers: ItemStream<i64>) -> Result<ItemStream<i64>> {
        Ok(ItemStream::new(numbers.map(|number| number.map(|number| number * 2))))
    }

    async fn breaking(&self, items: u64) -> Result<ItemStream<u64>> {
        let error = Error::new(ErrorKind::Stale, format!("{items} are enough"));
        Ok(ItemStream::try_iter((0..items).map(Ok).chain([Err(error)])))
    }

    async fn both(&self, first: ItemStream<i64>, second: ByteStream) -> Result<(i64, u64)> {
        // The second is taken first.
        let bytes = second.collect(1 << 20).await?.len() as u64;
        Ok((self.sum(first).await?, bytes))
    }

    async fn echo(&self, text: String) -> Result<String> {
        Ok(text)
    }

    async fn by_caller(&self, numbers: ItemStream<i64>) -> Result<ItemStream<i64>> {
        let client = Call::current().and_then(|call| call.client()).unwrap();
        DoublingClient::new(&client).await?.double(numbers).await
    }
}

impl Doubling for Disk {
    async fn double(&self, numbers: ItemStream<i64>) -> Result<ItemStream<i64>> {
        self.doubled(numbers).await
    }
}

pub(crate) fn services(disk: &Disk) -> Services {
    let hosted = FilesService::shared(disk.clone()).execution(Execution::Pool(2));
    Services::new().service(hosted).unwrap()
}

async fn files(client: &Client) -> FilesClient {
    FilesClient::new(client).await.unwrap()
}

#[test]
fn streams_pass_both_ways_by_all_transports() {
    for execution in [Execution::Inline, Execution::OneAtATime, Execution::OwnThread] {
        let hosted = FilesService::shared(Disk::default()).execution(execution);
        let services = Services::new().service(hosted).unwrap();
        let (server, clients) = everywhere(&services);
        for (case, client) in clients {
            block_on(async {
                let files = files(&client).await;
                let sum = files.put("abc".to_owned(), ByteStream::from(vec![1; 300_000]));
                assert_eq!(sum.await.unwrap(), 300_003, "{case}");
                let bytes = files.get(200_500).await.unwrap().collect(200_500).await.unwrap();
                assert!(bytes.len() == 200_500 && bytes.iter().all(|&byte| byte == 7), "{case}");
                let numbers = files.count(50_000).await.unwrap().collect(50_000).await.unwrap();
                assert_eq!(numbers, Vec::from_iter(0..50_000), "{case}");
                assert_eq!(files.sum(ItemStream::iter(1..=50_000)).await.unwrap(), 1_250_025_000);
                let doubled = files.doubled(ItemStream::iter(0..50_000)).await.unwrap();
                let wanted = Vec::from_iter((0..50_000).map(|n| n * 2));
                assert_eq!(doubled.collect(50_000).await.unwrap(), wanted, "{case}");
                let both = files.both(ItemStream::iter(0..30_000), vec![0; 100_000].into()).await;
                assert_eq!(both.unwrap(), (449_985_000, 100_000), "{case}");
                // Without an item, or a byte.
                assert!(
                    files.count(0).await.unwrap().collect(0).await.unwrap().is_empty(),
                    "{case}"
                );
                assert_eq!(files.sum(ItemStream::iter([])).await.unwrap(), 0, "{case}");
                assert_eq!(files.put(String::new(), "".into()).await.unwrap(), 0, "{case}");
            });
        }
        server.shutdown().unwrap();
    }
}

#[test]
fn a_caller_is_called_back_with_streams() {
    let disk = Disk::default();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.start(services(&disk).router()).unwrap();
    let offered = Services::new().service(DoublingService::shared(disk.clone())).unwrap();
    let mut clients =
        vec![("in process".into(), Client::in_process_offering(&services(&disk), &offered))];
    for kind in ["http", "ws"] {
        let url = format!("{kind}://{}/api", server.addresses()[0]);
        clients.push((url.clone(), Client::builder(&url).callbacks(&offered).connect().unwrap()));
    }
    for (case, client) in clients {
        block_on(async {
            let doubled =
                files(&client).await.by_caller(ItemStream::iter(0..30_000)).await.unwrap();
            let wanted = Vec::from_iter((0..30_000).map(|n| n * 2));
            assert_eq!(doubled.collect(30_000).await.unwrap(), wanted, "{case}");
        });
    }
    server.shutdown().unwrap();
}

#[test]
fn more_calls_than_run_at_once_have_streams() {
    let services = services(&Disk::default()).streams_max(400);
    let (server, clients) = everywhere(&services);
    for (case, client) in clients {
        block_on(async {
            let files = files(&client).await;
            let executor = async_executor::LocalExecutor::new();
            let sums: Vec<_> = (0..400)
                .map(|number| {
                    let files = files.clone();
                    executor.spawn(async move {
                        files.sum(ItemStream::iter((0..20).map(move |_| number))).await
                    })
                })
                .collect();
            executor
                .run(async {
                    for (sum, number) in sums.into_iter().zip(0..) {
                        assert_eq!(sum.await.unwrap(), number * 20, "{case}");
                    }
                })
                .await;
        });
    }
    server.shutdown().unwrap();
}

mod other {
    use super::{ItemStream, Result, service};

    /// As an older program may know it.
    #[service(name = "files")]
    pub(super) trait Older {
        async fn count(&self, to: u64) -> Result<Vec<u64>>;
    }

    type Numbers = ItemStream<i64>;

    #[service(name = "files")]
    pub(super) trait Alias {
        async fn sum(&self, numbers: Numbers) -> Result<i64>;
    }
}

#[test]
fn a_contract_says_what_is_a_stream() {
    block_on(async {
        let client = Client::in_process(&services(&Disk::default()));
        let error = other::OlderClient::new(&client).await.unwrap_err();
        assert!(error.message().contains("`count(to: u64) -> ItemStream<u64>`"), "{error}");
        let error = other::AliasClient::new(&client).await.unwrap_err();
        assert!(error.message().contains("numbers: Numbers (a stream of items)"), "{error}");
    });
}
