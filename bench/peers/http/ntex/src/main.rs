//! ntex on its io_uring runtime ("neon-uring"), like its TechEmpower platform entry. The HTTP/1
//! codec is polled by hand. All available requests are answered into the write buffer, which the
//! runtime submits once per turn of its loop.

use ntex::SharedCfg;
use ntex::http::{DateService, HttpServiceConfig, KeepAlive, h1};
use ntex::io::{Io, IoConfig, RecvError};
use ntex::time::Seconds;
use ntex::util::{BytePageSize, BytePages};
use options::{JSON_BYTES, Message, Options, PLAINTEXT};
use std::future::poll_fn;
use std::io;
use std::task::{Poll, ready};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PLAIN_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: N\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n";
const JSON_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: N\r\nContent-Type: application/json\r\nContent-Length: 27\r\n";
const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nServer: N\r\nContent-Length: 0\r\n\r\n";
const _: () = assert!(JSON_BYTES == 27 && PLAINTEXT.len() == 13);

#[ntex::main]
async fn main() -> io::Result<()> {
    let options = Options::from_args();
    let config = SharedCfg::new("bench")
        .add(
            IoConfig::new()
                .set_read_size(BytePageSize::Size16, BytePageSize::Size64)
                .set_read_backpressure(64 * 1024)
                .set_write_size(BytePageSize::Size16)
                .set_write_backpressure(64 * 1024),
        )
        .add(
            HttpServiceConfig::new().set_keepalive(KeepAlive::Os).set_client_timeout(Seconds::ZERO),
        );
    ntex::server::build()
        .backlog(4096)
        .workers(options.threads)
        .bind("bench", options.address(), config, async |_| ntex::fn_service(serve))?
        .run()
        .await
}

async fn serve(io: Io) -> Result<(), io::Error> {
    let codec = h1::Codec::new(0, io.shared().get());
    poll_fn(|cx| {
        loop {
            match ready!(io.poll_recv(&codec, cx)) {
                Ok((request, _)) => {
                    io.with_write_src(|buffer| answer(request.path(), buffer))?;
                }
                Err(RecvError::WriteBackpressure) => ready!(io.poll_flush(cx, false))?,
                Err(_) => return Poll::Ready(Ok(())),
            }
        }
    })
    .await
}

fn answer(path: &str, buffer: &mut BytePages) {
    match path {
        "/plaintext" => {
            buffer.extend_from_slice(PLAIN_HEAD);
            DateService.set_date_header2(buffer);
            buffer.extend_from_slice(PLAINTEXT.as_bytes());
        }
        "/json" => {
            buffer.extend_from_slice(JSON_HEAD);
            DateService.set_date_header2(buffer);
            serde_json::to_writer(Pages(buffer), &Message::HELLO)
                .expect("writing to a page list cannot fail");
        }
        _ => buffer.extend_from_slice(NOT_FOUND),
    }
}

struct Pages<'a>(&'a mut BytePages);

impl io::Write for Pages<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
