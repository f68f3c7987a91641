//! Whatever is sent, the answer is never a 500 and never a panic, and what is
//! refused is a problem.

use std::cell::RefCell;

use proptest::prelude::*;

use crate::client::Client;
use crate::service::Service;

/// JSON that is often nearly right.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        (-3i64..4).prop_map(|number| number.to_string()),
        proptest::num::f64::ANY.prop_map(|number| format!("{number:?}")),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        Just("\"2026-11-21\"".to_owned()),
        Just("\"draft\"".to_owned()),
        Just("\"AAEC\"".to_owned()),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3)
                .prop_map(|items| format!("[{}]", items.join(","))),
            (name(), inner).prop_map(|(name, value)| format!("{{\"{name}\":{value}}}")),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    const NAMES: &[&str] = &[
        "id",
        "code",
        "name",
        "people",
        "arms",
        "words",
        "state",
        "price",
        "weight",
        "urgent",
        "tags",
        "day",
        "hour",
        "at",
        "of",
        "first_name",
        "last_name",
        "year_of_birth",
        "email",
        "visits",
        "photo",
        "created_at",
        "version",
        "by",
        "operations",
        "mode",
        "insert",
        "update",
        "patch",
        "on_conflict",
        "delete",
        "increment",
        "key",
        "row",
        "field",
        "nope",
    ];
    proptest::sample::select(NAMES).prop_map(str::to_owned)
}

fn object() -> impl Strategy<Value = String> {
    proptest::collection::vec((name(), value()), 0..6).prop_map(|members| {
        let members: Vec<String> =
            members.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => object().prop_map(String::into_bytes),
        1 => proptest::collection::vec(object(), 0..3)
            .prop_map(|rows| format!("[{}]", rows.join(",")).into_bytes()),
        1 => proptest::collection::vec(object(), 0..3).prop_map(|rows| {
            format!("{{\"mode\":\"each\",\"operations\":[{}]}}", rows.join(",")).into_bytes()
        }),
        1 => value().prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

fn path() -> impl Strategy<Value = String> {
    let table = proptest::sample::select(["person", "city", "note", "batch", "nope"].as_slice());
    let key = prop_oneof![
        Just("1".to_owned()),
        Just("0190e4e2-7a00-7000-8000-00000000abcd".to_owned()),
        "[a-z0-9%._~-]{1,6}",
    ];
    let query = "(filter|order|limit|after|fields|count|name|id|x)=[a-zA-Z0-9_%'~^()<>=!,+-]{0,20}";
    (table, proptest::option::of((key, proptest::option::of(name()), any::<bool>())), 0..4, query)
        .prop_map(|(table, rest, with_query, query)| {
            let mut path = format!("/api/{table}");
            if let Some((key, field, increment)) = rest {
                path.push_str(&format!("/{key}"));
                if let Some(field) = field {
                    path.push_str(&format!("/{field}"));
                    if increment {
                        path.push_str("/increment");
                    }
                }
            }
            if with_query == 0 {
                path.push_str(&format!("?{query}"));
            }
            path
        })
}

fn headers() -> impl Strategy<Value = Vec<String>> {
    let header = prop_oneof![
        "If-Match: (\\*|\"?v[0-9]?\"?|W/\"v1\"|\"h0\"|,)",
        "If-None-Match: (\\*|\"v[0-9]?\"|\"h0\")",
        Just("Prefer: return=minimal".to_owned()),
        Just("Content-Type: application/json".to_owned()),
    ];
    proptest::collection::vec(header, 0..2)
}

thread_local! {
    static SERVICE: (Service, RefCell<Option<Client>>) = (Service::memory(), RefCell::default());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]
    #[test]
    fn nothing_is_a_500(
        method in proptest::sample::select(["GET", "POST", "PUT", "PATCH", "DELETE"].as_slice()),
        path in path(),
        headers in headers(),
        body in body(),
    ) {
        SERVICE.with(|(service, client)| {
            // Kept only if the answer came: a connection that failed is not used again.
            let mut connection = client.take().unwrap_or_else(|| service.client());
            let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
            let body = if method == "GET" { &[][..] } else { &body };
            let answer = connection.send(&format!("{method} {path}"), &headers, body);
            client.replace(Some(connection));
            let status = answer.status;
            prop_assert!(status < 500, "{method} {path}: {}", answer.text());
            if status >= 400 {
                answer.refuses(status);
            } else if status != 204 && !answer.body.is_empty()
                && answer.header("content-type") == Some("application/json")
            {
                answer.value();
            }
            Ok(())
        })?;
    }
}
