//! Stand-ins for services: what they answer, and what they tell.

use futures_lite::future::block_on;
use marmota_derive::service;
use marmota_model::{Error, ErrorKind, Result};
use marmota_service::{ByteStream, Client, ItemStream, Mock, Services};
use serde_json::json;

use crate::transports::{TRANSPORTS, everywhere};

#[service]
trait Stock {
    async fn count(&self, article: String) -> Result<u32>;
    async fn order(&self, article: String, count: Option<u32>) -> Result<()>;
}

fn client(mock: &Mock) -> Client {
    Client::in_process(&Services::new().service(mock.hosted()).unwrap())
}

#[test]
fn it_answers_by_every_transport_what_it_was_told() {
    let mock = StockService::mock();
    mock.on("count").with(json!({"article": "tea"})).returns(7);
    mock.on("count").answers(|arguments| {
        let article = arguments["article"].as_str().unwrap_or_default();
        article.parse::<u32>().map_err(|_| Error::new(ErrorKind::NotFound, "no such article"))
    });
    mock.on("order").times(TRANSPORTS as u64).returns(());
    mock.on("order").fails(ErrorKind::Denied, "enough");
    let (server, clients) = everywhere(&Services::new().service(mock.hosted()).unwrap());
    for (case, client) in &clients {
        block_on(async {
            let stock = StockClient::new(client).await.unwrap();
            assert_eq!(stock.count("tea".to_owned()).await.unwrap(), 7, "{case}");
            assert_eq!(stock.count("12".to_owned()).await.unwrap(), 12, "{case}");
            let error = stock.count("milk".to_owned()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{case}");
            stock.order("tea".to_owned(), None).await.unwrap();
        });
    }
    let error = block_on(async {
        StockClient::new(&clients[0].1).await.unwrap().order("tea".to_owned(), Some(2)).await
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Denied);
    let mut orders = vec![json!({"article": "tea", "count": null}); TRANSPORTS];
    orders.push(json!({"article": "tea", "count": 2}));
    assert_eq!(mock.calls("order"), orders);
    mock.verify().unwrap();
    server.shutdown().unwrap();
}

#[service]
trait Library {
    async fn store(&self, title: String, text: ByteStream) -> Result<u64>;
    async fn lent(&self, days: ItemStream<u32>) -> Result<ItemStream<String>>;
    async fn text(&self) -> Result<ByteStream>;
}

#[test]
fn it_takes_and_gives_streams() {
    let mock = LibraryService::mock();
    mock.on("store").with(json!({"title": "a", "text": "AQID"})).returns(3);
    mock.on("lent").with(json!({"days": [1, 2]})).returns(["x", "y"]);
    mock.on("lent").breaks(["z"], ErrorKind::Busy, "they are counted");
    mock.on("text").times(TRANSPORTS as u64).returns(vec![1_u8, 2, 3]);
    mock.on("text").breaks("AQID", ErrorKind::Lost, "burnt");
    let (server, clients) = everywhere(&Services::new().service(mock.hosted()).unwrap());
    for (case, client) in &clients {
        block_on(async {
            let library = LibraryClient::new(client).await.unwrap();
            let stored = library.store("a".to_owned(), vec![1, 2, 3].into()).await;
            assert_eq!(stored.unwrap(), 3, "{case}");
            let lent = library.lent(ItemStream::iter([1, 2])).await.unwrap();
            assert_eq!(lent.collect(2).await.unwrap(), ["x", "y"], "{case}");
            let mut lent = library.lent(ItemStream::iter([3])).await.unwrap();
            assert_eq!(lent.try_next().await.unwrap().as_deref(), Some("z"), "{case}");
            let error = lent.try_next().await.unwrap_err();
            assert_eq!((error.kind(), error.message()), (ErrorKind::Busy, "they are counted"));
            let text = library.text().await.unwrap().collect(3).await.unwrap();
            assert_eq!(text, [1, 2, 3], "{case}");
        });
    }
    block_on(async {
        let library = LibraryClient::new(&clients[0].1).await.unwrap();
        let mut text = library.text().await.unwrap();
        assert_eq!(text.try_next().await.unwrap(), Some(vec![1, 2, 3]));
        assert_eq!(text.try_next().await.unwrap_err().kind(), ErrorKind::Lost);
    });
    assert_eq!(mock.calls("lent")[..2], [json!({"days": [1, 2]}), json!({"days": [3]})]);
    mock.verify().unwrap();
    let mock = LibraryService::mock();
    mock.on("text").returns("no base64url!");
    let library = block_on(LibraryClient::new(&client(&mock))).unwrap();
    let error = block_on(library.text()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.message().contains("library.text"), "{error}");
    server.shutdown().unwrap();
}

#[test]
fn what_was_not_called_and_what_else_was_is_told() {
    let mock = StockService::mock();
    mock.on("count").with(json!({"article": "tea"})).times(2).returns(7);
    let stock = block_on(StockClient::new(&client(&mock))).unwrap();
    assert_eq!(block_on(stock.count("tea".to_owned())).unwrap(), 7);
    let error = block_on(stock.count("milk".to_owned())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains(r#"stock.count({"article":"milk"})"#), "{error}");
    let faults = mock.verify().unwrap_err().message().to_owned();
    assert!(faults.contains(r#"stock.count({"article":"milk"}) was not expected"#), "{faults}");
    let missed = r#"stock.count({"article":"tea"}) was called 1 times instead of 2"#;
    assert!(faults.contains(missed), "{faults}");
}

#[test]
fn a_result_of_another_type_is_an_error_of_the_way() {
    let mock = StockService::mock();
    mock.on("count").returns("many");
    let client = client(&mock);
    let stock = block_on(StockClient::new(&client)).unwrap();
    let error = block_on(stock.count("tea".to_owned())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.message().contains("stock.count"), "{error}");
}

#[test]
#[should_panic(expected = "`stock` has no method `counts`; it has count, order")]
fn a_method_that_there_is_not_is_named() {
    let _rule = StockService::mock().on("counts");
}
