//! Two browsers edit the board of one server.
#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

const WAIT_MAX: Duration = Duration::from_secs(30);

/// A server that is killed at the end.
struct Board(Child);

impl Drop for Board {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// ChromeDriver, which ends its browsers when it is terminated.
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Starts the board, and returns its URL.
fn board(address: &str, folder: &Path) -> (Board, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_board"));
    program.args([address, "sqlite:board.db"]).current_dir(folder);
    let mut process = Board(program.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().last().unwrap().to_owned();
    (process, url)
}

/// Starts ChromeDriver (the package `chromium-driver`), and returns its URL.
fn driver() -> (Driver, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut program = Command::new("chromedriver");
    program.arg(format!("--port={port}")).stdout(Stdio::null()).stderr(Stdio::null());
    (Driver(program.spawn().unwrap()), format!("http://127.0.0.1:{port}"))
}

/// A page with the board.
struct Page(Client);

impl Page {
    async fn open(driver: &str, board: &str) -> Self {
        let options = json!({
            "args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
        });
        let wanted: Value = json!({ "goog:chromeOptions": options });
        let begun = Instant::now();
        let client = loop {
            let mut builder = ClientBuilder::new(HttpConnector::new());
            builder.capabilities(wanted.as_object().unwrap().clone());
            match builder.connect(driver).await {
                Ok(client) => break client,
                Err(error) => assert!(begun.elapsed() < WAIT_MAX, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        client.goto(board).await.unwrap();
        let page = Self(client);
        page.shows("document.getElementById('status').textContent", &json!("Live")).await;
        page
    }

    /// Waits until an expression has a value.
    async fn shows(&self, expression: &str, expected: &Value) {
        let begun = Instant::now();
        loop {
            let found = self.0.execute(&format!("return {expression}"), Vec::new()).await.unwrap();
            if found == *expected {
                return;
            }
            assert!(begun.elapsed() < WAIT_MAX, "{expression}: {found}, not {expected}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the columns have these texts.
    async fn has(&self, columns: [&[&str]; 3]) {
        let texts = "['todo', 'doing', 'done'].map(id => \
                     [...document.querySelectorAll(`#${id} li input`)].map(card => card.value))";
        self.shows(texts, &json!(columns)).await;
    }

    async fn add(&self, column: &str, text: &str) {
        let field = format!("#{column} form input");
        self.0.find(Locator::Css(&field)).await.unwrap().send_keys(text).await.unwrap();
        self.click(&format!("#{column} form button")).await;
    }

    async fn click(&self, selector: &str) {
        self.0.find(Locator::Css(selector)).await.unwrap().click().await.unwrap();
    }
}

#[test]
fn two_browsers_see_the_same_board() {
    let folder = tempfile::tempdir().unwrap();
    let (server, url) = board("127.0.0.1:0", folder.path());
    let (_driver, driver) = driver();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (ada, bob) = (Page::open(&driver, &url).await, Page::open(&driver, &url).await);
        ada.add("todo", "Read").await;
        bob.has([&["Read"], &[], &[]]).await;
        bob.add("todo", "Write").await;
        bob.add("done", "Sleep").await;
        ada.has([&["Read", "Write"], &[], &["Sleep"]]).await;

        // Bob's text that is not sent yet stays while Ada changes other cards.
        let field = bob.0.find(Locator::Css("#card-2 input")).await.unwrap();
        field.send_keys(" a test").await.unwrap();
        ada.click("#card-1 button[aria-label='Move to Doing']").await;
        bob.has([&["Write a test"], &["Read"], &["Sleep"]]).await;
        ada.has([&["Write"], &["Read"], &["Sleep"]]).await;
        field.send_keys("\u{e007}").await.unwrap();
        ada.has([&["Write a test"], &["Read"], &["Sleep"]]).await;

        // What a rule refuses is shown to who typed it, and to no one else.
        let field = ada.0.find(Locator::Css("#card-3 input")).await.unwrap();
        field.clear().await.unwrap();
        ada.shows("document.getElementById('status').textContent.includes('empty')", &json!(true))
            .await;
        ada.has([&["Write a test"], &["Read"], &["Sleep"]]).await;

        // Both pages continue after the server was killed.
        drop(server);
        let reconnecting = json!("Reconnecting …");
        ada.shows("document.getElementById('status').textContent", &reconnecting).await;
        let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let (_server, url) = board(&address, folder.path());
        let store = format!("{}/api/card/3", url.trim_end_matches('/'));
        let delete = format!("fetch('{store}', {{ method: 'DELETE' }})");
        bob.0.execute(&delete, Vec::new()).await.unwrap();
        for page in [&ada, &bob] {
            page.has([&["Write a test"], &["Read"], &[]]).await;
        }
        ada.0.close().await.unwrap();
        bob.0.close().await.unwrap();
    });
}
