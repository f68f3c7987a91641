//! What holds for every document of OpenAPI's. (`cargo xtask openapi` asks a validator of others.)

use std::collections::BTreeSet;

use serde_json::Value;

/// Checks a document, and gives its operations by their names: method, path and the operation.
#[track_caller]
pub(crate) fn operations(document: &Value) -> Vec<(String, String, Value)> {
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    references(document, document);
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        assert!(path.starts_with('/'), "{path}");
        let of_path: BTreeSet<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
        for (method, operation) in item.as_object().unwrap() {
            let at = format!("{method} {path}");
            assert!(["get", "put", "post", "patch", "delete"].contains(&&**method), "{at}");
            let name = operation["operationId"].as_str().unwrap_or_else(|| panic!("{at}"));
            assert!(names.insert(name.to_owned()), "{name} is there twice");
            let mut places = BTreeSet::new();
            let mut in_path = BTreeSet::new();
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let [name, place] = ["name", "in"].map(|key| parameter[key].as_str().unwrap());
                assert!(places.insert((name, place)), "{at}: {name} is there twice");
                assert!(parameter.get("schema").is_some() != parameter.get("content").is_some());
                if place == "path" {
                    assert_eq!(parameter["required"], true, "{at}: {name}");
                    in_path.insert(name);
                }
            }
            assert_eq!(in_path, of_path, "{at}");
            let responses = operation["responses"].as_object().unwrap();
            assert!(
                responses.contains_key("default") && responses.len() > 1,
                "{at}: {responses:?}"
            );
            for (status, response) in responses {
                assert!(status == "default" || status.parse::<u16>().is_ok(), "{at}: {status}");
                let is_told =
                    response.get("description").is_some() || response.get("$ref").is_some();
                assert!(is_told, "{at}: {status}");
            }
            if let Some(body) = operation.get("requestBody") {
                assert!(!body["content"].as_object().unwrap().is_empty(), "{at}");
            }
            found.push((method.to_ascii_uppercase(), path.clone(), operation.clone()));
        }
    }
    found
}

/// All that is referred to is there.
fn references(document: &Value, part: &Value) {
    match part {
        Value::Object(members) => {
            if let Some(place) = members.get("$ref").and_then(Value::as_str) {
                let place = place.strip_prefix('#').unwrap_or_else(|| panic!("{place}"));
                assert!(document.pointer(place).is_some(), "{place} is not there");
            }
            members.values().for_each(|part| references(document, part));
        }
        Value::Array(parts) => parts.iter().for_each(|part| references(document, part)),
        _ => {}
    }
}
