//! Files that are wrong, and what is said of them.

use marmota_columns::Columns;
use marmota_columns::csv::{self, Loader};
use marmota_derive::Model;
use marmota_model::{Blob, Error, ErrorKind};

#[derive(Debug, Model)]
struct Stop {
    #[model(key, max = 5)]
    code: String,
    #[model(range(min = 0, max = 9))]
    zone: Option<u8>,
    #[model(pattern = "[a-z]*")]
    name: String,
}

fn error(text: &[u8]) -> Error {
    csv::read::<Stop>(text).unwrap_err()
}

fn message(lines: &str) -> String {
    let whole = error(format!("zone,code,name\n{lines}").as_bytes());
    assert_eq!(whole.kind(), ErrorKind::Invalid);
    // Wherever a window or a part ends, the place is the same.
    let sound: String = (0..30_000).map(|stop| format!("{},{stop},x\n", stop % 10)).collect();
    for threads in [1, 3] {
        let text = format!("zone,code,name\n{sound}{lines}");
        let loader = Loader::new().threads(threads);
        let error = loader.read::<Stop>(text.as_bytes()).unwrap_err().to_string();
        let line: usize =
            error.split("line ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
        let moved =
            error.replacen(&format!("line {line},"), &format!("line {},", line - 30_000), 1);
        assert_eq!(moved, whole.to_string());
    }
    whole.to_string()
}

#[test]
fn the_place_and_the_reason_are_named() {
    for (lines, expected) in [
        (
            "1,a,b\n1,c\n",
            "line 3, column 1: the record has 2 of 3 fields; the first missing field is `name`",
        ),
        ("1,a,b,c\n", "line 2, column 1: the record has 4 fields instead of 3"),
        ("1,a,b\n\n1,çà\"b,c\n", "line 4, column 5: a quote in the middle of a field"),
        ("1,\"a\"b,c\n", "line 2, column 3: field `code` continues after its closing quote"),
        ("1,\"a\" ,c\n", "line 2, column 3: field `code` continues after its closing quote"),
        ("1,a,\"b\n1,c,d\n", "line 2, column 5: the quote that opens here is never closed"),
        ("1,a,\"", "line 2, column 5: the quote that opens here is never closed"),
        (
            "1,\"a\nb\",c\n1,d,e\nx,f,g",
            "line 5, column 1: field `zone` = \"x\": must be of type integer (rule type)",
        ),
        ("10,a,b\n", "line 2, column 1: field `zone` = 10: must be between 0 and 9 (rule range)"),
        ("-1,a,b\n", "line 2, column 1: field `zone` = -1: must be between 0 and"),
        (
            "1,àbcdéf,b\n",
            "line 2, column 3: field `code` = \"àbcdéf\": must have at most 5 characters, but has \
             6 (rule max)",
        ),
        (
            "1,à,B\n",
            "line 2, column 5: field `name` = \"B\": must match the pattern [a-z]* (rule pattern)",
        ),
        ("1,a,b\nx,b,C\n2,c,D", "line 3, column 1: field `zone` = \"x\""),
        ("1,a,b\n2,b,C\nx,c,d", "line 3, column 5: field `name` = \"C\""),
    ] {
        let message = message(lines);
        assert!(message.contains(expected), "{lines:?}: {message}");
    }
}

#[test]
fn violations_come_along() {
    let error = error(b"zone,code,name\n1,abcdef,x\n");
    let [violation] = error.violations() else { panic!("{error}") };
    assert_eq!((&*violation.field, &*violation.rule), ("code", "max"));
}

#[test]
fn bytes_that_are_no_text() {
    let error = error(b"zone,code,name\n1,a,b\n1,\xff,b\n").to_string();
    assert!(error.contains("line 3, column 3: field `code` is not UTF-8"), "{error}");
    let error = self::error(b"zone,code,name\n1,a,a rather long text with \xe9\n").to_string();
    assert!(error.contains("line 2, column 5: field `name` is not UTF-8"), "{error}");
}

#[test]
fn the_earliest_record_is_named() {
    let message = message("1,a,B\nx,c,d\n1,e\n");
    assert!(message.contains("line 2, column 5"), "{message}");
}

#[test]
fn headers() {
    for (text, expected) in [
        ("", "CSV: the file is empty"),
        ("\n\n", "CSV: the file is empty"),
        ("zone,name\n1,a\n", "CSV: the file has no column `code`; the first line has zone, name"),
        ("Zone;Code\n", "CSV: the file has no column `code`, `zone`, `name`"),
        ("zone,code,name,zone\n", "CSV: the file has more than one column `zone`"),
        ("zone,\"code,name\n", "CSV: a quote in the first line is never closed"),
        ("\n \n\"code,name\n", "CSV: a quote in the first line is never closed"),
    ] {
        let error = error(text.as_bytes());
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn keys_and_unique_fields() {
    #[derive(Debug, Model)]
    struct Sign {
        id: i64,
        #[model(unique)]
        number: Option<i32>,
        #[model(unique)]
        text: Option<String>,
    }
    for (lines, expected) in [
        ("1,,\n2,,\n1,,\n", "rows 1 and 3: field `id` = 1: must be unique"),
        ("1,5,\n2,,\n3,5,\n", "rows 1 and 3: field `number` = 5"),
        ("1,,a\n2,,\"a\"\n3,5,\n", "rows 1 and 2: field `text` = \"a\""),
    ] {
        let text = format!("id,number,text\n{lines}");
        let error = csv::read::<Sign>(text.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(csv::read::<Sign>(b"id,number,text\n1,,\n2,,\n3,,a\n").unwrap().len(), 3);
}

#[test]
fn files_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stops.txt");
    let error = csv::load::<Stop>(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("stops.txt"), "{error}");
    let error = csv::load::<Stop>(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    std::fs::write(&path, "zone,code,name\n1,a\n").unwrap();
    let error = csv::load::<Stop>(&path).unwrap_err().to_string();
    assert!(error.contains("stops.txt, line 2, column 1: the record has 2 of 3"), "{error}");
}

#[test]
fn what_csv_has_no_form_for() {
    #[derive(Debug, Model)]
    struct Photo {
        id: i64,
        data: Blob,
    }
    let error = csv::read::<Photo>(b"id,data\n").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("field `data` of `photo` is a blob"), "{error}");
}

#[test]
fn records_without_an_end() {
    let text = format!("zone,code,name\n1,a,b\n1,\"{}", "x\n".repeat(1 << 20));
    let error = Loader::new().record_bytes_max(1 << 19).read::<Stop>(text.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("line 3, column 1: the record has more than"), "{error}");
    let error = Loader::new().separator(b'"').read::<Stop>(b"").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let _: Columns<Stop> = csv::read(b"zone,code,name\n").unwrap();
}
