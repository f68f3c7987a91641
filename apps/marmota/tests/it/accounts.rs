//! Subcommands for operators: accounts, `doctor`, completions.

use serde_json::{Value, json};

use crate::application::Served;
use crate::program::Folder;

/// The default port may be used by another program of this machine.
const ANY_PORT: &str = "--listen=127.0.0.1:0";

/// Returns the JSON that a subcommand prints.
fn printed(folder: &Folder, words: &[&str]) -> Value {
    serde_json::from_str(&folder.run(words).with(0)).unwrap()
}

#[test]
fn users_are_added_changed_and_removed() {
    let folder = Folder::new();
    let said =
        folder.run(&["group", "set", "staff", r#"[{"table":"person","rights":["read"]}]"#]).with(0);
    assert_eq!(said, "staff is set\n");
    let said = folder.run(&["user", "add", "ada", "--group", "staff", "--admin"]).with(0);
    assert!(said.starts_with("ada can set a password with the token "), "{said}");
    let said = folder.run(&["user", "add", "ada"]).with(1);
    assert!(said.contains("ada"), "{said}");
    let said = folder.run(&["user", "add", "bob", "--group", "stuff"]).with(1);
    assert!(said.contains("stuff"), "{said}");
    folder.run(&["user", "disable", "ada"]).with(0);
    let said = folder.run(&["user", "list"]).with(0);
    assert!(said.contains("ada    staff, administrator, disabled, no password yet\n"), "{said}");
    folder.run(&["user", "enable", "ada"]).with(0);
    assert_eq!(folder.run(&["user", "groups", "ada"]).with(0), "ada has no groups\n");
    let users = printed(&folder, &["user", "list", "--json"]);
    let ada = users.as_array().unwrap().iter().find(|user| user["name"] == "ada").unwrap();
    assert_eq!(ada["groups"], serde_json::json!([]));
    assert_eq!(ada["is_disabled"], false);
    assert!(folder.run(&["user", "reset", "ada"]).with(0).contains("token"));
    folder.run(&["user", "remove", "ada"]).with(0);
    let said = folder.run(&["user", "reset", "ada"]).with(1);
    assert!(said.contains("there is no user `ada`; `user list` shows the users"), "{said}");
}

#[test]
fn groups_and_keys_are_listed_and_removed() {
    let folder = Folder::new();
    let grants = r#"[{"table":"person","rights":["read","update"],"rule":"year_of_birth < 1900"}]"#;
    folder.run(&["group", "set", "readers", grants]).with(0);
    let said = folder.run(&["group", "list"]).with(0);
    assert_eq!(said, "readers  person: read, update if year_of_birth < 1900\n");
    let said =
        folder.run(&["group", "set", "readers", "[{\"table\":\"persons\",\"rights\":[]}]"]).with(1);
    assert!(said.contains("persons"), "{said}");
    let said = folder.run(&["group", "set", "readers", "read"]).with(1);
    assert!(said.contains("not a JSON array of grants"), "{said}");
    folder.run(&["user", "add", "reports", "--group", "readers"]).with(0);
    let key = folder.run(&["key", "add", "reports", "nightly export", "--days", "30"]).with(0);
    assert!(key.trim().len() > 20, "{key}");
    let keys = printed(&folder, &["key", "list", "reports", "--json"]);
    assert_eq!(keys[0]["name"], "nightly export");
    let id = keys[0]["id"].to_string();
    folder.run(&["key", "revoke", "reports", &id]).with(0);
    assert_eq!(folder.run(&["key", "list", "reports"]).with(0), "");
    folder.run(&["key", "revoke", "reports", &id]).with(1);
    assert_eq!(folder.run(&["group", "remove", "readers"]).with(0), "readers is removed\n");
    assert_eq!(folder.run(&["group", "list"]).with(0), "");
}

#[test]
fn doctor_finds_what_makes_serve_fail() {
    let folder = Folder::new();
    let said = folder.run(&["doctor", "--listen", "127.0.0.1:0"]).with(0);
    assert!(said.contains("sqlite:data/marmota.db is created at the first start"), "{said}");
    folder.run(&["migrate"]).with(0);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = folder.run(&["doctor", "--listen", &address]).with(1);
    // The width of a column is that of its longest cell.
    let cells = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(cells.contains("ok database sqlite:data/marmota.db matches the models"), "{said}");
    assert!(cells.contains(&format!("failed address {address}: ")), "{said}");
    std::fs::write(folder.0.path().join("data/marmota.db"), "not a database").unwrap();
    let output = folder.run(&["doctor", "--listen", "127.0.0.1:0", "--json"]);
    assert_eq!(output.code, 1, "{}", output.err);
    let findings: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(findings[0]["health"], "failed", "{findings}");
}

#[test]
fn completions_have_the_subcommands() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = folder.run(&["completions", shell]).with(0);
        assert!(script.contains("completions") && script.contains("migrate"), "{shell}");
    }
}

#[test]
fn a_table_of_an_application_file_needs_a_recent_authentication() {
    let folder = Folder::new();
    folder.run(&["new", "shop"]).with(0);
    let shop = folder.within("shop");
    let file = shop.0.path().join("app.toml");
    let payments = "\n[tables.payment]\nstep_up = \"5m\"\n\n[tables.payment.fields]\nid = { kind = \"integer\", role = \"key\" }\namount = \"integer\"\n";
    let text = std::fs::read_to_string(&file).unwrap() + payments;
    std::fs::write(&file, text).unwrap();
    let served = Served::start(&shop, &[]);
    let admin = served.log_in();
    let payment = json!({ "amount": 5 });
    assert_eq!(served.request("POST", "/api/payment", &admin, &payment).0, 201);
    // A key never has a recent authentication.
    let key = served.request("POST", "/api/auth/keys", &admin, &json!({ "name": "shop" })).1;
    let key = key["key"].as_str().unwrap();
    let (status, refused) = served.request("POST", "/api/payment", key, &payment);
    assert_eq!((status, &refused["errors"][0]["rule"]), (403, &json!("step-up")), "{refused}");
    assert_eq!(served.request("GET", "/api/payment", key, &Value::Null).0, 200);
    assert_eq!(served.request("POST", "/api/note", key, &json!({ "text": "milk" })).0, 201);
    let password = json!({ "password": "correct horse battery" });
    assert_eq!(served.request("POST", "/api/auth/step-up", key, &password).0, 403);
    assert_eq!(served.request("POST", "/api/auth/step-up", &admin, &password).0, 204);
    assert_eq!(served.request("POST", "/api/payment", &admin, &payment).0, 201);
}

#[test]
fn logs_and_backups_are_not_for_everyone() {
    let folder = Folder::new();
    for option in ["--live-log=10", "--backups=backups"] {
        let said = folder.run(&["serve", ANY_PORT, option]).with(1);
        let (name, _) = option.split_once('=').unwrap();
        assert!(said.contains(&format!("{name} is for administrators")), "{said}");
        assert!(said.contains("add --auth"), "{said}");
    }
}

#[test]
#[cfg(feature = "passkeys")]
fn passkeys_need_users_and_the_public_url() {
    let folder = Folder::new();
    let said = folder.run(&["serve", ANY_PORT, "--passkeys"]).with(1);
    assert!(said.contains("--passkeys is for users: add --auth"), "{said}");
    let said = folder.run(&["serve", ANY_PORT, "--auth", "--passkeys"]).with(1);
    assert!(said.contains("add --public-url"), "{said}");
    let url = "--public-url=http://192.0.2.1";
    let said = folder.run(&["serve", ANY_PORT, "--auth", "--passkeys", url]).with(1);
    assert!(said.contains("`http://192.0.2.1`: its host is an address"), "{said}");
}
