//! Bodies of requests and answers, which go through a server in pieces.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use marmota_http::{
    BodyError, BodyStream, Endpoint, Method, Request, Response, Router, Server, Status,
};

use super::Dimension;
use super::growth::Growth;
use super::point::{Point, repeated, resident};

pub(super) const DIMENSION: Dimension =
    Dimension { unit: "bytes", sizes: (100, 10, 1_000_000_000), engines: &["http"], measure };

/// More than the largest size.
const BYTES_MAX: u64 = 1 << 40;
/// What is written or read at once.
const PIECE: usize = 64 * 1024;
/// A pause of the server that is longer is an error.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Answers with the number of bytes of the body.
async fn count(request: Request) -> Result<String, BodyError> {
    let (mut reader, mut piece, mut bytes) = (request.reader(), Vec::new(), 0);
    loop {
        piece.clear();
        match reader.read(&mut piece).await? {
            0 => return Ok(bytes.to_string()),
            read => bytes += read,
        }
    }
}

/// Answers with as many bytes as the path has.
async fn zeros(request: Request) -> Response {
    let Some(bytes) = request.param_int("bytes").and_then(|bytes| u64::try_from(bytes).ok()) else {
        return Response::new(Status::BAD_REQUEST);
    };
    let mut left = bytes;
    let body = BodyStream::new(move |out: &mut Vec<u8>| {
        let piece = left.min(PIECE as u64);
        left -= piece;
        out.resize(out.len() + piece as usize, 0);
        Ok(if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    });
    Response::streamed("application/octet-stream", body.with_length(bytes))
}

fn measure(_: &str, bytes: u64) -> Result<Vec<Point>> {
    let router = Router::new().get("/bodies/{bytes}", zeros).on(
        Method::Post,
        "/bodies",
        Endpoint::future(count).streamed(BYTES_MAX),
    );
    let server = Server::bind("127.0.0.1:0")?.start(router)?;
    let mut client = Client::connect(server.local_addr())?;
    // The first exchange takes what each connection has.
    client.send(100)?;
    client.receive(100)?;
    let before = resident()?;
    let turns = (1_000_000_000 / bytes).clamp(3, 500);
    let up = repeated(turns, |_| client.send(bytes))?;
    let down = repeated(turns, |_| client.receive(bytes))?;
    let memory = resident()?.saturating_sub(before);
    drop(client);
    server.shutdown()?;
    Ok(vec![
        Point::time("send", Growth::Linear, up),
        Point::time("receive", Growth::Linear, down),
        Point::bytes("memory", Growth::Constant, memory.max(PIECE as u64)),
    ])
}

/// A connection of a client that holds one piece of a body.
struct Client {
    stream: TcpStream,
    piece: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { stream, piece: vec![0; PIECE] })
    }

    fn send(&mut self, bytes: u64) -> Result<()> {
        write!(
            self.stream,
            "POST /bodies HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n"
        )?;
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(PIECE as u64) as usize;
            self.stream.write_all(&self.piece[..piece])?;
            left -= piece as u64;
        }
        let answer = self.head()?;
        ensure!(answer.ends_with(&bytes.to_string()), "{bytes} bytes were sent: {answer}");
        Ok(())
    }

    fn receive(&mut self, bytes: u64) -> Result<()> {
        write!(self.stream, "GET /bodies/{bytes} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut head = 0;
        let mut received = 0;
        while head == 0 || received < bytes {
            let read = self.stream.read(&mut self.piece)?;
            ensure!(read > 0, "the connection was closed after {received} bytes");
            received += read as u64;
            if head == 0 {
                // The head comes in one piece, before all else.
                let end = self.piece[..read].windows(4).position(|bytes| bytes == b"\r\n\r\n");
                head = end.context("an answer without a head")? + 4;
                received -= head as u64;
            }
        }
        ensure!(received == bytes, "{received} bytes instead of {bytes}");
        Ok(())
    }

    /// Reads an answer with a short body.
    fn head(&mut self) -> Result<String> {
        let mut text = String::new();
        loop {
            let read = self.stream.read(&mut self.piece)?;
            text += &String::from_utf8_lossy(&self.piece[..read]);
            let length = text.split_once("\r\n\r\n").map(|(head, body)| {
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    let found = name.eq_ignore_ascii_case("content-length");
                    found.then(|| value.trim().parse::<usize>().ok())?
                });
                (length, body.len())
            });
            match length {
                Some((Some(length), body)) if body >= length => return Ok(text),
                _ if read == 0 => bail!("the connection was closed"),
                _ => {}
            }
        }
    }
}
