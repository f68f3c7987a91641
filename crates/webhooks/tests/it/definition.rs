//! Definitions that are refused, and secrets.

use marmota_model::ErrorKind;
use marmota_store::action::block_on;
use marmota_webhooks::{Webhook, Webhooks};

use crate::harness::{memory, set};

const URL: &str = "https://example.org/hook";

#[test]
fn wrong_definitions_name_the_member_and_the_value() {
    let store = memory();
    let webhooks = Webhooks::new(&store);
    let kinds = |names: &[&str]| Webhook {
        kinds: names.iter().map(|&name| name.to_owned()).collect(),
        ..Webhook::new("a", URL, "issue")
    };
    let secret =
        |text: &str| Webhook { secret: Some(text.to_owned()), ..Webhook::new("a", URL, "issue") };
    for (webhook, expected) in [
        (Webhook::new("", URL, "issue"), "`name`"),
        (Webhook::new("a b", URL, "issue"), "`a b`"),
        (Webhook::new("a", "example.org", "issue"), "must begin with https://"),
        (Webhook::new("a", "ftp://example.org/", "issue"), "must begin with https://"),
        (Webhook::new("a", "https://a:b@example.org/", "issue"), "user or a password"),
        (Webhook::new("a", URL, "issues"), "there is no table `issues`; there are: issue"),
        (Webhook::new("a", URL, "marmota_webhook"), "there is no table"),
        (Webhook::new("a", URL, "issue").filter("colour = 1"), "colour"),
        (Webhook::new("a", URL, "issue").fields(&["colour"]), "colour"),
        (kinds(&["upsert"]), "must be insert, update or delete"),
        (secret("whsec_c2hvcnQ="), "24 to 64 bytes"),
    ] {
        let error = set(&webhooks, &webhook).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::NotFound), "{error:?}");
        let text = format!("{} {:?}", error.message(), error.violations());
        assert!(text.contains(expected), "{webhook:?}: {text}");
    }
    assert!(block_on(webhooks.list()).unwrap().is_empty());
}

#[test]
fn a_webhook_keeps_its_secret_and_does_not_show_it() {
    let store = memory();
    let webhooks = Webhooks::new(&store);
    set(&webhooks, &Webhook::new("a", URL, "issue")).unwrap();
    let secret = block_on(webhooks.secret("a")).unwrap();
    assert!(secret.starts_with("whsec_"), "{secret}");
    set(&webhooks, &Webhook::new("a", "https://example.com/", "issue")).unwrap();
    assert_eq!(block_on(webhooks.secret("a")).unwrap(), secret);
    let row = block_on(webhooks.get("a")).unwrap();
    assert_eq!(row.url, "https://example.com/");
    assert!(!format!("{row:?} {}", row.to_json()).contains(&secret));
}

#[test]
fn a_webhook_that_is_not_declared_any_more_is_disabled_until_it_returns() {
    let store = memory();
    let webhooks = Webhooks::new(&store);
    let webhook = |name: &str| Webhook::new(name, URL, "issue");
    let states = || -> Vec<String> {
        let all = block_on(webhooks.list()).unwrap();
        all.iter().map(|row| format!("{} {}", row.name, row.state.name())).collect()
    };
    set(&webhooks, &webhook("hand")).unwrap();
    block_on(webhooks.declare(&[webhook("a"), webhook("b"), webhook("c")])).unwrap();
    block_on(webhooks.disable("c")).unwrap();
    let secret = block_on(webhooks.secret("a")).unwrap();
    block_on(webhooks.declare(&[webhook("b"), webhook("c")])).unwrap();
    assert_eq!(states(), ["a disabled", "b enabled", "c disabled", "hand enabled"]);
    let reason = block_on(webhooks.get("a")).unwrap().reason.unwrap();
    assert!(reason.contains("does not define it any more"), "{reason}");
    block_on(webhooks.declare(&[webhook("a"), webhook("b"), webhook("c")])).unwrap();
    // An administrator's decision remains.
    assert_eq!(states(), ["a enabled", "b enabled", "c disabled", "hand enabled"]);
    assert_eq!(block_on(webhooks.secret("a")).unwrap(), secret);
}
