//! Many live lists over one WebSocket, with an independent client and an independent library for
//! JSON Patch.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::{Message, WebSocket};

use crate::client::Client;
use crate::live::{Random, on_every_engine, person, write};
use crate::service::Service;

/// A client with the documents of its subscriptions.
struct Socket {
    socket: WebSocket<TcpStream>,
    documents: HashMap<String, Value>,
    positions: HashMap<String, String>,
}

impl Socket {
    fn open(address: SocketAddr, headers: &[(&'static str, &str)]) -> Self {
        Self::try_open(address, headers).unwrap()
    }

    fn try_open(
        address: SocketAddr,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, Box<tungstenite::Error>> {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut request = format!("ws://{address}/api").into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let opened = tungstenite::client(request, stream).map_err(|error| match error {
            tungstenite::HandshakeError::Failure(error) => Box::new(error),
            tungstenite::HandshakeError::Interrupted(_) => panic!("the handshake timed out"),
        })?;
        Ok(Self { socket: opened.0, documents: HashMap::new(), positions: HashMap::new() })
    }

    fn send(&mut self, message: &Value) {
        self.socket.send(Message::text(message.to_string())).unwrap();
    }

    fn subscribe(&mut self, id: &str, url: &str) {
        self.send(&json!({ "type": "subscribe", "id": id, "url": url }));
    }

    /// Reads the next message, and applies it.
    fn next(&mut self) -> Value {
        let text = loop {
            match self.socket.read().unwrap() {
                Message::Text(text) => break text,
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        };
        let message: Value = serde_json::from_str(&text).unwrap();
        let Some(id) = message["id"].as_str().map(str::to_owned) else { return message };
        match message["type"].as_str().unwrap() {
            "snapshot" => drop(self.documents.insert(id.clone(), message["data"].clone())),
            "patch" => {
                let patch: json_patch::Patch =
                    serde_json::from_value(message["data"].clone()).unwrap();
                json_patch::patch(self.documents.get_mut(&id).unwrap(), &patch).unwrap();
            }
            _ => return message,
        }
        self.positions.insert(id, message["position"].as_str().unwrap().to_owned());
        message
    }

    /// Applies messages until the documents are those that plain GETs return.
    fn follow(&mut self, client: &mut Client, urls: &[(String, String)]) {
        for (id, url) in urls {
            let expected = client.get(url).is(200).value();
            while self.documents.get(id) != Some(&expected) {
                self.next();
            }
        }
    }

    /// Sends a message, and returns the status of the error with which it is answered.
    fn refused(&mut self, message: &Value) -> (u64, String) {
        self.send(message);
        let answer = self.next();
        assert_eq!(answer["type"], "error", "{message}: {answer}");
        let id = message.get("id").filter(|id| **id != "");
        assert_eq!(answer.get("id"), id, "{message}: {answer}");
        let error = &answer["error"];
        (error["status"].as_u64().unwrap(), error.to_string())
    }
}

#[test]
fn many_lists_are_followed_over_one_socket() {
    on_every_engine(|service| {
        let client = &mut service.client();
        for number in 0..10 {
            client.json("POST /api/person", &person("A", number)).is(201);
        }
        let mut urls: Vec<(String, String)> = (0..20)
            .map(|visits| (visits.to_string(), format!("/api/person?visits={visits}")))
            .collect();
        urls.push(("top".into(), "/api/person?order=-visits&limit=3&count=true".into()));
        urls.push(("notes".into(), "/api/note".into()));
        let mut socket = Socket::open(service.address(), &[]);
        for (id, url) in &urls {
            // A URL may be relative to that of the API.
            let url = if id == "top" { url.strip_prefix("/api/").unwrap() } else { url };
            socket.subscribe(id, url);
        }
        let mut random = Random(88_172_645_463_325_252);
        for _ in 0..20 {
            (0..4).for_each(|_| write(client, &mut random));
            socket.follow(client, &urls);
        }

        // A client that was disconnected continues after its last messages.
        let mut again = Socket::open(service.address(), &[]);
        (again.documents, again.positions) = (socket.documents.clone(), socket.positions.clone());
        drop(socket);
        (0..10).for_each(|_| write(client, &mut random));
        for (id, url) in &urls {
            let after = &again.positions[id];
            let message = json!({ "type": "subscribe", "id": id, "url": url, "after": after });
            again.send(&message);
        }
        (0..10).for_each(|_| write(client, &mut random));
        again.follow(client, &urls);

        // An ended subscription has no further messages, and its id can be used again.
        again.send(&json!({ "type": "unsubscribe", "id": "top" }));
        while again.next()["type"] != "unsubscribed" {}
        client.json("POST /api/person", &person("Z", 19)).is(201);
        again.documents.remove("top");
        again.follow(client, &urls[..20]);
        assert!(!again.documents.contains_key("top"));
        again.subscribe("top", "person?limit=1");
        while !again.documents.contains_key("top") {
            again.next();
        }
    });
}

#[test]
fn bad_messages_are_answered_with_an_error_and_nothing_else_ends() {
    on_every_engine(|service| {
        let mut socket = Socket::open(service.address(), &[]);
        let mut refuses = |message: Value, status: u64, part: &str| {
            let (found, text) = socket.refused(&message);
            assert_eq!(found, status, "{message}: {text}");
            assert!(text.contains(part), "{message}: {text}");
        };
        let subscribe = |url: &str| json!({ "type": "subscribe", "id": "a", "url": url });
        refuses(json!(7), 400, "is not valid");
        refuses(json!({ "type": "watch" }), 400, "watch");
        refuses(json!({ "type": "unsubscribe", "id": "b" }), 400, "`b`");
        refuses(json!({ "type": "subscribe", "id": "", "url": "person" }), 400, "1 to 100 bytes");
        for url in
            ["", "/", "/api", "/api/", "/api/person/1", "/other/person", "http://x/api/person"]
        {
            refuses(subscribe(url), 400, "is not the URL of a list");
        }
        refuses(subscribe("/api/nope"), 404, "nope");
        refuses(subscribe("/api/marmota_commit"), 404, "marmota_commit");
        refuses(subscribe("person?limit=0"), 400, "limit");
        refuses(subscribe("person?fields=photo"), 400, "photo");
        let mut after = subscribe("person");
        after["after"] = "7".into();
        refuses(after, 400, "not a position");

        // The id of a failed subscription is free.
        socket.subscribe("a", "person");
        assert_eq!(socket.next()["type"], "snapshot");
        assert_eq!(socket.refused(&subscribe("note")).0, 400);
        for number in 0..99 {
            socket.subscribe(&number.to_string(), "note");
            assert_eq!(socket.next()["type"], "snapshot");
        }
        let (status, text) =
            socket.refused(&json!({ "type": "subscribe", "id": "x", "url": "note" }));
        assert!(status == 400 && text.contains("at most 100"), "{text}");
        service.client().json("POST /api/person", &person("A", 1)).is(201);
        assert_eq!(socket.next()["type"], "patch");
        socket.socket.send(Message::binary(vec![1])).unwrap();
        let Ok(Message::Close(Some(close))) = socket.socket.read() else { panic!("not closed") };
        assert_eq!(u16::from(close.code), 1008);
    });
    // Without a feed, each subscription fails.
    let service = Service::memory();
    let mut socket = Socket::open(service.address(), &[]);
    let message = json!({ "type": "subscribe", "id": "a", "url": "person" });
    assert_eq!(socket.refused(&message).0, 501);
}

#[test]
fn pages_of_other_sites_cannot_connect() {
    let service = Service::memory();
    let foreign = [("Origin", "https://example.org")];
    assert!(Socket::try_open(service.address(), &foreign).is_err());
    assert_eq!(
        service.client().get("/api").is(200).header("content-type"),
        Some("application/json")
    );
}

#[cfg(feature = "auth")]
#[test]
fn a_token_can_be_sent_and_replaced() {
    use marmota_auth::{Auth, Settings};
    use marmota_http::Server;
    use marmota_memory::Memory;
    use marmota_model::{Field, Kind, Role, Schema};
    use marmota_rest::Api;
    use marmota_store::Store;
    use marmota_store::change::ChangeRetention;
    use marmota_store::rights::{Grant, Right};

    let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("owner", Kind::I64)];
    let builder = Store::builder(Memory::new()).schema(Schema::new("note", fields));
    let store = marmota_auth::models(builder.changes(ChangeRetention::default())).open().unwrap();
    let auth = Auth::new(&store, Settings::default().password_cost(64, 1)).unwrap();
    let own = Grant::new("note", &[Right::Read]).rule("owner = @user.id".to_owned());
    auth.set_group("writers", &[own]).unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(2);
    let server = server.start(Api::new(&store).auth(&auth).router()).unwrap();
    let notes = store.table("note").unwrap();
    let user = |name: &str| {
        let (user, token) = auth.add_user(name, &["writers".to_owned()], false).unwrap();
        auth.set_password(name, &token, crate::auth::PASSWORD, None).unwrap();
        let mut note = marmota_model::Record::new(std::sync::Arc::clone(&notes));
        note.set("owner", user).unwrap();
        store.insert_record(&note).run().unwrap();
        (user, auth.login(name, crate::auth::PASSWORD, None).unwrap().token)
    };
    let ((ann, of_ann), (bob, of_bob)) = (user("ann"), user("bob"));
    let owners = |document: &Value| -> Vec<i64> {
        let rows = document["rows"].as_array().unwrap();
        rows.iter().map(|row| row["owner"].as_i64().unwrap()).collect()
    };

    let wrong = [("Authorization", "Bearer wrong")];
    assert!(Socket::try_open(server.local_addr(), &wrong).is_err());
    let mut socket = Socket::open(server.local_addr(), &[]);
    let subscribe = json!({ "type": "subscribe", "id": "a", "url": "note" });
    assert_eq!(socket.refused(&subscribe).0, 401);
    socket.send(&json!({ "type": "token", "token": of_ann }));
    socket.send(&subscribe);
    assert_eq!(socket.next()["type"], "snapshot");
    assert_eq!(owners(&socket.documents["a"]), [ann]);

    // Subscriptions continue with the next token, here of another user, from the next change on.
    socket.send(&json!({ "type": "token", "token": of_bob }));
    let insert = |owner: i64| {
        let mut note = marmota_model::Record::new(std::sync::Arc::clone(&notes));
        note.set("owner", owner).unwrap();
        store.insert_record(&note).run().unwrap();
    };
    // A message that is answered shows that the token has arrived.
    assert_eq!(socket.refused(&subscribe).0, 400);
    insert(ann);
    assert_eq!(socket.next()["type"], "snapshot");
    assert_eq!(owners(&socket.documents["a"]), [bob]);

    // Rights that are taken away end the subscription; the socket stays open.
    auth.set_group("writers", &[]).unwrap();
    let ended = socket.next();
    assert_eq!((&ended["type"], &ended["error"]["status"]), (&json!("error"), &json!(403)));
    assert_eq!(socket.refused(&subscribe).0, 403);
    socket.send(&json!({ "type": "token", "token": "wrong" }));
    assert_eq!(socket.refused(&subscribe).0, 401);
}
