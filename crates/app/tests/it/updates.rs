//! A change of a file by a program keeps what a person wrote.

use marmota_app::AppFile;

use crate::WHOLE;

const TEXT: &str = r#"# The shop, by hand

# Who buys
[tables.customer.fields]
id   = { kind = "integer", role = "key" }
name = { kind = "text", max = 80 } # as on the invoice
city = { nullable = true, kind = "text" }

# Everything else
[tables.tag]
fields = { id = { kind = "text", role = "key" } }

[groups.sales]
grants = [
  { table = "tag", rights = ["read"] }, # labels
]
"#;

/// Returns `TEXT` after a replacement in the JSON of its content.
fn updated(from: &str, to: &str) -> String {
    let json = AppFile::parse_toml(TEXT).unwrap().to_json();
    assert!(json.contains(from), "{json}");
    AppFile::parse_json(&json.replace(from, to)).unwrap().update_toml(TEXT).unwrap()
}

#[test]
fn the_same_content_changes_no_byte() {
    for text in [TEXT, WHOLE] {
        assert_eq!(AppFile::parse_toml(text).unwrap().update_toml(text).unwrap(), text);
    }
}

#[test]
fn a_changed_field_changes_its_line_only() {
    let expected = TEXT.replace("max = 80", "max = 90");
    assert_eq!(updated("\"max\": 80", "\"max\": 90"), expected);
}

#[test]
fn a_removed_field_takes_its_comment_along() {
    let expected = TEXT.replace("name = { kind = \"text\", max = 80 } # as on the invoice\n", "");
    let removed =
        "\n        \"name\": {\n          \"kind\": \"text\",\n          \"max\": 80\n        },";
    assert_eq!(updated(removed, ""), expected);
}

#[test]
fn a_new_table_and_a_new_grant_are_added() {
    let new = updated(
        "\"rights\": [\n            \"read\"\n          ]",
        "\"rights\": [\"read\", \"insert\"]",
    );
    assert!(
        new.contains("# Who buys\n[tables.customer.fields]\n") && new.contains("\"insert\""),
        "{new}"
    );
    let table = "\"tables\": {\n    \"new\": {\"fields\": {\"id\": {\"kind\": \"uuid\", \"role\": \"key\"}}},";
    let new = updated("\"tables\": {", table);
    let app = AppFile::parse_toml(&new).unwrap();
    assert_eq!(app.schemas()[0].name, "new");
    assert!(new.contains("# as on the invoice"), "{new}");
}

#[test]
fn a_changed_order_of_fields_keeps_comments() {
    let app = AppFile::parse_toml(TEXT).unwrap();
    let mut schemas = app.schemas().to_vec();
    schemas[0].fields.to_mut().swap(1, 2);
    let new = AppFile::from_schemas(&schemas, app.groups()).unwrap().update_toml(TEXT).unwrap();
    let names: Vec<String> = AppFile::parse_toml(&new).unwrap().schemas()[0]
        .fields
        .iter()
        .map(|field| field.name.to_string())
        .collect();
    assert_eq!(names, ["id", "city", "name"]);
    assert!(new.contains("# as on the invoice"), "{new}");
}
