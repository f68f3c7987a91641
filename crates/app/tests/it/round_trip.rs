//! A file means the same in TOML and JSON, and after it was made from the schemas it describes.

use marmota_app::{AppFile, AppGroup};
use marmota_memory::Memory;
use marmota_model::{Field, Kind, Role, Rule, Schema};
use marmota_store::Store;
use proptest::prelude::*;

use crate::WHOLE;

/// Returns everything that schemas say, as text.
fn debug(app: &AppFile) -> String {
    format!("{:?}", app.schemas())
}

#[test]
fn everything_in_a_file_is_in_the_schemas_and_back() {
    let app = AppFile::parse_toml(WHOLE).unwrap();
    let again = AppFile::from_schemas(app.schemas(), app.groups()).unwrap();
    let again = again.with_webhooks(app.webhooks()).unwrap();
    assert_eq!(app.webhooks()[0].fields, ["email"]);
    assert_eq!(debug(&again), debug(&app));
    assert_eq!(again.groups(), app.groups());
    assert_eq!(format!("# The shop\n{}", again.to_toml()), WHOLE);
    let json = AppFile::parse_json(&app.to_json()).unwrap();
    assert_eq!(json.to_toml(), app.to_toml());
    let store = app.add_to(Store::builder(Memory::new())).open().unwrap();
    app.check_groups(&store).unwrap();
}

#[test]
fn a_rule_that_is_a_function_cannot_be_in_a_file() {
    let check = Rule::Check { name: "even", check: |_| Ok(()) };
    let schema = Schema::new(
        "pair",
        vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("left", Kind::I64).rules(vec![check]),
        ],
    );
    let error = AppFile::from_schemas(&[schema], []).unwrap_err();
    let expected =
        "`pair.left` has the rule `even`, a Rust function, which an application file cannot state";
    assert_eq!(error.message(), expected);
}

#[test]
fn the_json_schema_accepts_the_file_and_refuses_others() {
    let schema: serde_json::Value = serde_json::from_str(&AppFile::json_schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let app: serde_json::Value =
        serde_json::from_str(&AppFile::parse_toml(WHOLE).unwrap().to_json()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&app).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    for wrong in [
        r#"{"tables":{"a":{"fields":{"id":{"kind":"int"}}}}}"#,
        r#"{"tables":{"a":{"fields":{"id":{"kind":"text","unqiue":true}}}}}"#,
        r#"{"groups":{"a":{"grants":[{"table":"a","rights":["reed"]}]}}}"#,
    ] {
        assert!(!validator.is_valid(&serde_json::from_str(wrong).unwrap()), "{wrong}");
        assert!(AppFile::parse_json(wrong).is_err(), "{wrong}");
    }
}

/// Makes the lines of fields of a table.
fn fields() -> impl Strategy<Value = Vec<String>> {
    let line = prop_oneof![
        Just("\"text\"".to_owned()),
        Just("\"boolean\"".to_owned()),
        (4u32..9, any::<bool>()).prop_map(|(max, unique)| format!(
            "{{ kind = \"text\", max = {max}, unique = {unique}, default = \"a\\\"b\\n\" }}"
        )),
        (any::<i32>(), any::<bool>()).prop_map(|(min, nullable)| format!(
            "{{ kind = \"integer\", min = {min}, nullable = {nullable} }}"
        )),
        proptest::collection::vec("[a-zé ]{1,4}", 1..4).prop_map(|values| {
            let values: std::collections::BTreeSet<_> = values.into_iter().collect();
            let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
            format!("{{ kind = \"enum\", values = [{}] }}", values.join(", "))
        }),
    ];
    proptest::collection::vec(line, 0..6)
}

proptest! {
    #[test]
    fn random_tables_survive_each_form(lines in fields()) {
        let lines: String = lines.iter().enumerate().map(|(i, line)| format!("f{i} = {line}\n")).collect();
        let text = format!("[tables.t.fields]\nid = {{ kind = \"uuid\", role = \"key\" }}\n{lines}");
        let app = AppFile::parse_toml(&text).unwrap();
        let again = AppFile::parse_toml(&app.to_toml()).unwrap();
        prop_assert_eq!(debug(&again), debug(&app));
        let json = AppFile::parse_json(&again.to_json()).unwrap();
        prop_assert_eq!(debug(&json), debug(&app));
        let made = AppFile::from_schemas(app.schemas(), Vec::<AppGroup>::new()).unwrap();
        prop_assert_eq!(debug(&made), debug(&app));
        // A change of nothing changes no byte.
        prop_assert_eq!(app.update_toml(&text).unwrap(), text);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = AppFile::parse_toml(&text);
        let _ = AppFile::parse_json(&text);
    }
}
