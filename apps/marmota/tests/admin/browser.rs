//! Pages in Chromium, with ways to find elements by the words that people read.

use std::cell::Cell;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fantoccini::elements::Element;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use url::{ParseError, Url};

const WAIT_MAX: Duration = Duration::from_secs(30);
/// The version; `xtask` installs it.
const AXE: &str = "../../target/tools/axe-core-4.14.1/node_modules/axe-core/axe.min.js";

/// How a page is shown.
#[derive(Clone, Copy)]
pub(crate) enum Look {
    Light,
    Dark,
    Phone,
}

/// ChromeDriver, which ends its browsers when it is terminated.
pub(crate) struct Driver {
    process: Child,
    url: String,
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

impl Driver {
    /// Starts ChromeDriver (the package `chromium-driver`).
    pub(crate) fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut program = Command::new("chromedriver");
        program.arg(format!("--port={port}")).stdout(Stdio::null()).stderr(Stdio::null());
        Self { process: program.spawn().unwrap(), url: format!("http://127.0.0.1:{port}") }
    }

    /// Opens a browser of its own, without the cookies of others.
    pub(crate) async fn browser(&self, look: Look) -> Browser {
        let mut arguments =
            vec!["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"];
        arguments.push(match look {
            Look::Phone => "--window-size=500,900",
            Look::Light | Look::Dark => "--window-size=1280,900",
        });
        if matches!(look, Look::Dark) {
            arguments.push("--blink-settings=preferredColorScheme=0");
        }
        let mut options = json!({ "args": arguments });
        if matches!(look, Look::Phone) {
            let metrics = json!({ "width": 390, "height": 844, "pixelRatio": 2.0, "touch": true });
            options["mobileEmulation"] = json!({ "deviceMetrics": metrics });
        }
        let wanted: Value = json!({
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let begun = Instant::now();
        let client = loop {
            let mut builder = ClientBuilder::new(HttpConnector::new());
            builder.capabilities(wanted.as_object().unwrap().clone());
            match builder.connect(&self.url).await {
                Ok(client) => break client,
                Err(error) => assert!(begun.elapsed() < WAIT_MAX, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        Browser { client, actions: Cell::new(0) }
    }
}

/// The command that adds an authenticator for passkeys (WebAuthn Level 3, 11.3). It verifies the person by
/// itself.
#[derive(Debug)]
struct AddAuthenticator;

impl WebDriverCompatibleCommand for AddAuthenticator {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/webauthn/authenticator", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &Url) -> (http::Method, Option<String>) {
        let body = json!({
            "protocol": "ctap2", "transport": "internal", "hasResidentKey": true,
            "hasUserVerification": true, "isUserConsenting": true, "isUserVerified": true,
        });
        (http::Method::POST, Some(body.to_string()))
    }
}

/// One browser.
pub(crate) struct Browser {
    client: Client,
    /// What a person has done: pages opened, controls filled and pressed.
    pub(crate) actions: Cell<u32>,
}

impl Browser {
    pub(crate) async fn open(&self, url: &str) {
        self.goto(url).await;
        if url == "about:blank" {
            return;
        }
        self.wait("document.querySelector('h1') && !document.querySelector('h1').textContent.includes('Loading')").await;
        self.settled().await;
    }

    /// Gives the browser an authenticator in software, without passkeys.
    pub(crate) async fn add_authenticator(&self) {
        self.client.issue_cmd(AddAuthenticator).await.unwrap();
    }

    /// Counts an action.
    pub(crate) fn acted(&self) {
        self.actions.set(self.actions.get() + 1);
    }

    /// Opens a page that is not one of the administration.
    pub(crate) async fn goto(&self, url: &str) {
        self.acted();
        self.client.goto(url).await.unwrap();
    }

    /// Waits until the page is complete.
    pub(crate) async fn settled(&self) {
        self.wait("!document.querySelector('[aria-busy]')").await;
    }

    pub(crate) async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap()
    }

    /// Waits until an expression is true.
    pub(crate) async fn wait(&self, expression: &str) {
        let begun = Instant::now();
        while self.run(&format!("return !!({expression})")).await != json!(true) {
            if begun.elapsed() > WAIT_MAX {
                let text = self.run("return document.body.innerText").await;
                self.screenshot("failed").await;
                panic!("{expression}\n{}", text.as_str().unwrap());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the page has this text.
    pub(crate) async fn shows(&self, text: &str) {
        self.wait(&format!("document.body.innerText.includes({})", json!(text))).await;
    }

    /// Waits until the page does not have this text.
    pub(crate) async fn hides(&self, text: &str) {
        self.wait(&format!("!document.body.innerText.includes({})", json!(text))).await;
    }

    async fn find(&self, path: &str) -> Element {
        let begun = Instant::now();
        loop {
            // An open dialog is in front of everything else.
            let script = "const dialog = [...document.querySelectorAll('dialog[open]')].at(-1)
                const found = document.evaluate(arguments[0], dialog ?? document, null, 7, null)
                for (let at = 0; at < found.snapshotLength; at += 1) {
                    if (found.snapshotItem(at).checkVisibility()) return found.snapshotItem(at)
                }
                return null";
            let found = self.client.execute(script, vec![json!(path)]).await.unwrap();
            let id = found.as_object().and_then(|found| found.values().next()?.as_str());
            if let Some(id) = id {
                return Element::from_element_id(self.client.clone(), id.to_owned().into());
            }
            if begun.elapsed() > WAIT_MAX {
                let text = self.run("return document.body.innerText").await;
                self.screenshot("failed").await;
                panic!("no {path}\n{}", text.as_str().unwrap());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the control with a label.
    pub(crate) async fn control(&self, label: &str) -> Element {
        let named = format!(
            ".//label[normalize-space(text())='{label}']/following-sibling::*/descendant-or-self::*\
             [self::input or self::select or self::textarea]"
        );
        let within = format!(".//label[normalize-space(.)='{label}']/input");
        let aria = format!(".//*[@aria-label='{label}']");
        self.find(&format!("({named} | {within} | {aria})")).await
    }

    /// Clears a control and types into it.
    pub(crate) async fn fill(&self, label: &str, text: &str) {
        self.acted();
        let control = self.control(label).await;
        control.clear().await.unwrap();
        control.send_keys(text).await.unwrap();
    }

    /// Adds to the text of a control; for a control of files, chooses the file of this path.
    pub(crate) async fn add(&self, label: &str, text: &str) {
        self.acted();
        self.control(label).await.send_keys(text).await.unwrap();
    }

    /// Chooses an option of a list, when the page has it.
    pub(crate) async fn choose(&self, label: &str, option: &str) {
        self.acted();
        let options = "[...document.querySelectorAll('option')]";
        self.wait(&format!("{options}.some(one => one.textContent === {option:?})")).await;
        self.control(label).await.select_by_label(option).await.unwrap();
    }

    pub(crate) async fn check(&self, label: &str) {
        self.acted();
        self.control(label).await.click().await.unwrap();
    }

    /// Clicks a button, a link or a summary by its words or its name.
    pub(crate) async fn press(&self, words: &str) {
        self.acted();
        let is = format!("normalize-space(.)='{words}' or @aria-label='{words}'");
        let path = format!(".//*[self::button or self::a or self::summary][{is}]");
        // A change of the rows may replace the element between the two commands.
        while let Err(error) = self.find(&path).await.click().await {
            assert!(error.is_stale_element_reference(), "{words}: {error}");
        }
    }

    /// Sends keys to the element that has the focus.
    pub(crate) async fn keys(&self, keys: &str) {
        self.acted();
        self.client.active_element().await.unwrap().send_keys(keys).await.unwrap();
    }

    pub(crate) async fn element(&self, selector: &str) -> Element {
        self.client.find(Locator::Css(selector)).await.unwrap()
    }

    /// Saves what the page looks like in `target/admin`.
    pub(crate) async fn screenshot(&self, name: &str) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/admin");
        std::fs::create_dir_all(&folder).unwrap();
        let picture = self.client.screenshot().await.unwrap();
        std::fs::write(folder.join(format!("{name}.png")), picture).unwrap();
    }

    /// Checks the accessibility of the page as it is (WCAG 2.1 AA and good practice), and that it
    /// is not wider than the screen; saves a screenshot.
    pub(crate) async fn is_accessible(&self, name: &str) {
        self.settled().await;
        self.screenshot(name).await;
        let source = std::fs::read_to_string(axe()).unwrap();
        self.client.execute(&source, Vec::new()).await.unwrap();
        let script = "const done = arguments[0]
            axe.run().then(found => done(found.violations.map(one =>
                `${one.id}: ${one.help}: ${one.nodes.map(node => node.html.slice(0, 300) + node.failureSummary).join('; ')}`)),
                error => done([String(error)]))";
        let found = self.client.execute_async(script, Vec::new()).await.unwrap();
        assert_eq!(found, json!([]), "{name}");
        let wide =
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(self.run(wide).await, json!(0), "{name} is wider than the screen");
    }

    /// Checks that all files of the page came from its own server.
    pub(crate) async fn loads_nothing_foreign(&self) {
        let script = "return performance.getEntriesByType('resource').map(one => one.name)
            .filter(name => !name.startsWith(location.origin))";
        assert_eq!(self.run(script).await, json!([]));
    }

    pub(crate) async fn close(self) {
        self.client.close().await.unwrap();
    }
}

/// Returns the path of axe-core.
fn axe() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(AXE);
    assert!(path.is_file(), "{} is missing: `cargo xtask test` installs it", path.display());
    path
}

/// Runs a test.
pub(crate) fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}
