//! Streams in requests by themselves: bodies of bytes and of lines, and JSON-RPC, which has none.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use futures_lite::stream;
use marmota_auth::{Auth, Settings, models};
use marmota_derive::service;
use marmota_http::{RunningServer, Server};
use marmota_memory::Memory;
use marmota_model::{Error, ErrorKind, Result};
use marmota_service::{ByteStream, ItemStream, Services};
use marmota_store::Store;
use serde_json::{Value, json};

use crate::calling::{agent, post, url};
use crate::streams::{Disk, services};
use crate::streams_held::{Keeper, reaches};

fn served(services: &Services) -> RunningServer {
    Server::bind("127.0.0.1:0").unwrap().listeners(1).start(services.router()).unwrap()
}

/// Sends a body of a media type.
fn send(server: &RunningServer, path: &str, media_type: &str, body: &[u8]) -> (u16, Value) {
    let request = agent().post(url(server, path)).header("Content-Type", media_type);
    let mut answer = request.send(body).unwrap();
    (answer.status().as_u16(), answer.body_mut().read_json().unwrap())
}

/// All that is answered until the connection ends, as it stands on the wire.
fn raw(server: &RunningServer, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.addresses()[0].to_string()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_body_is_the_parameter_that_is_a_stream() {
    let server = served(&services(&Disk::default()));
    let bytes = "application/octet-stream";
    let put = |path: &str, body: &[u8]| send(&server, path, bytes, body);
    assert_eq!(put("/api/files/put?name=abc", &[1; 300_000]), (200, json!({"result": 300_003})));
    assert_eq!(put("/api/files/put?name=abc", b""), (200, json!({"result": 3})));
    let (status, body) = put("/api/files/put", b"x");
    assert_eq!((status, &body["errors"][0]["field"]), (422, &json!("name")), "{body}");
    let lines = "application/x-ndjson";
    let sum = |body: &str| send(&server, "/api/files/sum", lines, body.as_bytes());
    assert_eq!(sum("1\n2\n\n 3 \r\n4"), (200, json!({"result": 10})));
    assert_eq!(sum(""), (200, json!({"result": 0})));
    let (status, body) = sum("1\n\"two\"\n");
    assert_eq!(status, 400, "{body}");
    let detail = body["detail"].as_str().unwrap();
    assert!(detail.contains("item 2 of `numbers` of files.sum"), "{detail}");
    assert!(detail.contains(r#""two""#), "{detail}");
    let chunked = "POST /api/files/sum HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                   Transfer-Encoding: chunked\r\n\r\n2\r\n1\n\r\n3\r\n20\n\r\n0\r\n\r\n";
    assert!(raw(&server, chunked.as_bytes()).ends_with(r#"{"result":21}"#));
    server.shutdown().unwrap();
}

#[test]
fn streams_stand_in_json_too() {
    let server = served(&services(&Disk::default()));
    let post = |path: &str, body: &str| send(&server, path, "application/json", body.as_bytes());
    let put = r#"{"name":"abc","content":"AQIDBA"}"#;
    assert_eq!(post("/api/files/put", put), (200, json!({"result": 13})));
    assert_eq!(post("/api/files/put", r#"["abc","AQIDBA=="]"#), (200, json!({"result": 13})));
    assert_eq!(post("/api/files/sum", r#"{"numbers":[1, 2,-4]}"#), (200, json!({"result": -1})));
    let both = r#"{"first":[1,2],"second":"AAA"}"#;
    assert_eq!(post("/api/files/both", both), (200, json!({"result": [3, 2]})));
    for (path, body, field) in [
        ("/api/files/put", r#"{"name":"abc","content":7}"#, "content"),
        ("/api/files/put", r#"{"name":"abc"}"#, "content"),
        ("/api/files/sum", r#"{"numbers":{"a":1}}"#, "numbers"),
    ] {
        let (status, body) = post(path, body);
        assert_eq!((status, &body["errors"][0]["field"]), (422, &json!(field)), "{body}");
    }
    server.shutdown().unwrap();
}

#[test]
fn a_result_is_a_body_whose_error_is_no_end() {
    let server = served(&services(&Disk::default()));
    let mut answer = agent()
        .post(url(&server, "/api/files/get"))
        .content_type("application/json")
        .send("[200500]")
        .unwrap();
    assert_eq!(answer.headers()["content-type"], "application/octet-stream");
    let bytes = answer.body_mut().read_to_vec().unwrap();
    assert!(bytes.len() == 200_500 && bytes.iter().all(|&byte| byte == 7));
    let mut answer = agent()
        .post(url(&server, "/api/files/count"))
        .content_type("application/json")
        .send("[5]")
        .unwrap();
    assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
    assert_eq!(answer.body_mut().read_to_string().unwrap(), "0\n1\n2\n3\n4\n");
    let doubled = agent().post(url(&server, "/api/files/doubled"));
    let numbers: String = (0..50_000).map(|number| format!("{number}\n")).collect();
    let mut answer = doubled.header("Content-Type", "application/x-ndjson").send(&numbers).unwrap();
    let wanted: String = (0..50_000).map(|number| format!("{}\n", number * 2)).collect();
    assert_eq!(answer.body_mut().read_to_string().unwrap(), wanted);
    // A last line says why, and the body has no end that a client could take for a good one.
    let request =
        "POST /api/files/breaking HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n[3]";
    let answer = raw(&server, request.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let error = r#"{"error":{"code":-32000,"message":"3 are enough","data":{"kind":"stale"}}}"#;
    assert!(answer.contains("0\n1\n2\n") && answer.contains(error), "{answer}");
    assert!(!answer.ends_with("0\r\n\r\n"), "{answer}");
    let mut answer = agent()
        .post(url(&server, "/api/files/breaking"))
        .content_type("application/json")
        .send("[3]")
        .unwrap();
    assert!(answer.body_mut().read_to_string().is_err());
    server.shutdown().unwrap();
}

#[service]
trait Late {
    /// An error after so many pieces, the first of which are empty.
    async fn bytes(&self, empty: usize, full: usize) -> Result<ByteStream>;
    /// What comes of the numbers, as far as they are numbers.
    async fn echo(&self, numbers: ItemStream<i64>) -> Result<ItemStream<i64>>;
    /// Nothing before the gate is opened; then an error, or an item.
    async fn gated(&self, fails: bool) -> Result<ItemStream<i64>>;
}

struct Later(async_channel::Receiver<()>);

fn gone() -> Error {
    Error::new(ErrorKind::NotFound, "it has gone")
}

impl Late for Later {
    async fn bytes(&self, empty: usize, full: usize) -> Result<ByteStream> {
        let empty = std::iter::repeat_with(|| Ok(Vec::new())).take(empty);
        let full = std::iter::repeat_with(|| Ok(vec![7])).take(full);
        Ok(ByteStream::new(stream::iter(empty.chain(full).chain([Err(gone())]))))
    }

    async fn echo(&self, numbers: ItemStream<i64>) -> Result<ItemStream<i64>> {
        Ok(numbers)
    }

    async fn gated(&self, fails: bool) -> Result<ItemStream<i64>> {
        let gate = self.0.clone();
        Ok(ItemStream::new(stream::once_future(async move {
            gate.recv().await.unwrap();
            if fails { Err(gone()) } else { Ok(1) }
        })))
    }
}

#[test]
fn an_error_before_the_first_item_has_its_own_status() {
    let (open, gate) = async_channel::unbounded();
    let services = Services::new().service(LateService::shared(Later(gate))).unwrap();
    let server = served(&services);
    let post = |path: &str, body: &str| send(&server, path, "application/json", body.as_bytes());
    let is_gone = |(status, body): (u16, Value)| {
        assert_eq!((status, &body["detail"]), (404, &json!("it has gone")), "{body}");
    };
    is_gone(post("/api/late/bytes", "[0,0]"));
    is_gone(post("/api/late/bytes", "[3,0]"));
    let mut begun = agent()
        .post(url(&server, "/api/late/bytes"))
        .content_type("application/json")
        .send("[3,1]")
        .unwrap();
    assert_eq!(begun.status(), 200);
    assert!(begun.body_mut().read_to_vec().is_err(), "it has begun, and is cut off");
    // The head waits, and the error comes when it comes.
    for (body, is_error) in [("[true]", true), ("[false]", false)] {
        open.send_blocking(()).unwrap();
        let mut answer = agent()
            .post(url(&server, "/api/late/gated"))
            .content_type("application/json")
            .send(body)
            .unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        assert_eq!((answer.status() == 404, text == "1\n"), (is_error, !is_error), "{text}");
    }
    // A result that is made of the request's own body, whose first item is none.
    let lines = "application/x-ndjson";
    let (status, body) = send(&server, "/api/late/echo", lines, b"\"one\"\n2\n");
    assert_eq!(status, 400, "{body}");
    assert!(body["detail"].as_str().unwrap().contains("item 1 of `numbers`"), "{body}");
    // An end is no error, and nothing of it is missing.
    let echo = agent().post(url(&server, "/api/late/echo")).header("Content-Type", lines);
    let mut answer = echo.send("").unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], lines);
    assert_eq!(answer.body_mut().read_to_string().unwrap(), "");
    server.shutdown().unwrap();
}

#[test]
fn a_body_that_is_too_long_or_cut_off_is_an_error_of_the_method() {
    let services = services(&Disk::default()).stream_bytes_max(100_000).item_bytes_max(100);
    let server = served(&services);
    let bytes = "application/octet-stream";
    assert_eq!(send(&server, "/api/files/put?name=", bytes, &[1; 100_000]).0, 200);
    let chunks = "POST /api/files/put?name= HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut request = chunks.as_bytes().to_vec();
    for _ in 0..11 {
        request.extend_from_slice(b"2710\r\n");
        request.extend(std::iter::repeat_n(b'1', 10_000));
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    let answer = raw(&server, &request);
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("stream_bytes_max"), "{answer}");
    let item = [b"1\n".as_slice(), &[b'1'; 101]].concat();
    let (status, body) = send(&server, "/api/files/sum", "application/x-ndjson", &item);
    assert_eq!(status, 400, "{body}");
    assert!(
        body["detail"].as_str().unwrap().contains("item 2 of `numbers` of files.sum"),
        "{body}"
    );
    server.shutdown().unwrap();
}

#[test]
fn a_client_that_goes_ends_what_it_has_begun() {
    let (disk, keeper) = (Disk::default(), Keeper::new());
    let both = services(&disk).service(keeper.hosted()).unwrap();
    let server = served(&both);
    let address = server.addresses()[0].to_string();
    let mut stream = TcpStream::connect(&address).unwrap();
    let head =
        "POST /api/gate/end HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n1\n2\n";
    stream.write_all(head.as_bytes()).unwrap();
    reaches(&keeper.inside, 1, "the method runs");
    drop(stream);
    reaches(&keeper.inside, 0, "the method has ended");
    let mut stream = TcpStream::connect(&address).unwrap();
    let head = "POST /api/files/count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 22\r\n\r\n\
                [18446744073709551615]";
    stream.write_all(head.as_bytes()).unwrap();
    stream.read_exact(&mut [0; 100]).unwrap();
    reaches(&disk.0.open, 1, "the stream is made");
    // The kernel's buffers take megabytes; what is made is more than the client takes, not all.
    drop(stream);
    reaches(&disk.0.open, 0, "nobody takes it");
    server.shutdown().unwrap();
}

#[test]
fn json_rpc_by_itself_refuses_streams_by_the_methods_name() {
    let disk = Disk::default();
    let server = served(&services(&disk));
    for (method, params) in
        [("files.count", json!([5])), ("files.sum", json!([[1, 2]])), ("files.get", json!([1]))]
    {
        let call = json!({"jsonrpc":"2.0","method":method,"params":params,"id":1});
        let (_, answer) = post(&server, "/api/-/rpc", &call.to_string());
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(method), "{message}");
        assert!(message.contains("Client::connect") && message.contains("POST"), "{message}");
        assert_eq!(answer["error"]["data"]["kind"], "unsupported");
    }
    let mut contract = agent().get(url(&server, "/api/files")).call().unwrap();
    let contract: Value = contract.body_mut().read_json().unwrap();
    assert_eq!(contract["methods"][0]["parameters"][0]["form"], Value::Null);
    assert_eq!(contract["methods"][0]["parameters"][1]["form"], "bytes");
    assert_eq!(contract["methods"][2]["result_form"], "items");
    let call = json!({"jsonrpc":"2.0","method":"files.echo","params":["a"],"id":1});
    assert_eq!(post(&server, "/api/-/rpc", &call.to_string()).1["result"], "a");
    server.shutdown().unwrap();
}

#[test]
fn rights_are_asked_before_a_byte_of_a_body_is_read() {
    let store = models(Store::builder(Memory::new())).open().unwrap();
    let auth = Auth::new(&store, Settings::default().password_cost(8, 1)).unwrap();
    let server = served(&services(&Disk::default()).auth(&auth));
    for path in ["put?name=a", "sum", "doubled"] {
        // The body is never sent, and the client was not told to send it.
        let head = format!(
            "POST /api/files/{path} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
             Content-Length: 1000000\r\n\r\n"
        );
        let answer = raw(&server, head.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 401"), "{path} {answer}");
    }
    server.shutdown().unwrap();
}
