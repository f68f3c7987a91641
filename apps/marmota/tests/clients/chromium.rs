//! The client in TypeScript in a browser: a page imports its module, and runs what node runs.

#[allow(dead_code, reason = "the tests of the pages use the rest")]
#[path = "../admin/browser.rs"]
mod browser;

use marmota::http::{Cors, Router, Server as Files};
use serde_json::json;

use self::browser::{Driver, Look, run};
use crate::server::Server;
use crate::typescript::compiled_round_trip;

#[test]
fn chromium_round_trips_what_node_does() {
    let workshop = compiled_round_trip();
    let server = Server::start(workshop.path());
    // The modules come from another server than the page, as those of a content network.
    let files = Router::new().files("/", workshop.path().join("out")).layer(Cors::any());
    let modules = Files::bind("127.0.0.1:0").unwrap().start(files).unwrap();
    let module = format!("http://{}/round_trip.js", modules.local_addr());
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        // A page without scripts; its origin is that of the API.
        page.goto(&format!("{}/api/openapi.json", server.url)).await;
        let environment = json!({ "SHOP_URL": server.url, "SHOP_TOKEN": server.token });
        page.run(&format!(
            "globalThis.process = {{ env: {environment} }}
             import({}).then(() => {{ globalThis.result = 'done' }},
                error => {{ globalThis.result = String(error.stack) }})",
            json!(module)
        ))
        .await;
        page.wait("globalThis.result").await;
        assert_eq!(page.run("return globalThis.result").await, "done");
        page.close().await;
    });
    modules.shutdown().unwrap();
}
