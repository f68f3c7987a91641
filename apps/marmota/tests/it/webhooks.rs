//! Webhooks of an application without Rust code: the file, REST for administrators, and `webhook`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::application::Served;
use crate::program::Folder;

const TABLES: &str = r#"
[tables.note.fields]
id = { kind = "integer", role = "key" }
text = "text"
done = { kind = "boolean", default = false }

[[groups.everyone.grants]]
table = "note"
rights = ["read", "insert", "update"]

[webhooks.chat]
url = "URL"
table = "note"
filter = "done = true"
fields = ["text"]
secret_env = "CHAT_SECRET"
"#;

/// Starts a receiver, and returns its URL and the bodies of requests.
fn receiver() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            let _ = sender.send(String::from_utf8(body).unwrap());
        }
    });
    (url, bodies)
}

fn next(bodies: &Receiver<String>) -> Value {
    serde_json::from_str(&bodies.recv_timeout(Duration::from_secs(30)).unwrap()).unwrap()
}

#[test]
fn webhooks_of_a_file_are_sent_listed_and_replayed() {
    let folder = Folder::new();
    let (url, bodies) = receiver();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let write = |name: &str, text: &str| std::fs::write(folder.0.path().join(name), text).unwrap();
    write("app.toml", &TABLES.replace("URL", &url));
    write("marmota.toml", "auth = true\nwebhook_allow_private = true\n");
    let said = folder.run(&["serve", "--listen", "127.0.0.1:0"]).with(1);
    assert!(said.contains("there is no environment variable `CHAT_SECRET`"), "{said}");
    let served = Served::start_with(&folder, &[], &[("CHAT_SECRET", secret)]);
    let admin = served.log_in();

    let at = "/api/-/webhooks";
    assert_eq!(served.request("GET", at, "", &Value::Null).0, 401);
    let body = json!({ "name": "bob", "groups": [] });
    let (_, bob) = served.request("POST", "/api/auth/users", &admin, &body);
    let password = "correct horse battery";
    let body = json!({ "name": "bob", "token": bob["token"], "password": password });
    assert_eq!(served.request("POST", "/api/auth/set-password", "", &body).0, 204);
    let body = json!({ "name": "bob", "password": password });
    let bob = served.request("POST", "/api/auth/login", "", &body).1["token"].clone();
    assert_eq!(served.request("GET", at, bob.as_str().unwrap(), &Value::Null).0, 403);

    let note = json!({ "text": "milk" });
    assert_eq!(served.request("POST", "/api/note", &admin, &note).0, 201);
    let done = json!({ "text": "bread", "done": true });
    assert_eq!(served.request("PATCH", "/api/note/1", &admin, &done).0, 200);
    let sent = next(&bodies);
    assert_eq!(sent["type"], "note.update");
    assert_eq!(sent["data"]["after"], json!({ "id": 1, "text": "bread" }));

    let (status, all) = served.request("GET", at, &admin, &Value::Null);
    assert_eq!((status, &all["webhooks"][0]["state"]), (200, &json!("enabled")), "{all}");
    assert!(!all.to_string().contains("whsec_"), "{all}");
    let deliveries = format!("{at}/chat/deliveries?state=delivered");
    let mut found = Value::Null;
    for _ in 0..200 {
        found = served.request("GET", &deliveries, &admin, &Value::Null).1;
        if found["deliveries"][0]["status"] == 204 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = found["deliveries"][0]["id"].as_i64().unwrap_or_else(|| panic!("{found}"));
    let replay = json!({ "delivery": id });
    assert_eq!(served.request("POST", &format!("{at}/chat/replay"), &admin, &replay).0, 200);
    assert_eq!(next(&bodies), sent);

    let said = folder.run(&["webhook", "replay", "chat", &id.to_string()]).with(0);
    assert_eq!(said, "chat: 1 delivery is sent again\n");
    assert_eq!(next(&bodies), sent);
    assert_eq!(folder.run(&["webhook", "secret", "chat"]).with(0).trim(), secret);
    let said = folder.run(&["webhook", "disable", "chat"]).with(0);
    assert!(said.starts_with("chat  disabled  note  http://127.0.0.1:"), "{said}");
    folder.run(&["webhook", "enable", "chat"]).with(0);
    let said = folder.run(&["webhook", "deliveries", "chat"]).with(0);
    assert!(said.contains("note.update  1  3 attempts"), "{said}");
    let said = folder.run(&["webhook", "replay", "mail", "--failed"]).with(1);
    assert!(said.contains("there is no webhook `mail`"), "{said}");

    let other = json!({ "url": url, "table": "notes" });
    let (status, refused) = served.request("PUT", &format!("{at}/mail"), &admin, &other);
    assert_eq!(status, 404, "{refused}");
    let other = json!({ "url": url, "table": "note", "kinds": ["insert"] });
    let (status, made) = served.request("PUT", &format!("{at}/mail"), &admin, &other);
    assert_eq!((status, &made["kinds"]), (200, &json!(["insert"])), "{made}");
    let (_, secret) = served.request("GET", &format!("{at}/mail/secret"), &admin, &Value::Null);
    assert!(secret["secret"].as_str().unwrap().starts_with("whsec_"), "{secret}");
    assert_eq!(served.request("POST", "/api/note", &admin, &note).0, 201);
    assert_eq!(next(&bodies)["type"], "note.insert");
    assert_eq!(served.request("DELETE", &format!("{at}/mail"), &admin, &Value::Null).0, 204);
}

#[test]
fn webhooks_that_the_file_loses_are_disabled_until_they_return() {
    let folder = Folder::new();
    let (url, bodies) = receiver();
    let write = |text: &str| std::fs::write(folder.0.path().join("app.toml"), text).unwrap();
    let whole = TABLES.replace("URL", &url).replace("secret_env = \"CHAT_SECRET\"\n", "");
    write(&whole);
    std::fs::write(
        folder.0.path().join("marmota.toml"),
        "auth = true\nwebhook_allow_private = true\n",
    )
    .unwrap();
    let done = json!({ "text": "bread", "done": true });
    let at = "/api/-/webhooks";
    let (secret, admin);
    {
        let served = Served::start_with(&folder, &[], &[]);
        admin = served.log_in();
        assert_eq!(served.request("POST", "/api/note", &admin, &done).0, 201);
        assert_eq!(next(&bodies)["type"], "note.insert");
        let other = json!({ "url": url, "table": "note", "kinds": ["update"] });
        assert_eq!(served.request("PUT", &format!("{at}/mail"), &admin, &other).0, 200);
        secret = folder.run(&["webhook", "secret", "chat"]).with(0);
        let document = served.request("GET", "/api/openapi.json", &admin, &Value::Null).1;
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.keys().filter(|path| path.starts_with(at)).count(), 7);
    }
    write(whole.split_once("[webhooks.chat]").unwrap().0);
    {
        let served = Served::start_with(&folder, &["--webhooks"], &[]);
        let all = served.request("GET", at, &admin, &Value::Null).1;
        let shown = |at: usize, name: &str| all["webhooks"][at][name].as_str().unwrap_or_default();
        assert_eq!((shown(0, "name"), shown(0, "state")), ("chat", "disabled"), "{all}");
        assert!(shown(0, "reason").contains("does not define it any more"), "{all}");
        assert_eq!((shown(1, "name"), shown(1, "state")), ("mail", "enabled"), "{all}");
        assert_eq!(served.request("POST", "/api/note", &admin, &done).0, 201);
        let changed = json!({ "text": "milk" });
        assert_eq!(served.request("PATCH", "/api/note/2", &admin, &changed).0, 200);
        assert_eq!(next(&bodies)["type"], "note.update", "the insert is for `chat`");
    }
    write(&whole);
    let served = Served::start_with(&folder, &[], &[]);
    assert_eq!(folder.run(&["webhook", "secret", "chat"]).with(0), secret);
    assert_eq!(served.request("POST", "/api/note", &admin, &done).0, 201);
    // The server was killed, so commits of the time before can be handled again.
    let sent = std::iter::repeat_with(|| next(&bodies)).find(|sent| sent["data"]["key"] == 3);
    assert_eq!(sent.unwrap()["type"], "note.insert");
}

#[test]
fn a_database_without_webhooks_is_not_changed() {
    let folder = Folder::new();
    folder.run(&["migrate"]).with(0);
    let said = folder.run(&["webhook", "list"]).with(1);
    assert!(said.contains("has no webhooks: start the program with `serve --webhooks`"), "{said}");
}
