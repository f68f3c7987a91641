//! Checks a server's responses before it is measured: status, body, Content-Type, Server and Date,
//! and the order of sixteen pipelined responses. A fast wrong response must not count as a result.

use super::workload::Kind;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
const BODY_BYTES_MAX: usize = 1024;
const HEAD_LINES_MAX: usize = 64;

pub(crate) fn check(port: u16) -> Result<()> {
    for kind in Kind::ALL {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        let request = format!("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", kind.path());
        let depth = kind.depth();
        (&stream).write_all(request.repeat(depth as usize).as_bytes())?;
        let mut reader = BufReader::new(stream);
        for number in 1..=depth {
            Answer::read(&mut reader)
                .and_then(|answer| answer.check(kind))
                .with_context(|| format!("GET {}, answer {number} of {depth}", kind.path()))?;
        }
    }
    Ok(())
}

struct Answer {
    status_line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn read(reader: &mut impl BufRead) -> Result<Answer> {
        let status_line = read_line(reader)?;
        let mut headers = Vec::new();
        loop {
            let line = read_line(reader)?;
            if line.is_empty() {
                break;
            }
            ensure!(headers.len() < HEAD_LINES_MAX, "too many headers");
            let (name, value) =
                line.split_once(':').with_context(|| format!("no header: {line:?}"))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut answer = Answer { status_line, headers, body: Vec::new() };
        let length: usize = answer.header("content-length")?.parse()?;
        ensure!(length <= BODY_BYTES_MAX, "a body of {length} bytes");
        answer.body.resize(length, 0);
        reader.read_exact(&mut answer.body).context("the body")?;
        Ok(answer)
    }

    fn header(&self, name: &str) -> Result<&str> {
        let found = self.headers.iter().find(|(given, _)| given == name);
        let (_, value) = found.with_context(|| format!("there is no {name} header"))?;
        Ok(value)
    }

    fn check(&self, kind: Kind) -> Result<()> {
        ensure!(
            self.status_line.starts_with("HTTP/1.1 200 "),
            "its status line is {:?}",
            self.status_line
        );
        let text = String::from_utf8_lossy(&self.body);
        let (content_type, right) = match kind {
            Kind::Json => {
                let body: serde_json::Value = serde_json::from_slice(&self.body)
                    .with_context(|| format!("its body is {text:?}"))?;
                let right = body == serde_json::json!({"message": "Hello, World!"});
                ("application/json", right)
            }
            Kind::Pipelined | Kind::Plaintext => ("text/plain", text == "Hello, World!"),
        };
        ensure!(right, "its body is {text:?}");
        let given = self.header("content-type")?;
        ensure!(given.starts_with(content_type), "its content-type is {given:?}");
        ensure!(!self.header("server")?.is_empty(), "its server header is empty");
        let date = self.header("date")?;
        ensure!(date.len() == 29 && date.ends_with(" GMT"), "its date is {date:?}");
        Ok(())
    }
}

fn read_line(reader: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    let read = reader.take(1024).read_line(&mut line)?;
    ensure!(read > 0, "the connection was closed");
    let line =
        line.strip_suffix("\r\n").with_context(|| format!("a line without its end: {line:?}"))?;
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "HTTP/1.1 200 OK\r\nServer: x\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
                         content-type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";

    fn verdict(text: &str, kind: Kind) -> Result<()> {
        Answer::read(&mut text.as_bytes())?.check(kind)
    }

    #[test]
    fn a_right_answer_passes() {
        verdict(RIGHT, Kind::Plaintext).unwrap();
    }

    #[test]
    fn each_kind_of_wrong_answer_is_reported() {
        for (from, to, told) in [
            ("200 OK", "404 Not Found", "status line"),
            ("World!", "Wurld!", "body"),
            ("text/plain", "text/html", "content-type"),
            ("Server: x\r\n", "", "server"),
            ("01 Jan 2026 00:00:00 GMT", "today", "date"),
            ("Content-Length: 13\r\n", "", "content-length"),
            ("World!", "", "the body"),
        ] {
            let error = verdict(&RIGHT.replacen(from, to, 1), Kind::Plaintext).unwrap_err();
            assert!(error.to_string().contains(told), "{from} → {to}: {error:#}");
        }
        assert!(verdict(RIGHT, Kind::Json).is_err());
    }
}
