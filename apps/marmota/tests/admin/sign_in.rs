//! Sign-in with a provider of OpenID Connect: node's `oidc-provider`, with its pages.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;

use crate::browser::{Browser, Driver, Look, run};
use crate::program::Program;

/// The version; `xtask` installs it.
const PROVIDER: &str =
    "../../target/tools/oidc-provider-9.13.3/node_modules/oidc-provider/lib/index.js";
const PASSWORD: &str = "correct horse battery";

/// The provider, while it runs.
struct Provider {
    process: Child,
    url: String,
    /// It ends if it cannot write.
    _output: BufReader<ChildStdout>,
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Provider {
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let path = std::fs::canonicalize(PROVIDER).expect("run `cargo xtask packages`");
        let mut node = Command::new("node");
        node.arg("tests/admin/open_id_provider.mjs").arg(path).arg(port.to_string());
        let mut process = node.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (mut line, mut output) =
            (String::new(), BufReader::new(process.stdout.take().unwrap()));
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { process, url: format!("http://127.0.0.1:{port}"), _output: output }
    }
}

/// Signs in at the pages of the provider, and permits the program to know the person.
async fn sign_in_there(page: &Browser, name: &str) {
    page.wait("document.querySelector('input[name=login]')").await;
    page.element("input[name=login]").await.send_keys(name).await.unwrap();
    page.element("input[name=password]").await.send_keys("any").await.unwrap();
    page.element("button[type=submit]").await.click().await.unwrap();
    page.wait("document.querySelector('input[name=prompt][value=consent]')").await;
    page.element("button[type=submit]").await.click().await.unwrap();
}

#[test]
fn a_person_signs_in_with_a_provider() {
    let provider = Provider::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("providers.toml");
    let text = format!(
        "[provider.them]\ntitle = 'Them'\nissuer = '{}'\nclient_id = 'shop'\n",
        provider.url
    );
    std::fs::write(&file, text).unwrap();
    let program = Program::start_with(
        &["--auth", "--sign-up=open", &format!("--providers={}", file.display())],
        &[("MARMOTA_PROVIDER_THEM_SECRET", "hush")],
    );
    let account = format!("{}/account", program.url);
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.open(&account).await;
        page.shows("Sign in with Them").await;
        page.is_accessible("sign-in-provider").await;
        page.open(&format!("{account}?next=/docs")).await;
        page.press("Sign in with Them").await;
        sign_in_there(&page, "ann").await;
        page.wait("location.pathname === '/docs'").await;
        page.open(&account).await;
        page.shows("ann@example.org").await;
        page.shows("Providers").await;
        page.is_accessible("account-provider").await;

        // The answer of the provider, once more: it was used, and is not in the history either.
        let again = "return (async () => (await fetch('/api/auth/sign-in', { method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ state: 'used', provider_code: 'used' }) })).status)()";
        assert_eq!(page.run(again).await, json!(401));
        page.open("about:blank").await;
        page.open(&format!("{account}?state=x&code=y")).await;
        page.shows("The sign-in was not completed").await;
        page.wait("location.search === ''").await;
        page.is_accessible("sign-in-refused").await;
        page.close().await;

        // An address that is not verified gets no account.
        let page = driver.browser(Look::Light).await;
        page.open(&account).await;
        page.press("Sign in with Them").await;
        sign_in_there(&page, "unknown").await;
        page.shows("has not verified your mail address").await;
        page.close().await;

        // The administrator adds an account, and reads the events.
        let page = driver.browser(Look::Light).await;
        page.open(&program.address_with("#/set-password")).await;
        page.fill("New password", PASSWORD).await;
        page.press("Set password").await;
        page.shows("All tables").await;
        page.open(&account).await;
        page.press("Add Them").await;
        sign_in_there(&page, "unamy").await;
        page.shows("Your account").await;
        page.wait("[...document.querySelectorAll('td')].some(one => one.textContent === 'Remove')")
            .await;
        let events = "return (async () => (await (await fetch('/api/auth/events')).json()).events
            .map(one => one.kind))()";
        let events = page.run(events).await;
        for kind in ["signed-up", "identity-linked", "sign-in-refused", "logged-in"] {
            assert!(events.as_array().unwrap().contains(&json!(kind)), "{kind} in {events}");
        }
        page.open(&format!("{}/admin#/events", program.url)).await;
        page.shows("sign-in-refused").await;
        page.is_accessible("events").await;
        page.close().await;
    });
}
