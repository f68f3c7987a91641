//! Streams within limits, and what comes to those who do not keep to them: messages by hand.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_lite::future::{block_on, poll_once};
use marmota_auth::{Auth, Settings, models};
use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::ErrorKind;
use marmota_service::{ByteStream, Client, ItemStream};
use marmota_store::Store;
use marmota_store::rights::Grant;
use serde_json::{Value, json};

use crate::streams::{Disk, Files as _, FilesClient, services};
use crate::streams_held::Keeper;
use crate::transports::everywhere;

/// A client of Marmota's own protocol that says what it likes: packets on an upgraded connection.
struct Stranger(TcpStream);

impl Stranger {
    fn new(address: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = "GET /api/-/services HTTP/1.1\r\nHost: localhost\r\nUpgrade: marmota-services\r\n\
                    Connection: Upgrade\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", answer.escape_ascii());
        Self(stream)
    }

    fn say(&mut self, body: &[u8]) {
        let mut packet = Vec::new();
        marmota_rpc::packet::put(&mut packet, body);
        // One that was cut off is found out when it hears.
        let _ = self.0.write_all(&packet);
    }

    fn call(&mut self, id: u64, method: &str, params: &Value) {
        let call = json!({"jsonrpc":"2.0","method":method,"params":params,"id":id});
        self.say(call.to_string().as_bytes());
    }

    fn frame(&mut self, kind: u8, number: u64, rest: &[u8]) {
        self.say(&[&[kind], &number.to_le_bytes()[..], rest].concat());
    }

    fn grant(&mut self, number: u64, bytes: u32) {
        self.frame(4, number, &bytes.to_le_bytes());
    }

    /// The next packet; none when it was cut off.
    fn hear(&mut self) -> Option<Vec<u8>> {
        let mut come = Vec::new();
        loop {
            if let Some(packet) = marmota_rpc::packet::first(&come, 1 << 20).unwrap() {
                return Some(packet.body.to_vec());
            }
            let mut byte = [0];
            match self.0.read(&mut byte) {
                Ok(0) => return None,
                Ok(_) => come.push(byte[0]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn hear_json(&mut self) -> Value {
        serde_json::from_slice(&self.hear().unwrap()).unwrap()
    }

    /// Its connection is ended.
    fn is_cut_off(&mut self) {
        while self.hear().is_some() {}
    }

    /// It is still served.
    fn is_served(&mut self) {
        self.call(99, "files.echo", &json!(["here"]));
        assert_eq!(self.hear_json(), json!({"jsonrpc":"2.0","result":"here","id":99}));
    }
}

#[test]
fn who_sends_more_than_was_granted_is_cut_off() {
    let disk = Disk::default();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.start(services(&disk).router()).unwrap();
    let address = server.addresses()[0].to_string();
    // To a stream that there is not.
    let mut stranger = Stranger::new(&address);
    stranger.frame(1, 7, b"bytes");
    stranger.is_cut_off();
    // To one that was granted a window, beyond it: to a method that never asks for more.
    let mut stranger = Stranger::new(&address);
    stranger.call(1, "files.both", &json!({"first": 0, "second": 1}));
    let granted: Vec<Vec<u8>> = (0..2).map(|_| stranger.hear().unwrap()).collect();
    let window = [&[0, 0, 1, 0][..]].concat();
    assert!(granted.iter().all(|one| one[0] == 4 && one[9..] == window), "{granted:?}");
    for _ in 0..4 {
        stranger.frame(1, 0, &[b'1'; 16 * 1024]);
    }
    stranger.is_served();
    stranger.frame(1, 0, b"1");
    stranger.is_cut_off();
    // Behind its end.
    let mut stranger = Stranger::new(&address);
    stranger.call(1, "files.both", &json!({"first": 0, "second": 1}));
    stranger.hear().unwrap();
    stranger.frame(2, 0, b"");
    stranger.frame(1, 0, b"1");
    stranger.is_cut_off();
    // What is none, and more room than anybody has.
    for (kind, rest) in
        [(1, vec![0; 20_000]), (2, vec![1]), (3, b"{".to_vec()), (4, vec![1]), (7, vec![])]
    {
        let mut stranger = Stranger::new(&address);
        stranger.frame(kind, 1, &rest);
        stranger.is_cut_off();
    }
    let mut stranger = Stranger::new(&address);
    stranger.call(1, "files.count", &json!([u64::MAX]));
    let stream = stranger.hear_json()["stream"].as_u64().unwrap();
    stranger.grant(stream, u32::MAX);
    stranger.is_cut_off();
    // Of what there is not no more is said: it may have ended meanwhile.
    let mut stranger = Stranger::new(&address);
    for number in 0..1_000 {
        stranger.frame(2, number, b"");
        stranger.frame(3, number, br#"{"code":1,"message":"?"}"#);
        stranger.grant(number, 1_000);
        stranger.frame(5, number, b"");
    }
    stranger.is_served();
    server.shutdown().unwrap();
}

#[test]
fn what_was_granted_may_come_for_a_stream_that_has_ended() {
    let disk = Disk::default();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.start(services(&disk).router()).unwrap();
    let mut stranger = Stranger::new(&server.addresses()[0].to_string());
    stranger.call(1, "files.sum", &json!([0]));
    assert_eq!(stranger.hear().unwrap()[0], 4);
    // The method ends at an item that is none, before the rest has come.
    stranger.frame(1, 0, b"1\n\"two\"\n");
    let (one, other) = (stranger.hear().unwrap(), stranger.hear().unwrap());
    let (cancel, answer) = if one[0] == 5 { (one, other) } else { (other, one) };
    assert_eq!(cancel[0], 5);
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("item 2 of `numbers` of files.sum"), "{message}");
    for _ in 0..3 {
        stranger.frame(1, 0, &[b'1'; 16 * 1024]);
    }
    stranger.is_served();
    stranger.frame(1, 0, &[b'1'; 16 * 1024]);
    stranger.is_cut_off();
    server.shutdown().unwrap();
}

#[test]
fn calls_beside_streams_are_bounded() {
    let (disk, keeper) = (Disk::default(), Keeper::new());
    let both = services(&disk).service(keeper.hosted()).unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.start(both.router()).unwrap();
    let mut stranger = Stranger::new(&server.addresses()[0].to_string());
    // With a stream open, messages are taken whatever runs.
    stranger.call(0, "files.count", &json!([u64::MAX]));
    let stream = stranger.hear_json()["stream"].as_u64().unwrap();
    // All but the first wait for ever.
    for id in 1..=600 {
        stranger.call(id, "gate.open", &json!([]));
    }
    let refused = loop {
        let answer = stranger.hear_json();
        if answer["error"].is_object() {
            break answer;
        }
    };
    assert_eq!(refused["error"]["data"]["kind"], "busy");
    assert!(refused["error"]["message"].as_str().unwrap().starts_with("512 calls"), "{refused}");
    assert!(refused["id"].as_u64().unwrap() > 512, "{refused}");
    stranger.grant(stream, 4);
    while stranger.hear().unwrap() != [&[1], &stream.to_le_bytes()[..], b"0\n1\n"].concat() {}
    drop(stranger);
    server.shutdown().unwrap();
}

#[test]
fn a_page_has_streams_in_binary_messages() {
    // As `Stranger`, whose frames a WebSocket carries; what is granted comes, and no more.
    let disk = Disk::default();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.start(services(&disk).router()).unwrap();
    let mut page = crate::web_sockets::Browser::open(&server.addresses()[0].to_string());
    page.say(&json!({"jsonrpc":"2.0","method":"files.count","params":[4],"id":1}));
    let answer = page.hear();
    assert_eq!(answer["result"], Value::Null);
    let stream = answer["stream"].as_u64().unwrap();
    let number = stream.to_le_bytes();
    page.say_bytes(&[&[4], &number[..], &3_u32.to_le_bytes()[..]].concat());
    assert_eq!(page.hear_bytes(), [&[1], &number[..], b"0\n1"].concat());
    page.say_bytes(&[&[4], &number[..], &100_u32.to_le_bytes()[..]].concat());
    assert_eq!(page.hear_bytes(), [&[1], &number[..], b"\n2\n3\n"].concat());
    assert_eq!(page.hear_bytes(), [&[2], &number[..]].concat());
    page.say(&json!({"jsonrpc":"2.0","method":"files.sum","params":[1],"id":2,"streams":4}));
    let number = 5_u64.to_le_bytes();
    assert_eq!(page.hear_bytes()[..9], [&[4], &number[..]].concat());
    page.say_bytes(&[&[1], &number[..], b"20\n22"].concat());
    page.say_bytes(&[&[2], &number[..]].concat());
    assert_eq!(page.hear()["result"], 42);
    server.shutdown().unwrap();
}

#[test]
fn limits_are_told_by_their_names() {
    let disk = Disk::default();
    let few = services(&disk).item_bytes_max(100).stream_bytes_max(1_000).streams_max(3);
    let (server, clients) = everywhere(&few);
    for (case, client) in clients {
        let is_elsewhere = case != "in process";
        block_on(async {
            let files = FilesClient::new(&client).await.unwrap();
            assert_eq!(files.put(String::new(), vec![1; 1_000].into()).await.unwrap(), 1_000);
            let bytes = ByteStream::from(vec![1; 1_001]);
            let error = files.put(String::new(), bytes).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{case}");
            assert!(error.message().contains("`content` of files.put"), "{case} {error}");
            assert!(error.message().contains("`stream_bytes_max`"), "{case} {error}");
            let hasty = client.clone().item_bytes_max(3);
            let mut numbers = FilesClient::new(&hasty).await.unwrap().count(2_000).await.unwrap();
            for wanted in 0..1_000 {
                assert_eq!(numbers.try_next().await.unwrap(), Some(wanted), "{case}");
            }
            let error = numbers.try_next().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Protocol, "{case}");
            assert!(error.message().contains("`item_bytes_max`"), "{case} {error}");
            if is_elsewhere {
                let mut open = Vec::new();
                for _ in 0..3 {
                    open.push(files.count(u64::MAX).await.unwrap());
                }
                let error = files.count(u64::MAX).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Busy, "{case}");
                assert!(error.message().contains("`streams_max`"), "{case} {error}");
                // They are counted each way.
                let mut sums = Vec::new();
                for _ in 0..3 {
                    // Room for both that it is told below.
                    let (sender, numbers) = ItemStream::channel(2);
                    let mut sum = Box::pin(files.sum(numbers));
                    assert!(poll_once(&mut sum).await.is_none(), "{case}");
                    sums.push((sender, sum));
                }
                let (_sender, numbers) = ItemStream::channel(1);
                let error = files.sum(numbers).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Busy, "{case} {error}");
                assert!(error.message().contains("`streams_max`"), "{case} {error}");
                for (sender, sum) in sums {
                    sender.send(5).await.unwrap();
                    sender.finish().await.unwrap();
                    drop(open.pop());
                    assert_eq!(sum.await.unwrap(), 5, "{case}");
                }
            }
            assert_eq!(
                files.count(3).await.unwrap().collect(3).await.unwrap(),
                [0, 1, 2],
                "{case}"
            );
            let error = files.count(4).await.unwrap().collect(3).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{case}");
        });
    }
    server.shutdown().unwrap();
}

#[test]
fn nothing_of_a_stream_is_asked_for_where_its_call_is_refused() {
    let store = models(Store::builder(Memory::new())).open().unwrap();
    let nobody = Settings::default().password_cost(8, 1).anonymous([Grant::call("files.echo")]);
    let auth = Auth::new(&store, nobody).unwrap();
    let disk = Disk::default();
    let (server, clients) = {
        let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
        let server = server.start(services(&disk).auth(&auth).router()).unwrap();
        let urls = ["http", "ws"].map(|kind| format!("{kind}://{}/api", server.addresses()[0]));
        let clients = urls.map(|url| (Client::connect(&url).unwrap(), url));
        (server, clients)
    };
    for (client, case) in clients {
        block_on(async {
            let files = FilesClient::new(&client).await.unwrap();
            let numbers = ItemStream::iter((0..).inspect(|_| panic!("it was asked for")));
            let error = files.sum(numbers).await.unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unauthenticated),
                "{case} {error}"
            );
        });
    }
    assert_eq!(disk.0.made.load(Ordering::SeqCst), 0);
    server.shutdown().unwrap();
}
