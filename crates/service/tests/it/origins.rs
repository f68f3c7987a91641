//! Calls that a page of another site may have had a browser send.

use marmota_http::Server;
use serde_json::{Value, json};

use crate::calling::{agent, services, url};

#[test]
fn pages_of_other_sites_call_nothing() {
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = server.allowed_origins(["https://app.test"]);
    let server = server.start(services().router()).unwrap();
    let own = url(&server, "");
    let rpc = json!({"jsonrpc":"2.0","method":"sum","params":[1,2],"id":1}).to_string();
    let call = |path: &str, headers: &[(&str, &str)]| {
        let body = if path.ends_with("rpc") { rpc.clone() } else { "[1,2]".to_owned() };
        let mut request = agent().post(url(&server, path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut answer = request.send(body).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        (answer.status().as_u16(), serde_json::from_str::<Value>(&text).unwrap())
    };
    let json = ("Content-Type", "application/json");
    for path in ["/api/-/rpc", "/api/calculator/add", "/api/sum"] {
        for (headers, status) in [
            (&[json][..], 200),
            (&[json, ("Origin", &own)], 200),
            (&[json, ("Origin", "https://app.test")], 200),
            (&[json, ("Origin", "https://evil.test")], 403),
            (&[("Content-Type", "text/plain"), ("Origin", "https://evil.test")], 403),
            (&[json, ("Origin", "null")], 403),
            (&[json, ("Sec-Fetch-Site", "cross-site")], 403),
            (&[("Content-Type", "text/plain")], 415),
            (&[("Content-Type", "text/plain;charset=UTF-8"), ("Origin", &own)], 415),
            (&[json, ("Host", "evil.test"), ("Origin", "http://evil.test")], 421),
        ] {
            let (answered, body) = call(path, headers);
            assert_eq!(answered, status, "{path} {headers:?} {body}");
            assert!(status == 200 || body["status"] == status, "a problem document: {body}");
        }
    }
    // A call by GET, as a page's image would make it, and an upgrade.
    for (path, passes) in [("/api/sum?a=1&b=2", 200), ("/api/-/services", 426)] {
        for (name, value, status) in [
            ("Accept", "*/*", passes),
            ("Origin", &*own, passes),
            ("Sec-Fetch-Site", "none", passes),
            ("Origin", "https://evil.test", 403),
            ("Sec-Fetch-Site", "cross-site", 403),
            ("Host", "evil.test", 421),
        ] {
            let answer = agent().get(url(&server, path)).header(name, value).call().unwrap();
            assert_eq!(answer.status(), status, "{path} {name}: {value}");
        }
    }
}
