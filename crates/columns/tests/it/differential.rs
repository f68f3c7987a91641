//! The same rows as the `csv` crate reads, over random texts, in whatever parts
//! they are read.

use marmota_columns::csv::Loader;
use marmota_derive::Model;
use proptest::prelude::*;

#[derive(Debug, PartialEq, Model)]
struct Triple {
    id: i64,
    a: String,
    b: String,
    c: String,
}

fn expected(text: &str) -> Option<Vec<[String; 3]>> {
    let mut reader = csv::ReaderBuilder::new().from_reader(text.as_bytes());
    let records = reader.records();
    let row = |record: csv::Result<csv::StringRecord>| {
        let record = record.ok()?;
        Some(std::array::from_fn(|field| record[field].to_owned()))
    };
    records.map(row).collect()
}

fn ours(text: &str, threads: usize) -> Option<Vec<[String; 3]>> {
    let rows = Loader::new().threads(threads).read::<Triple>(text.as_bytes()).ok()?;
    let array = |row: Result<Triple, _>| row.ok().map(|row: Triple| [row.a, row.b, row.c]);
    rows.iter().map(array).collect()
}

/// A field as it may be written.
fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-cé]{0,4}",
        "[a-c ]{0,40}",
        "([a-c,\nç]|\r\n|\"\"){0,6}".prop_map(|text| format!("\"{text}\"")),
    ]
}

fn record() -> impl Strategy<Value = String> {
    let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\n\n"), Just("\r\n\n")];
    (field(), field(), field(), end).prop_map(|(a, b, c, end)| format!("{a},{b},{c}{end}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn sound_files(records in prop::collection::vec(record(), 0..40), cut in any::<bool>()) {
        let mut text = format!("a,b,c\n{}", records.concat());
        if cut {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        let expected = expected(&text);
        prop_assert!(expected.is_some());
        for threads in [1, 2, 5] {
            prop_assert_eq!(&ours(&text, threads), &expected);
        }
    }

    /// Files with quotes anywhere: refused, or read as the other does; and the
    /// same however many threads read.
    #[test]
    fn any_files(text in "([a,\n\"]|\r\n|a,b,c\n){0,80}") {
        let text = format!("a,b,c\n{text}");
        let one = ours(&text, 1);
        if one.is_some() {
            prop_assert_eq!(&one, &expected(&text));
        }
        let message = |threads| {
            let rows = Loader::new().threads(threads).read::<Triple>(text.as_bytes());
            rows.err().map(|error| error.to_string())
        };
        for threads in [2, 3, 8] {
            prop_assert_eq!(&ours(&text, threads), &one);
            prop_assert_eq!(message(threads), message(1));
        }
    }
}

/// Longer than a window, with quotes around line ends where parts are cut.
#[test]
fn long_files() {
    let quoted = "x,\"\n,\"\"\n\n\",y\n".repeat(40_000);
    let plain = "12,345,6789\n".repeat(30_000);
    let huge = format!("a,\"{}\",b\n", "z,\n".repeat(300_000));
    let text = format!("a,b,c\n{quoted}{plain}{huge}{plain}{quoted}");
    let expected = expected(&text);
    for threads in [1, 2, 7] {
        assert!(ours(&text, threads) == expected, "{threads} threads");
    }
}

#[test]
fn the_fingerprint_is_of_the_rows() {
    let print = |text: &str, threads| {
        Loader::new().threads(threads).read::<Triple>(text.as_bytes()).unwrap().fingerprint()
    };
    let rows: String = (0..40_000).map(|row| format!("{},{},x\n", row % 300, row)).collect();
    let text = format!("a,b,c\n{rows}");
    let one = print(&text, 1);
    assert_eq!(one, print(&text, 6));
    assert_eq!(one, print(&format!("c,\"b\",a\r\n{}", swapped(&rows)), 2));
    assert_ne!(one, print(&text.replacen(",x", ",y", 1), 1));
    assert_ne!(one, print(&format!("{text}1,2,x\n"), 1));
}

fn swapped(rows: &str) -> String {
    let swap = |row: &str| {
        let fields: Vec<&str> = row.split(',').collect();
        format!("{},\"{}\",{}\r\n", fields[2], fields[1], fields[0])
    };
    rows.lines().map(swap).collect()
}
