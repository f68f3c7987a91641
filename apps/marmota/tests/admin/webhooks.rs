//! Webhooks in the administration: a definition, its errors, and deliveries that are sent again.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::browser::{Driver, Look, run};
use crate::program::Program;

#[test]
fn a_webhook_is_made_and_its_delivery_is_sent_again() {
    // A receiver that refuses everything.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 64 * 1024]);
            let answer = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let program = Program::start(&["--webhooks", "--webhook-allow-private"]);
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.open(&format!("{}/admin#/webhooks", program.url)).await;
        page.shows("Nothing yet.").await;
        page.press("New webhook").await;
        page.fill("Name", "chat").await;
        page.fill("URL", &url).await;
        page.choose("Table", "person").await;
        page.fill("Only rows where", "colour = 1").await;
        page.is_accessible("webhook").await;
        page.press("Save").await;
        page.wait(
            "document.querySelector('dialog .error[role=alert]').textContent.includes('colour')",
        )
        .await;
        page.fill("Only rows where", "year_of_birth > 1900").await;
        page.press("Save").await;
        page.shows("enabled").await;
        page.is_accessible("webhooks").await;
        let insert = "return fetch('/api/person', { method: 'POST', headers: { 'Content-Type': 'application/json' }, \
                      body: '{\"first_name\":\"Emmy\",\"last_name\":\"Noether\",\"year_of_birth\":1982}' }).then(answer => answer.status)";
        assert_eq!(page.run(insert).await, 201);
        let tried = "return (async () => { for (;;) { \
                     const { deliveries } = await (await fetch('/api/-/webhooks/chat/deliveries')).json(); \
                     if (deliveries[0]?.attempts > 0) return true } })()";
        assert_eq!(page.run(tried).await, true);
        page.press("chat").await;
        page.shows("fails since").await;
        page.shows("person.insert").await;
        page.shows("pending").await;
        page.is_accessible("deliveries").await;
        page.press("Send again").await;
        page.shows("1 sent again").await;
        page.press("Show").await;
        page.shows("the receiver answered 503").await;
        page.press("Close").await;
        page.press("Jobs").await;
        page.shows("Run now").await;
        page.is_accessible("jobs-scheduled").await;
    });
}
