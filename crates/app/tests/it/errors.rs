//! What is wrong in a file is reported with its place and what is allowed.

use marmota_app::AppFile;
use marmota_memory::Memory;
use marmota_model::ErrorKind;
use marmota_store::Store;

/// Returns the message of the error of a table with these lines of fields.
fn of_fields(fields: &str) -> String {
    let text =
        format!("[tables.note.fields]\nid = {{ kind = \"integer\", role = \"key\" }}\n{fields}");
    let error = AppFile::parse_toml(&text).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    error.message().to_owned()
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_place() {
    let error = AppFile::parse_toml("[tables.note.fields]\nid = \n").unwrap_err();
    assert!(error.message().starts_with("app.toml:2:"), "{error}");
}

#[test]
fn each_error_names_the_place_and_what_is_allowed() {
    let cases = [
        (
            "text = \"txt\"",
            "app.toml:3:8: tables.note.fields.text: unknown variant `txt`, expected one of `boolean`",
        ),
        (
            "text = 3",
            "app.toml:3:8: tables.note.fields.text: invalid type: integer `3`, expected the name of a kind",
        ),
        (
            "text = { kind = \"text\", unqiue = true }",
            "app.toml:3:25: tables.note.fields.text: unknown field `unqiue`, expected",
        ),
        (
            "text = { kind = \"text\", default = 2026-12-31 }",
            "app.toml:3:35: tables.note.fields.text.default: invalid type: ",
        ),
        ("text = { unique = true }", "app.toml:3:8: tables.note.fields.text: missing field `kind`"),
        (
            "text = { kind = \"text\", min = 1 }",
            "app.toml:3:25: tables.note.fields.text.min: `min` is for fields of kind integer; for other",
        ),
        (
            "text = { kind = \"text\", max = -1 }",
            "app.toml:3:25: tables.note.fields.text.max: `max` -1 is not a number of characters",
        ),
        (
            "owner = { kind = \"reference\", table = \"user\" }",
            "app.toml:3:31: tables.note.fields.owner.table: there is no table `user`; there are: note",
        ),
        (
            "state = { kind = \"enum\" }",
            "app.toml:3:1: tables.note.fields.state.values: an enum needs its names: `values = ",
        ),
        (
            "level = { kind = \"integer\", default = \"high\" }",
            "app.toml:3:1: tables.note.fields.level: field `level` of model `note`: the default is",
        ),
        (
            "text = { kind = \"text\", default_expression = \"lower(titel)\" }",
            "app.toml:3:1: tables.note.fields.text: field `text` of model `note`: the expression",
        ),
        (
            "text = { kind = \"text\", computed = \"text + '!'\" }",
            "app.toml:3:1: tables.note.fields.text: field `text` of model `note`: its expression uses",
        ),
        (
            "text = { kind = \"text\", computed = \"token(8)\" }",
            "app.toml:3:1: tables.note.fields.text: field `text` of model `note`: a computed field",
        ),
        (
            "state = { kind = \"enum\", values = [\"open\", \"shut\"], default = \"c\" }",
            "app.toml:3:1: tables.note.fields.state: field `state` of model `note`: the default is \
             \"c\", not one of the field's names: open, shut",
        ),
        ("id = \"text\"", "app.toml:3:1: duplicate key `id`"),
        (
            "[[groups.staff.grants]]\ntable = \"note\"\nrights = [\"reed\"]",
            "app.toml:5:11: groups.staff.grants[0].rights: unknown variant `reed`, expected one of",
        ),
        ("[table.x]", "app.toml:3:2: unknown field `table`, expected one of `tables`"),
        (
            "text = { kind = \"text\", pattern = \"(\" }",
            "app.toml:3:1: tables.note.fields.text: field `text` of model `note`: ",
        ),
    ];
    for (field, expected) in cases {
        let message = of_fields(field);
        assert!(message.starts_with(expected), "{field}\n{message}");
    }
}

#[test]
fn a_grant_that_does_not_fit_its_table_is_reported_at_its_key() {
    let of_grant = |lines: &str| {
        let text = format!(
            "[tables.note.fields]\nid = {{ kind = \"integer\", role = \"key\" }}\n\
             [[groups.staff.grants]]\nrights = [\"read\"]\n{lines}"
        );
        let app = AppFile::parse_toml(&text).unwrap();
        let store = app.add_to(Store::builder(Memory::new())).open().unwrap();
        app.check_groups(&store).unwrap_err().message().to_owned()
    };
    let note = "table = \"note\"\n";
    for (lines, expected) in [
        ("table = \"notes\"".to_owned(), "5:1: groups.staff.grants[0]: there is no table `notes`"),
        (format!("{note}rule = \"title = 1\""), "6:1: groups.staff.grants[0]: field `title`: "),
        (format!("{note}fields = [\"title\"]"), "6:1: groups.staff.grants[0]: field `title`: "),
        (format!("{note}except = [\"title\"]"), "6:1: groups.staff.grants[0]: field `title`: "),
    ] {
        let message = of_grant(&lines);
        assert!(message.starts_with(&format!("app.toml:{expected}")), "{lines}\n{message}");
    }
}

#[test]
fn an_index_of_an_unknown_field_is_refused() {
    let text = "[tables.note]\nindexes = [{ fields = [\"text\"] }]\n[tables.note.fields]\nid = { kind = \"integer\", role = \"key\" }\n";
    let error = AppFile::parse_toml(text).unwrap_err();
    let expected =
        "app.toml:2:1: tables.note.indexes: an index of `note` has the unknown field `text`";
    assert_eq!(error.message(), expected);
}

#[test]
fn a_filter_that_an_index_cannot_have_is_refused() {
    let of_filter = |filter: &str| {
        let text = format!(
            "[tables.note]\nindexes = [{{ fields = [\"text\"], where = \"{filter}\" }}]\n\
             [tables.note.fields]\nid = {{ kind = \"integer\", role = \"key\" }}\ntext = \"text\"\n"
        );
        AppFile::parse_toml(&text).map(drop)
    };
    of_filter("text = 'a'").unwrap();
    for (filter, part) in
        [("txt = null", "`note` has no such field"), ("text ~ 'a'", "compares fields")]
    {
        let error = of_filter(filter).unwrap_err();
        let expected = format!(
            "app.toml:2:1: tables.note.indexes: model `note`: the filter \"{filter}\" of the index \
             over text: "
        );
        assert!(error.message().starts_with(&expected), "{error}");
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn a_table_without_a_key_is_refused() {
    let error = AppFile::parse_toml("[tables.note.fields]\ntext = \"text\"\n").unwrap_err();
    assert!(error.message().starts_with("app.toml:1:9: tables.note: "), "{error}");
}

#[test]
fn json_has_the_same_errors_with_the_keys() {
    let error = AppFile::parse_json(r#"{"tables":{"note":{"fields":{"id":"int"}}}}"#).unwrap_err();
    assert!(error.message().starts_with("app.json:1:"), "{error}");
    let text = r#"{"tables":{"note":{"fields":{"id":{"kind":"text","role":"key","min":1}}}}}"#;
    let error = AppFile::parse_json(text).unwrap_err();
    assert!(error.message().starts_with("app.json: tables.note.fields.id.min: "), "{error}");
}

#[test]
fn a_missing_or_huge_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.toml");
    assert_eq!(AppFile::read(&path).unwrap_err().kind(), ErrorKind::NotFound);
    std::fs::write(&path, vec![b'#'; 5 << 20]).unwrap();
    let error = AppFile::read(&path).unwrap_err();
    assert!(error.message().contains("at most 4194304 are allowed"), "{error}");
}

#[test]
fn deep_nesting_is_refused() {
    let json = format!("{}{}", r#"{"tables":"#.repeat(100_000), "}".repeat(100_000));
    assert!(AppFile::parse_json(&json).is_err());
    let toml = format!("tables = {}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(AppFile::parse_toml(&toml).is_err());
}

#[test]
fn a_webhook_names_what_does_not_exist() {
    for (lines, expected) in [
        ("table = \"notes\"", "7:1: webhooks.chat.table: there is no table `notes` in this file"),
        (
            "table = \"note\"\nfields = [\"a\"]",
            "8:1: webhooks.chat.fields: `note` has no field `a`",
        ),
        ("table = \"note\"\nfilter = \"a = 1\"", "8:1: webhooks.chat.filter: `a = 1`: "),
        ("table = \"note\"\nkinds = [\"upsert\"]", "unknown variant `upsert`, expected one of"),
        (
            "table = \"note\"\nsecret = \"a\"\nsecret_env = \"A\"",
            "9:1: webhooks.chat.secret_env: leave it or `secret` out",
        ),
    ] {
        let text = format!(
            "[tables.note.fields]\nid = {{ kind = \"integer\", role = \"key\" }}\n\n\n\
             [webhooks.chat]\nurl = \"https://example.org/\"\n{lines}\n"
        );
        let error = AppFile::parse_toml(&text).unwrap_err();
        assert!(error.message().contains(expected), "{lines}: {}", error.message());
    }
}
