//! Files as they come: quotes, line ends, marks, columns in any order.

use marmota_columns::Columns;
use marmota_columns::csv::{self, Loader};
use marmota_derive::{Model, ModelEnum};
use marmota_model::{Currency, Date, Json, Time, Timestamp, Uuid};

#[derive(Clone, Debug, PartialEq, Model)]
struct Place {
    id: i64,
    name: String,
    note: Option<String>,
    height: Option<i32>,
}

fn place(id: i64, name: &str, note: Option<&str>, height: Option<i32>) -> Place {
    Place { id, name: name.to_owned(), note: note.map(str::to_owned), height }
}

fn rows(text: &str) -> Vec<Place> {
    let places: Columns<Place> = csv::read(text.as_bytes()).unwrap();
    places.iter().collect::<Result<_, _>>().unwrap()
}

#[test]
fn columns_are_found_by_name() {
    let expected = [place(1, "a", Some("b"), Some(-3)), place(2, "c", None, None)];
    assert_eq!(rows("name,note,height\na,b,-3\nc,,\n"), expected);
    assert_eq!(rows("x,height,y,note,name,z\n1,-3,\"\n\",b,a,\n,,,,c,\n"), expected);
    assert_eq!(rows("\"height\",\"name\",\"note\"\n-3,a,b\n,c,"), expected);
}

#[test]
fn a_key_may_be_in_the_file() {
    assert_eq!(rows("name,note,height,id\na,,,7\nb,,,-2\n")[1], place(-2, "b", None, None));
}

#[test]
fn quotes_hold_separators_line_ends_and_quotes() {
    let text = "name,note,height\n\"a,b\",\"c\nd\r\ne\",\"5\"\n\"\"\"x\"\"\",\"\"\"\",7\n";
    let expected =
        [place(1, "a,b", Some("c\nd\r\ne"), Some(5)), place(2, "\"x\"", Some("\""), Some(7))];
    assert_eq!(rows(text), expected);
}

#[test]
fn nothing_is_null_and_two_quotes_are_the_empty_text() {
    assert_eq!(
        rows("name,note,height\n,,\n\"\",\"\",\n"),
        [place(1, "", None, None), place(2, "", Some(""), None)]
    );
}

#[test]
fn any_number_of_empty_lines_may_stand_before_the_header() {
    // More than a window of the reader's.
    for line_end in ["\n", "\r\n", " \n"] {
        let text = format!("\u{feff}{}name,note,height\na,b,1\n", line_end.repeat(300_000));
        assert_eq!(rows(&text), [place(1, "a", Some("b"), Some(1))]);
    }
}

#[test]
fn line_ends_marks_and_empty_lines() {
    let expected = [place(1, "a", Some("b"), Some(1)), place(2, "c", Some("d"), Some(2))];
    for text in [
        "name,note,height\na,b,1\nc,d,2",
        "name,note,height\r\na,b,1\r\nc,d,2\r\n",
        "name,note,height\r\na,b,1\r\nc,d,2",
        "\u{feff}name,note,height\na,b,1\nc,d,2\n",
        "\n\r\nname,note,height\n\na,b,1\n\n\r\nc,d,2\n\n\n",
        "height,note,name\r\n1,\"b\",\"a\"\r\n2,d,\"c\"\r\n",
    ] {
        assert_eq!(rows(text), expected, "{text:?}");
    }
}

#[test]
fn text_stays_as_it_is() {
    let long = "ç".repeat(300);
    let texts =
        [" a ", "7:05:00", "24:10:00", "çà€𝄞", "a\rb", "\t", "\\", "15 bytes or so.", &long];
    for text in texts {
        assert_eq!(rows(&format!("name,note,height\n{text},,\n"))[0].name, text);
    }
}

#[test]
fn no_rows() {
    for text in ["name,note,height", "name,note,height\n", "name,note,height\r\n\r\n"] {
        assert!(rows(text).is_empty());
    }
}

#[test]
fn other_separators() {
    for separator in [';', '\t', '|'] {
        let text = "name;note;height\na,b;\"c;d\";1\n".replace(';', &separator.to_string());
        let loader = Loader::new().separator(separator as u8);
        let places: Columns<Place> = loader.read(text.as_bytes()).unwrap();
        let note = format!("c{separator}d");
        assert_eq!(places.get(0).unwrap(), place(1, "a,b", Some(&note), Some(1)));
    }
}

#[test]
fn a_single_column() {
    #[derive(Debug, PartialEq, Model)]
    struct Name {
        id: i64,
        name: String,
    }
    let names: Columns<Name> = csv::read(b"name\na\n\nb\n\"\"\n").unwrap();
    let names: Vec<_> = names.iter().map(|row| row.unwrap().name).collect();
    assert_eq!(names, ["a", "b", ""]);
}

#[derive(Clone, Copy, Debug, PartialEq, ModelEnum)]
enum Sky {
    Clear,
    Cloudy,
}

#[derive(Debug, PartialEq, Model)]
struct Reading {
    #[model(key)]
    code: Uuid,
    day: Date,
    time: Option<Time>,
    at: Timestamp,
    price: Currency,
    ratio: f64,
    count: u64,
    is_dry: bool,
    sky: Sky,
    tags: Json<Vec<u8>>,
}

#[test]
fn every_kind() {
    let header = "code,day,time,at,price,ratio,count,is_dry,sky,tags";
    let line = "6ba7b810-9dad-11d1-80b4-00c04fd430c8,2026-11-21,,2026-11-21T17:05:00Z,12.5,-0.25,\
                9223372036854775807,true,cloudy,\"[1,2]\"";
    let readings: Columns<Reading> = csv::read(format!("{header}\n{line}\n").as_bytes()).unwrap();
    let reading = readings.get(0).unwrap();
    assert_eq!(
        reading,
        Reading {
            code: "6ba7b810-9dad-11d1-80b4-00c04fd430c8".parse().unwrap(),
            day: "2026-11-21".parse().unwrap(),
            time: None,
            at: "2026-11-21T17:05:00Z".parse().unwrap(),
            price: "12.5".parse().unwrap(),
            ratio: -0.25,
            count: i64::MAX as u64,
            is_dry: true,
            sky: Sky::Cloudy,
            tags: Json(vec![1, 2]),
        }
    );
    let mut json = Vec::new();
    let names = ["sky", "price", "tags", "time", "day", "is_dry"];
    readings.json(&names).unwrap().object(&mut json, 0);
    assert_eq!(
        String::from_utf8(json).unwrap(),
        r#"{"sky":"cloudy","price":12.5,"tags":[1,2],"time":null,"day":"2026-11-21","is_dry":true}"#
    );
}

#[test]
fn files_with_a_progress() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("places.csv");
    let mut text = "name,note,height\n".to_owned();
    for number in 0..200_000 {
        text.push_str(&format!("name {},\"note\n{}\",{number}\n", number % 777, number % 5000));
    }
    std::fs::write(&path, &text).unwrap();
    let seen = std::sync::Mutex::new(Vec::new());
    let loader =
        Loader::new().threads(3).progress(|done, total| seen.lock().unwrap().push((done, total)));
    let places: Columns<Place> = loader.load(&path).unwrap();
    drop(loader);
    assert_eq!(places.len(), 200_000);
    let expected = place(123_457, "name 690", Some("note\n3456"), Some(123_456));
    assert_eq!(places.get(123_456).unwrap(), expected);
    let (seen, total) = (seen.into_inner().unwrap(), text.len() as u64);
    assert!(seen.len() > 10);
    assert!(seen.iter().all(|&(done, all)| done <= total && all == total));
    assert_eq!(seen.last(), Some(&(total, total)));
    assert!(places.bytes() < 200_000 * 11, "{}", places.bytes());
}
