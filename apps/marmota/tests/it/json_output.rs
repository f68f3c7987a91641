//! `--json`: results as documents of JSON, on standard output alone.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::application::Served;
use crate::program::Folder;

/// Runs a subcommand with `--json`, and returns what it printed.
fn printed(folder: &Folder, words: &str, code: i32) -> Value {
    let words: Vec<&str> = words.split(' ').chain(["--json"]).collect();
    let output = folder.program(&words).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {text} {errors}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
}

#[test]
fn results_of_an_application_are_json() {
    let folder = Folder::new();
    let new = printed(&folder, "new shop", 0);
    assert_eq!(new, json!({"folder": "shop", "files": ["app.toml", "marmota.toml", ".gitignore"]}));
    let shop = folder.within("shop");
    let checked = printed(&shop, "schema check", 0);
    assert_eq!(checked, json!({ "file": "app.toml", "tables": 1, "groups": 1 }));
    assert_eq!(printed(&shop, "config check", 0), json!({ "settings": 8 }));
    let client = printed(&shop, "client ts --out client", 0);
    assert!(client["files"].as_array().unwrap().len() > 2, "{client}");
    let files = printed(&shop, "deploy-files --out deploy", 0);
    assert_eq!(files["files"].as_array().unwrap().len(), 8, "{files}");

    let plan = printed(&shop, "schema diff", 3);
    assert_eq!((&plan["is_applied"], &plan["refusal"]), (&json!(false), &Value::Null), "{plan}");
    let step = &plan["steps"][0];
    assert_eq!((&step["effect"], &step["is_wanted"]), (&json!("safe"), &json!(true)), "{plan}");
    assert!(step["statements"][0].as_str().unwrap().starts_with("CREATE TABLE"), "{plan}");
    assert_eq!(printed(&shop, "schema apply", 0)["is_applied"], true);
    assert_eq!(printed(&shop, "migrate --dry-run", 0)["steps"], json!([]));
    assert_eq!(printed(&shop, "migrate --status", 0), json!([]));

    std::fs::write(shop.0.path().join("notes.csv"), "text\nmilk\nbread\n").unwrap();
    let imported = printed(&shop, "import note notes.csv", 0);
    let rows = json!({
        "file": "notes.csv", "table": "note", "rows": 2, "is_imported": true, "errors": [],
    });
    assert_eq!(imported, rows);
    std::fs::write(shop.0.path().join("bad.csv"), "text\n\"\"\nbread\n").unwrap();
    let refused = printed(&shop, "import note bad.csv", 1);
    assert_eq!(refused["is_imported"], false);
    assert!(refused["errors"][0].as_str().unwrap().starts_with("2: text"), "{refused}");

    let backup = printed(&shop, "backup --folder backups --keep 1", 0);
    let copy = &backup["copies"][0];
    assert!(copy["bytes"].as_u64().unwrap() > 0 && copy["rows"].as_u64().unwrap() >= 2, "{backup}");
    let again = printed(&shop, "backup --folder backups --keep 1", 0);
    assert_eq!(again["removed"].as_array().unwrap().len(), 1, "{again}");
    let file = again["copies"][0]["file"].as_str().unwrap();
    let restored = printed(&shop, &format!("restore {file} --db sqlite:other.db"), 0);
    assert_eq!(restored["databases"][0]["rows"], again["copies"][0]["rows"], "{restored}");
    let moved = printed(&shop, "move --from sqlite:other.db --to sqlite:third.db", 0);
    let tables = moved["tables"].as_array().unwrap();
    let note = tables.iter().find(|table| table["table"] == "note").unwrap();
    assert_eq!((&note["rows"], &note["rows_before"]), (&json!(2), &json!(0)), "{moved}");

    let adopted = printed(&shop, "schema adopt sqlite:other.db", 0);
    assert!(adopted["app"]["tables"]["note"].is_object(), "{adopted}");
    let adopted = printed(&shop, "schema adopt sqlite:other.db --out adopted.toml", 0);
    assert_eq!((&adopted["file"], &adopted["app"]), (&json!("adopted.toml"), &Value::Null));
}

#[test]
fn results_for_operators_are_json() {
    let folder = Folder::new();
    folder.run(&["new", "shop"]).with(0);
    let shop = folder.within("shop");
    let added = printed(&shop, "user add ada --admin", 0);
    assert_eq!((&added["name"], &added["valid_hours"]), (&json!("ada"), &json!(24)), "{added}");
    assert!(printed(&shop, "user reset ada", 0)["token"].as_str().unwrap().starts_with("m"));
    printed(&shop, "user add eve", 0);
    let disabled = printed(&shop, "user disable eve", 0);
    assert_eq!(disabled, json!({ "name": "eve", "is_disabled": true }));
    printed(&shop, "user enable eve", 0);
    let set = printed(&shop, r#"group set staff [{"table":"note","rights":["read"]}]"#, 0);
    assert_eq!(set["grants"][0]["table"], "note", "{set}");
    let groups = printed(&shop, "user groups eve staff", 0);
    assert_eq!(groups, json!({ "name": "eve", "groups": ["staff"] }));
    assert_eq!(printed(&shop, "user groups eve", 0)["groups"], json!([]));
    assert_eq!(printed(&shop, "group remove staff", 0)["is_removed"], true);
    let key = printed(&shop, "key add eve nightly", 0);
    assert!(key["key"].is_string() && key["user"] == "eve", "{key}");
    let revoke = format!("key revoke eve {}", key["id"]);
    assert_eq!(printed(&shop, &revoke, 0)["is_revoked"], true);
    assert_eq!(printed(&shop, "user remove eve", 0)["is_removed"], true);
    let users = printed(&shop, "user list", 0);
    assert!(users.as_array().unwrap().iter().any(|user| user["name"] == "ada"), "{users}");

    let served = Served::start(&shop, &["--webhooks"]);
    let address = served.url.trim_start_matches("http://");
    let health = printed(&shop, &format!("healthcheck --listen {address}"), 0);
    assert_eq!(health["address"], address, "{health}");
    assert!(health["status"].as_u64().unwrap() < 500, "{health}");
    drop(served);
    assert_eq!(printed(&shop, "webhook list", 0), json!([]));
    // An error is text, as without the option.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let words = ["healthcheck", "--listen", &free.to_string(), "--json"];
    assert!(shop.run(&words).with(1).contains("does not answer"));
}

#[test]
fn results_of_test_runs_are_json() {
    let folder = Folder::new();
    let stress = printed(&folder, "stress --rows 200 --threads 2 --transport in-process", 0);
    assert_eq!((&stress["failed"], &stress["faults"]), (&json!(0), &json!([])), "{stress}");
    assert_eq!(stress["runs"][0]["threads"], 2, "{stress}");
    let prove = printed(&folder, "prove --seeds 1 --steps 5 --cuts 2", 0);
    assert_eq!((&prove["failed"], &prove["runs"][0]["seed"]), (&json!(0), &json!(1)), "{prove}");
}
