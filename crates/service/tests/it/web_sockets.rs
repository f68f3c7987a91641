//! JSON-RPC over a WebSocket, both ways, as a browser speaks it: frames by hand.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use marmota_derive::service;
use marmota_http::Server;
use marmota_model::Result;
use marmota_service::{Call, Services};
use serde_json::{Value, json};

#[service]
trait Room {
    async fn add(&self, a: i32, b: i32) -> Result<i32>;
    async fn ask(&self, number: i32) -> Result<i32>;
}

#[service]
trait Page {
    async fn answer(&self, number: i32) -> Result<i32>;
}

struct Plain;

impl Room for Plain {
    async fn add(&self, a: i32, b: i32) -> Result<i32> {
        Ok(a + b)
    }

    async fn ask(&self, number: i32) -> Result<i32> {
        let page = Call::current().and_then(|call| call.client()).unwrap();
        PageClient::new(&page).await?.answer(number).await
    }
}

pub(crate) struct Browser(TcpStream);

impl Browser {
    pub(crate) fn open(address: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let head = "GET /api/-/services HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
                    Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
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

    pub(crate) fn say(&mut self, message: &Value) {
        self.put(0x81, message.to_string().as_bytes());
    }

    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) {
        self.put(0x82, bytes);
    }

    fn put(&mut self, first: u8, text: &[u8]) {
        let mut frame = vec![first];
        match text.len() {
            length @ 0..126 => frame.push(0x80 | length as u8),
            length => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&(length as u16).to_be_bytes());
            }
        }
        let mask = [7, 0, 255, 40];
        frame.extend_from_slice(&mask);
        frame.extend(text.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.0.write_all(&frame).unwrap();
    }

    pub(crate) fn hear(&mut self) -> Value {
        serde_json::from_slice(&self.take(0x81)).unwrap()
    }

    pub(crate) fn hear_bytes(&mut self) -> Vec<u8> {
        self.take(0x82)
    }

    fn take(&mut self, first: u8) -> Vec<u8> {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).unwrap();
        assert_eq!(head[0], first);
        let mut length = usize::from(head[1]);
        if length == 126 {
            let mut long = [0; 2];
            self.0.read_exact(&mut long).unwrap();
            length = u16::from_be_bytes(long).into();
        }
        let mut text = vec![0; length];
        self.0.read_exact(&mut text).unwrap();
        text
    }
}

#[test]
fn a_page_calls_and_is_called() {
    let services = Services::new().service(RoomService::shared(Plain)).unwrap();
    let server =
        Server::bind("127.0.0.1:0").unwrap().listeners(1).start(services.router()).unwrap();
    let mut page = Browser::open(&server.addresses()[0].to_string());
    for id in 0..20 {
        page.say(&json!({"jsonrpc":"2.0","method":"room.add","params":[id, 1],"id":id}));
    }
    let mut sums: Vec<i64> = (0..20).map(|_| page.hear()["result"].as_i64().unwrap()).collect();
    sums.sort_unstable();
    assert_eq!(sums, (1..=20).collect::<Vec<i64>>());
    page.say(&json!({"jsonrpc":"2.0","method":"room.ask","params":[21],"id":"ask"}));
    // A page need know nothing of contracts.
    let asked = page.hear();
    assert_eq!((&asked["method"], &asked["params"]), (&json!("-.contract"), &json!(["page"])));
    let unknown = json!({"code":-32601,"message":"no such method"});
    page.say(&json!({"jsonrpc":"2.0","error":unknown,"id":asked["id"]}));
    let asked = page.hear();
    assert_eq!(
        (&asked["method"], &asked["params"]),
        (&json!("page.answer"), &json!({"number":21}))
    );
    page.say(&json!({"jsonrpc":"2.0","result":42,"id":asked["id"]}));
    assert_eq!(page.hear(), json!({"jsonrpc":"2.0","result":42,"id":"ask"}));
    for nonsense in [json!({"error":{"code":1,"message":"?"},"id":null}), json!({"result":1})] {
        page.say(&nonsense);
    }
    page.say(&json!([1]));
    assert_eq!(page.hear()[0]["error"]["code"], -32600);
}
