//! Databases of other programs in the administration: tables are listed, rows edited and exported.

use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_sqlite::Sqlite;
use serde_json::json;

use crate::browser::{Browser, Driver, Look, run};
use crate::existing_databases::{MUSIC, forty_tables};
use crate::program::Program;

const PASSWORD: &str = "correct horse battery";

/// Adopts a database, and serves it.
fn adopt(folder: tempfile::TempDir, arguments: &[&str], url: &str) -> Program {
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_marmota"));
    program.args(["schema", "adopt"]).args(arguments).args(["--out", "app.toml"]);
    let adopted = program.current_dir(folder.path()).output().unwrap();
    assert!(adopted.status.success(), "{adopted:?}");
    Program::start_in(folder, &["--auth", "--db", url], &[])
}

async fn sign_in(page: &Browser, program: &Program) {
    page.open(&program.address_with("#/set-password")).await;
    page.fill("New password", PASSWORD).await;
    page.press("Set password").await;
    page.shows("All tables").await;
}

/// Opens a table, changes a field of its first row, and exports its rows.
async fn edit(page: &Browser, program: &Program, table: &str, field: &str, value: &str) {
    page.open("about:blank").await;
    page.open(&format!("{}/admin#/table/{table}", program.url)).await;
    page.wait("document.querySelector('[role=grid] tbody a')").await;
    page.run("document.querySelector('[role=grid] tbody a').click()").await;
    page.shows("Save").await;
    page.fill(field, value).await;
    page.press("Save").await;
    page.shows("Saved").await;
    page.open("about:blank").await;
    page.open(&format!("{}/admin#/table/{table}", program.url)).await;
    page.shows(value).await;
    let keep = "const make = URL.createObjectURL
        URL.createObjectURL = file => { file.text().then(text => { window.exported = text }); return make(file) }";
    page.run(keep).await;
    page.press("Export as CSV").await;
    page.wait("window.exported").await;
    let exported = page.run("return window.exported").await;
    let exported = exported.as_str().unwrap();
    let has_field = exported.lines().next().unwrap().split(',').any(|name| name == field);
    assert!(has_field && exported.contains(value), "{table}: {exported}");
    let rows = page.run("return document.querySelectorAll('[role=grid] tbody tr').length").await;
    assert_eq!(json!(exported.lines().count() - 1), rows, "{table}: {exported}");
}

#[test]
fn a_music_shop_is_edited_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("chinook.db").display());
    Sqlite::from_url(&url).unwrap().execute(MUSIC).unwrap();
    let program = adopt(folder, &["sqlite:chinook.db"], "sqlite:chinook.db");
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        sign_in(&page, &program).await;
        for (table, field, value) in [
            ("Album", "Title", "Back in Black"),
            ("Artist", "Name", "ABBA"),
            ("Customer", "Email", "lou@example.org"),
            ("Employee", "LastName", "Lin"),
            ("Genre", "Name", "Jazz"),
            ("Invoice", "Total", "5.5"),
            ("InvoiceLine", "Quantity", "3"),
            ("MediaType", "Name", "AAC"),
            ("Playlist", "Name", "Mine"),
            ("Track", "Name", "Go Up"),
            ("Vote", "Points", "9"),
        ] {
            edit(&page, &program, table, field, value).await;
        }
        page.open("about:blank").await;
        page.open(&format!("{}/admin#/table/PlaylistTrack", program.url)).await;
        page.shows("1,1").await;
        page.is_accessible("existing").await;
        page.loads_nothing_foreign().await;
        page.close().await;
    });
}

#[test]
fn forty_tables_of_postgresql_are_listed_and_some_edited() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let plain = server.make_database().unwrap();
    Postgres::from_url(&plain).unwrap().execute(&forty_tables()).unwrap();
    let sign = if plain.contains('?') { '&' } else { '?' };
    let url = format!("{plain}{sign}schema=shop");
    let folder = tempfile::tempdir().unwrap();
    let program = adopt(folder, &[&plain, "--schema", "shop"], &url);
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        sign_in(&page, &program).await;
        for number in 0..40 {
            page.open("about:blank").await;
            page.open(&format!("{}/admin#/table/t{number}", program.url)).await;
            page.wait("document.querySelectorAll('[role=grid] tbody tr').length === 1").await;
        }
        // The keys are an integer, a UUID, a text, and one that the database counts.
        for table in ["t0", "t1", "t2", "t3"] {
            edit(&page, &program, table, "name", "changed").await;
        }
        edit(&page, &program, "Order", "select", "another word").await;
        // Composite keys.
        edit(&page, &program, "pair", "note", "of a pair").await;
        edit(&page, &program, "visit", "note", "of a visit").await;
        page.close().await;
    });
}
