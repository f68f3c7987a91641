//! What a REST request costs in instructions, on one thread with the memory
//! engine: run it under callgrind with two counts and divide the difference.
//!
//! ```text
//! cargo build --release -p marmota-rest --example rest_cost
//! for n in 1000 11000; do
//!   valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!     target/release/examples/rest_cost get $n
//! done
//! ```
//! The client's share is in it: it writes prepared bytes and reads what comes.
//! When this was written, in thousands of instructions a request, client and
//! server together: unrouted 6.8, get 10.7, post 17.9, a list of 20 rows 65.6.
//! Of what handles the list, half is `json::write_row`; its head and the copy of
//! the page behind it are together under a fiftieth.

use std::io::{Read, Write};
use std::net::TcpStream;

use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::{Field, Kind, Role, Schema};
use marmota_store::Store;

/// Requests in one write.
const PIPELINED: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_else(|| "get".to_owned());
    let count: usize = arguments.next().map_or(Ok(10_000), |count| count.parse())?;
    let store = Store::builder(Memory::new()).schema(person()).open()?;
    let server = Server::bind("127.0.0.1:0")?.listeners(1).start(marmota_rest::api(&store))?;
    let mut stream = TcpStream::connect(server.local_addr())?;
    let body = r#"{"first_name":"Marie","last_name":"Curie","year_of_birth":1867}"#;
    let post = format!(
        "POST /api/person HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for _ in 0..100 {
        ask(&mut stream, &post, 1)?;
    }
    let request = match &*what {
        "get" => "GET /api/person/7 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
        "list" => {
            "GET /api/person?limit=20&order=id HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned()
        }
        "post" => post,
        "unrouted" => "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
        _ => return Err("get, list, post or unrouted".into()),
    };
    let many = request.repeat(PIPELINED);
    let begun = std::time::Instant::now();
    for _ in 0..count.div_ceil(PIPELINED) {
        ask(&mut stream, &many, PIPELINED)?;
    }
    println!("{what}: {:.0} requests a second", count as f64 / begun.elapsed().as_secs_f64());
    drop(stream);
    server.shutdown()?;
    Ok(())
}

fn person() -> Schema {
    Schema::new(
        "person",
        vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("first_name", Kind::TEXT),
            Field::new("last_name", Kind::TEXT),
            Field::new("year_of_birth", Kind::I64),
            Field::new("year_of_death", Kind::I64).nullable(true),
            Field::new("version", Kind::I64).role(Role::Version),
        ],
    )
}

/// Sends and reads until as many heads have come (bodies have no blank line).
fn ask(stream: &mut TcpStream, requests: &str, count: usize) -> std::io::Result<()> {
    stream.write_all(requests.as_bytes())?;
    let (mut heads, mut answer) = (0, Vec::new());
    let mut chunk = [0; 64 * 1024];
    let mut looked_at = 0;
    while heads < count || !is_whole(&answer) {
        let read = stream.read(&mut chunk)?;
        answer.extend_from_slice(&chunk[..read]);
        while let Some(at) = answer[looked_at..].windows(4).position(|end| end == b"\r\n\r\n") {
            looked_at += at + 4;
            heads += 1;
        }
    }
    Ok(())
}

/// Whether the last answer is there to its end.
fn is_whole(answer: &[u8]) -> bool {
    answer.ends_with(b"}") || answer.ends_with(b"Not Found")
}
