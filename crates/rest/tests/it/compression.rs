//! Answers in the coding that a client takes.

use std::io::Read;
use std::process::Command;

use marmota_http::{RunningServer, Server};
use marmota_memory::Memory;
use marmota_model::{Collation, Field, Kind, Role, Schema};
use marmota_rest::Api;
use marmota_store::Store;

use crate::client::{Answer, Client};

/// A service of rows with long texts, and a list of some 200 KB.
fn serve(compression: bool) -> RunningServer {
    let text = Kind::Text { chars_max: 0, collation: Collation::Binary };
    let id = Field::new("id", Kind::I64).role(Role::Key);
    let version = Field::new("version", Kind::I64).role(Role::Version);
    let schema = Schema::new("page", vec![id, Field::new("text", text), version]);
    let store = Store::builder(Memory::new()).schema(schema).open().unwrap();
    let api = Api::new(&store).compression(compression);
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).start(api.router()).unwrap();
    let mut client = Client::new(server.local_addr());
    let rows: Vec<_> = (0..50).map(|at| serde_json::json!({ "text": text_of(at) })).collect();
    client.json("POST /api/page", &serde_json::json!(rows).to_string()).is(201);
    client.json("POST /api/page", r#"{"text":"short"}"#).is(201);
    server
}

fn text_of(at: usize) -> String {
    format!("line {at} of a text; ").repeat(200)
}

fn decoded(answer: &Answer) -> String {
    let mut text = String::new();
    match answer.header("content-encoding") {
        Some("gzip") => flate2::read::GzDecoder::new(&*answer.body).read_to_string(&mut text),
        Some("br") => brotli::Decompressor::new(&*answer.body, 4096).read_to_string(&mut text),
        Some("zstd") => zstd::Decoder::new(&*answer.body).unwrap().read_to_string(&mut text),
        other => panic!("{other:?}"),
    }
    .unwrap();
    text
}

#[test]
fn rows_lists_and_lines_come_in_the_coding_accepted() {
    let server = serve(true);
    let mut client = Client::new(server.local_addr());
    for (target, accept) in [
        ("/api/page/1", "application/json"),
        ("/api/page", "*/*"),
        ("/api/page", "application/x-ndjson"),
        ("/api/openapi.json", "*/*"),
    ] {
        let request = format!("GET {target}");
        let accept = format!("Accept: {accept}");
        let plain = client.send(&request, &[&accept], b"").is(200);
        assert_eq!(plain.header("content-encoding"), None, "{target}");
        let vary = plain.header("vary").unwrap_or_default();
        assert!(vary.contains("Accept"), "{target}");
        for coding in ["gzip", "br", "zstd"] {
            let header = format!("Accept-Encoding: {coding}");
            let coded = client.send(&request, &[&accept, &header], b"").is(200);
            assert_eq!(coded.header("content-encoding"), Some(coding), "{target}");
            assert_eq!(coded.header("content-type"), plain.header("content-type"));
            assert_eq!(decoded(&coded), plain.text(), "{target}");
            assert!(coded.body.len() < plain.body.len() / 2, "{target}");
        }
        let refused = client.send(&request, &[&accept, "Accept-Encoding: gzip;q=0"], b"").is(200);
        assert_eq!(refused.header("content-encoding"), None);
        let head = format!("HEAD {target}");
        let head = client.send(&head, &[&accept, "Accept-Encoding: gzip"], b"").is(200);
        assert_eq!(head.header("content-encoding"), Some("gzip"), "{target}");
        assert_eq!(head.header("content-length"), None);
    }
    let short = client.send("GET /api/page/51", &["Accept-Encoding: gzip"], b"").is(200);
    assert_eq!((short.header("content-encoding"), short.header("etag")), (None, Some("\"v1\"")));

    let server = serve(false);
    let mut client = Client::new(server.local_addr());
    let off = client.send("GET /api/page", &["Accept-Encoding: gzip"], b"").is(200);
    assert_eq!(
        (off.header("content-encoding"), off.header("vary")),
        (None, Some("Accept, Prefer"))
    );
}

#[test]
fn the_tag_of_a_compressed_row_is_taken_back() {
    let server = serve(true);
    let mut client = Client::new(server.local_addr());
    let accept = "Accept-Encoding: gzip";
    let tag = |answer: &Answer| answer.header("etag").unwrap().to_owned();
    let coded = client.send("GET /api/page/1", &[accept], b"").is(200);
    assert_eq!(tag(&coded), "W/\"v1\"");
    for header in [accept, "X-Nothing: 1"] {
        let known = format!("If-None-Match: {}", tag(&coded));
        let answer = client.send("GET /api/page/1", &[header, &known], b"").is(304);
        assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
    }
    let body = serde_json::json!({ "text": text_of(7) }).to_string();
    let patch = |client: &mut Client, tag: &str| {
        let condition = format!("If-Match: {tag}");
        let headers = [accept, &condition, "Content-Type: application/json"];
        client.send("PATCH /api/page/1", &headers, body.as_bytes())
    };
    let patched = patch(&mut client, &tag(&coded)).is(200);
    assert_eq!(tag(&patched), "W/\"v2\"");
    patch(&mut client, &tag(&coded)).is(412);
    patch(&mut client, "\"v2\"").is(200);
}

/// The clients that users have, with what they send by themselves.
#[test]
fn real_clients_decode_what_they_ask_for() {
    let server = serve(true);
    let url = format!("http://{}/api/page", server.local_addr());
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let plain = run("curl", &["-sS", &url]);
    assert_eq!(run("curl", &["-sS", "--compressed", &url]), plain);
    assert_eq!(run("curl", &["-sS", "--compressed", "--http2-prior-knowledge", &url]), plain);
    let head = run("curl", &["-sS", "--compressed", "-D", "-", "-o", "/dev/null", &url]);
    assert!(head.to_ascii_lowercase().contains("content-encoding: "), "{head}");
    let script = "import gzip, sys, urllib.request as r\n\
        a = r.urlopen(r.Request(sys.argv[1], headers={'Accept-Encoding': 'gzip'}))\n\
        assert a.headers['Content-Encoding'] == 'gzip'\n\
        sys.stdout.write(gzip.decompress(a.read()).decode())";
    assert_eq!(run("python3", &["-c", script, &url]), plain);
}
