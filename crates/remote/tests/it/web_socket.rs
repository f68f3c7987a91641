//! What is a WebSocket's alone, or also of what is written in records of its own.

use marmota_http::{Response, Router, Server, WebSocketOptions};
use marmota_model::ErrorKind;
use marmota_remote::{Remote, Service};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;

use crate::place::{Place, Transport};
use crate::{Person, client, person, served};

#[test]
fn packets_larger_than_a_message_go_both_ways() {
    #[derive(Clone, Debug, Default, marmota_derive::Model, PartialEq)]
    struct Letter {
        id: i64,
        text: String,
    }
    for transport in [Transport::WebSocket, Transport::SecureWebSocket, Transport::Https] {
        let store = marmota_store::Store::builder(marmota_memory::Memory::new());
        let served = store.model::<Letter>().open().unwrap();
        let place = Place::of(transport);
        let _server = place.serve(&Service::new(&served));
        let store = marmota_store::Store::builder(place.remote()).model::<Letter>().open().unwrap();
        let text: String = ('a'..='z').cycle().take(5 << 20).collect();
        let id = store.insert(&Letter { id: 0, text: text.clone() }).run().unwrap();
        assert!(store.get::<Letter>(id).run().unwrap().text == text);
        let letter = || Letter { id: 0, text: text[..1 << 20].to_owned() };
        let many: Vec<_> = (0..4).map(|_| letter()).collect();
        store.insert_many(&many).run().unwrap();
        assert_eq!(store.list::<Letter>().run().unwrap().len(), 5);
    }
}

#[test]
fn a_page_in_a_browser_is_refused() {
    let place = Place::of(Transport::WebSocket);
    let _server = place.serve(&Service::new(&served()));
    let ask = |origin: Option<&'static str>| {
        let url = format!("{}/-/operations", place.url());
        let mut request = url.into_client_request().unwrap();
        let headers = request.headers_mut();
        headers.insert("Sec-WebSocket-Protocol", HeaderValue::from_static("marmota"));
        if let Some(origin) = origin {
            headers.insert("Origin", HeaderValue::from_static(origin));
        }
        let stream = std::net::TcpStream::connect(request.uri().authority().unwrap().as_str());
        tungstenite::client(request, stream.unwrap())
            .map(drop)
            .map_err(|error| format!("{error:?}"))
    };
    ask(None).unwrap();
    let refused = ask(Some("https://example.org")).unwrap_err();
    assert!(refused.contains("403"), "{refused}");
}

#[test]
fn a_web_socket_for_something_else_is_told_from_a_store() {
    let router =
        Router::new().get("/api/-/operations", |request: marmota_http::Request| async move {
            Response::websocket(&request, &WebSocketOptions::default(), |socket| async move {
                socket.send("hello").await?;
                Ok(())
            })
        });
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).start(router).unwrap();
    let url = format!("ws://{}/api", server.local_addr());
    let error = client(Remote::from_url(&url).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.message().contains("another protocol"), "{error}");
}

#[test]
fn what_is_no_packet_ends_the_connection_with_words() {
    let place = Place::of(Transport::WebSocket);
    let served = served();
    let _server = place.serve(&Service::new(&served));
    let url = format!("{}/-/operations", place.url());
    let mut request = url.into_client_request().unwrap();
    let word = HeaderValue::from_static("marmota");
    request.headers_mut().insert("Sec-WebSocket-Protocol", word);
    let stream = std::net::TcpStream::connect(request.uri().authority().unwrap().as_str());
    let (mut socket, _) = tungstenite::client(request, stream.unwrap()).unwrap();
    socket.send(tungstenite::Message::Binary(vec![0xff; 64].into())).unwrap();
    let answer = socket.read().unwrap().into_data();
    assert!(String::from_utf8_lossy(&answer).contains("4294967295 bytes"), "{answer:?}");
    assert!(socket.read().unwrap().is_close());
    // The server goes on.
    let store = client(place.remote()).unwrap();
    store.insert(&person("Emmy")).run().unwrap();
    assert_eq!(served.count::<Person>().run().unwrap(), 1);
}
