//! The curl lines of `docs/guide/08-rest.md`, asked one after the other, answer
//! as printed. `…` in the page stands for anything; of an answer's head, the
//! lines that the page shows have to be there.

use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::{Collation, Field, Kind, Literal, Role, Rule, Schema};
use marmota_store::Store;

use crate::client::{Answer, Client};

const PAGE: &str = include_str!("../../../../docs/guide/08-rest.md");
const ADDRESS: &str = "http://127.0.0.1:8080";

/// The page's model.
fn person() -> Schema {
    let year = Kind::Int { min: i32::MIN.into(), max: i32::MAX.into() };
    Schema::new(
        "person",
        vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("name", Kind::Text { chars_max: 40, collation: Collation::Binary })
                .rules(vec![Rule::NotEmpty]),
            Field::new("year_of_birth", year).nullable(true),
            Field::new("email", Kind::TEXT).nullable(true).unique(true).rules(vec![Rule::Email]),
            Field::new("visits", Kind::I64).default(Literal::Int(0)),
            Field::new("photo", Kind::Blob).nullable(true),
            Field::new("version", Kind::I64).role(Role::Version),
        ],
    )
}

#[test]
fn curl_lines_answer_as_printed() {
    let store = Store::builder(Memory::new())
        .idempotency(marmota_store::Idempotency::default())
        .schema(person())
        .open()
        .unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap().start(marmota_rest::api(&store)).unwrap();
    let client = &mut Client::new(server.local_addr());
    let mut asked = 0;
    for block in PAGE.split("```console\n").skip(1) {
        let mut lines = block.split("```").next().unwrap().lines().peekable();
        while let Some(line) = lines.next() {
            let command = line.strip_prefix("$ curl ").expect("a curl line");
            let mut printed = Vec::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
                printed.push(line);
            }
            let (answer, with_head) = curl(client, &words(command));
            compare(command, &answer, with_head, &printed);
            asked += 1;
        }
    }
    assert!(asked > 15, "the page shows {asked} curl lines");
}

fn compare(command: &str, answer: &Answer, with_head: bool, printed: &[&str]) {
    let mut printed = printed.iter();
    if with_head {
        let status = printed.next().expect("a status line");
        assert!(status.contains(&format!(" {} ", answer.status)), "{command}: {}", answer.status);
        for line in printed.by_ref().take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").unwrap();
            assert_eq!(answer.header(&name.to_ascii_lowercase()), Some(value), "{command}");
        }
    }
    let (body, shown) = (answer.text(), printed.copied().collect::<Vec<_>>().join("\n"));
    let body = body.trim_end_matches('\n');
    let mut rest = body;
    for part in shown.split('…') {
        let at = rest.find(part).unwrap_or_else(|| panic!("{command}\n{body}\nno {part}"));
        rest = &rest[at + part.len()..];
    }
    let whole = shown.is_empty() || shown.contains('…') || shown == body;
    assert!(whole, "{command}\n  answered {body}\n  page     {shown}");
}

/// Does what curl does with these arguments; true for `-i`.
fn curl(client: &mut Client, words: &[String]) -> (Answer, bool) {
    let (mut method, mut target, mut body) = (None, String::new(), String::new());
    let (mut headers, mut with_head, mut query) = (Vec::new(), false, String::new());
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("an argument");
        match word {
            "-i" => with_head = true,
            "-X" => method = Some(value()),
            "-H" => headers.push(value()),
            "-d" => body = value().to_owned(),
            // With the shell's `$'…'`, whose line ends are the only escapes on the page.
            "--data-binary" => body = value().trim_start_matches('$').replace("\\n", "\n"),
            "--get" => method = Some("GET"),
            "--data-urlencode" => {
                let (name, text) = value().split_once('=').unwrap();
                let text =
                    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC);
                query = format!("?{name}={text}");
            }
            url => target = url.strip_prefix(ADDRESS).expect("the page's address").to_owned(),
        }
    }
    let typed = headers.iter().any(|header| header.starts_with("Content-Type"));
    if !body.is_empty() && !typed {
        headers.push("Content-Type: application/x-www-form-urlencoded");
    }
    let method = method.unwrap_or(if body.is_empty() { "GET" } else { "POST" });
    (client.send(&format!("{method} {target}{query}"), &headers, body.as_bytes()), with_head)
}

/// A shell's words, with its quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match (quote, c) {
            (None, ' ') => words.push(std::mem::take(&mut word)),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (_, c) => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}
