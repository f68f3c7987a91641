//! The start page and the documentation of the API.

use serde_json::json;

use crate::browser::{Driver, Look, run};
use crate::program::Program;
use crate::samples::Samples;

#[test]
fn operations_are_documented_and_tried() {
    let samples = Samples::start(&["Lamp"]);
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.open(&samples.url).await;
        page.shows("Version 0.9").await;
        page.shows("/api/thing").await;
        page.is_accessible("start").await;
        page.press("API documentation Every operation, to try").await;
        page.shows("API of Samples").await;
        page.is_accessible("docs").await;
        page.fill("Find an operation", "increment").await;
        page.wait("[...document.querySelectorAll('main .operation:not([id^=schema-])')].filter(one => one.checkVisibility()).length < 6").await;

        page.open(&format!("{}/docs#thing.list", samples.url)).await;
        page.shows("Try it").await;
        page.fill("filter", "name = 'Lamp'").await;
        page.press("Send").await;
        page.shows("200 OK").await;
        page.wait("[...document.querySelectorAll('pre')].some(pre => pre.textContent.includes('\"name\": \"Lamp\"'))").await;
        page.is_accessible("operation").await;
        for (language, part) in
            [("TypeScript", "await fetch("), ("Python", "requests.get("), ("curl", "curl 'http://")]
        {
            page.press(language).await;
            page.wait(&format!(
                "document.querySelector('pre').textContent.includes({})",
                json!(part)
            ))
            .await;
        }
        page.loads_nothing_foreign().await;
        page.close().await;

        let page = driver.browser(Look::Dark).await;
        page.open(&samples.url).await;
        page.is_accessible("start-dark").await;
        page.open(&format!("{}/docs#thing.insert", samples.url)).await;
        page.shows("Try it").await;
        page.is_accessible("docs-dark").await;
        page.press("Send").await;
        page.wait("document.querySelector('.try .tag')").await;
        page.is_accessible("answer-dark").await;
        for path in ["/admin", "/admin#/row/thing/1", "/admin#/new/thing", "/admin#/nothing"] {
            page.open("about:blank").await;
            page.open(&format!("{}{path}", samples.url)).await;
            page.is_accessible(&format!("dark{}", path.replace(['/', '#'], "-"))).await;
        }
        page.close().await;
    });
}

#[test]
fn statistics_without_users_need_the_token() {
    let program = Program::start(&["--diagnostics"]);
    let token = program.printed.split("Bearer ").nth(1).unwrap();
    let token = token.split('\'').next().unwrap();
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.open(&format!("{}/admin#/statistics", program.url)).await;
        page.shows("The diagnostics of this server need a token.").await;
        page.is_accessible("statistics-token").await;
        page.fill("Token", "wrong").await;
        page.press("Show statistics").await;
        page.shows("This is not the token of the diagnostics.").await;
        page.fill("Token", token).await;
        page.press("Show statistics").await;
        page.shows("Operations").await;
        page.close().await;
    });
}
