//! Queries of the tutorials on the sample databases Chinook and Pagila: each as one REST request and as
//! one Rust expression. The results are those of `psql` on the same rows, on each engine.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod cells;
mod music;
mod rentals;

use std::process::Command;

use marmota::http::TestRequest;
use marmota::prelude::*;
use marmota_postgres::TemporaryPostgres;
use serde_json::Value as Document;

/// A result: rows of texts.
type Rows = Vec<Vec<String>>;

/// A question that tutorials ask, and three ways to ask it.
struct Question {
    name: &'static str,
    /// The statement for `psql`.
    sql: &'static str,
    /// The request.
    rest: &'static str,
    /// The members of each row in the answer, in the order of the statement's columns.
    members: &'static [&'static str],
    /// The expression.
    rust: fn(&Store) -> Result<Rows>,
}

/// Returns the result of a statement, by the program `psql`.
fn of_psql(url: &str, sql: &str) -> Rows {
    let output =
        Command::new("psql").args([url, "-qAtX", "-F", "\u{1}", "-c", sql]).output().unwrap();
    assert!(output.status.success(), "{sql}\n{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\u{1}').map(plain).collect()).collect()
}

/// Returns the result of a request.
fn of_rest(router: &Router, question: &Question) -> Rows {
    let path = question.rest.replace(' ', "%20").replace('<', "%3C").replace('>', "%3E");
    let answer = router.call(TestRequest::get(path)).unwrap();
    assert_eq!(answer.status().code(), 200, "{}: {}", question.name, answer.text());
    let document: Document = serde_json::from_str(answer.text()).unwrap();
    if question.members == ["#count"] {
        return vec![vec![document["count"].to_string()]];
    }
    let is_whole = document["next"].is_null() || question.rest.contains("&limit=10&");
    assert!(is_whole, "{}: all rows are in the page", question.name);
    let rows = document["rows"].as_array().unwrap();
    let cell = |row: &Document, member: &&str| plain(&texts(row, member).join(";"));
    let row = |row| question.members.iter().map(|member| cell(row, member)).collect();
    rows.iter().map(row).collect()
}

/// Returns the texts at a path; several if a part of it is an array.
fn texts(value: &Document, path: &str) -> Vec<String> {
    if let Document::Array(items) = value {
        return items.iter().flat_map(|item| texts(item, path)).collect();
    }
    match path.split_once('/') {
        Some((first, rest)) => texts(&value[first], rest),
        None => match &value[path] {
            Document::Null => vec![String::new()],
            Document::String(text) => vec![text.clone()],
            other => vec![other.to_string()],
        },
    }
}

/// Returns a number in the form that all ways share, and other texts as they are.
fn plain(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => format!("{}", (number * 1e4).round() / 1e4),
        _ => text.to_owned(),
    }
}

/// Asks the questions in each way and on each engine. `filled` opens a database and inserts its rows.
fn each_has_the_answer_of_psql(questions: &[Question], filled: impl Fn(&str) -> Store) {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let url = server.make_database().unwrap();
    let stores = [
        ("PostgreSQL", filled(&url)),
        ("SQLite", filled("sqlite::memory:")),
        ("memory", filled("memory:")),
    ];
    let mut differences = Vec::new();
    for question in questions {
        let expected = of_psql(&url, question.sql);
        if expected.is_empty() {
            differences.push(format!("{}: a result without rows shows nothing", question.name));
        }
        for (engine, store) in &stores {
            let router = rest::api(store);
            let rust = (question.rust)(store).unwrap();
            let rust: Rows =
                rust.iter().map(|row| row.iter().map(|text| plain(text)).collect()).collect();
            for (way, found) in [("REST", of_rest(&router, question)), ("Rust", rust)] {
                if found != expected {
                    let shown = |rows: &Rows| {
                        format!("{} rows {:?}", rows.len(), &rows[..rows.len().min(4)])
                    };
                    let (found, expected) = (shown(&found), shown(&expected));
                    differences.push(format!(
                        "{engine}, {way}, {}:\n  {found}\n  psql: {expected}",
                        question.name
                    ));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn questions_on_the_music_store_have_the_answers_of_psql() {
    each_has_the_answer_of_psql(music::QUESTIONS, |url| {
        let store = tutorials::music::open(url).unwrap();
        tutorials::music::fill(&store).unwrap();
        store
    });
}

#[test]
fn questions_on_the_rentals_have_the_answers_of_psql() {
    each_has_the_answer_of_psql(rentals::QUESTIONS, |url| {
        let store = tutorials::rentals::open(url).unwrap();
        tutorials::rentals::fill(&store).unwrap();
        store
    });
}
