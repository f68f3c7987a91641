//! The `server` mode. One future per connection reads the available bytes, decodes every complete
//! request with actix-http's codec, formats the responses itself and writes them at once.

use actix_codec::{AsyncRead, AsyncWrite, Decoder, ReadBuf};
use actix_http::{Request, h1};
use actix_rt::net::TcpStream;
use actix_server::Server;
use actix_service::fn_service;
use bytes::{Buf, BufMut, BytesMut};
use options::{JSON_BYTES, Message, Options, PLAINTEXT};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

const BUFFER_BYTES: usize = 32 * 1024;
const PLAIN_HEAD: &str =
    "HTTP/1.1 200 OK\r\nServer: A\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n";
const NOT_FOUND_HEAD: &str = "HTTP/1.1 404 Not Found\r\nServer: A\r\nContent-Length: 0\r\n";
const JSON_HEAD: &str =
    "HTTP/1.1 200 OK\r\nServer: A\r\nContent-Type: application/json\r\nContent-Length: 27\r\n";
const _: () = assert!(JSON_BYTES == 27 && PLAINTEXT.len() == 13);

pub(crate) async fn serve(options: &Options) -> io::Result<()> {
    Server::build()
        .backlog(4096)
        .workers(options.threads)
        .bind("server", options.address(), || {
            fn_service(|io: TcpStream| Connection {
                io,
                received: BytesMut::with_capacity(BUFFER_BYTES),
                answers: BytesMut::with_capacity(BUFFER_BYTES),
                codec: h1::Codec::default(),
            })
        })?
        .run()
        .await
}

struct Connection {
    io: TcpStream,
    received: BytesMut,
    answers: BytesMut,
    codec: h1::Codec,
}

impl Connection {
    /// Reads once; returns false at the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.received.capacity() - self.received.len() < 1024 {
            self.received.reserve(BUFFER_BYTES);
        }
        let mut spare = ReadBuf::uninit(self.received.spare_capacity_mut());
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut spare))?;
        let read = spare.filled().len();
        // SAFETY: poll_read filled exactly this many of the spare bytes.
        unsafe { self.received.advance_mut(read) };
        Poll::Ready(Ok(read > 0))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.answers.is_empty() {
            let sent = ready!(Pin::new(&mut self.io).poll_write(cx, &self.answers))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            if sent == self.answers.len() {
                self.answers.clear();
            } else {
                self.answers.advance(sent);
            }
        }
        Poll::Ready(Ok(()))
    }

    fn answer(&mut self, request: &Request) {
        if self.answers.capacity() - self.answers.len() < 512 {
            self.answers.reserve(BUFFER_BYTES);
        }
        let head = match request.path() {
            "/plaintext" => PLAIN_HEAD,
            "/json" => JSON_HEAD,
            _ => NOT_FOUND_HEAD,
        };
        self.answers.put_slice(head.as_bytes());
        self.codec.config().write_date_header(&mut self.answers, false);
        self.answers.put_slice(b"\r\n");
        match request.path() {
            "/plaintext" => self.answers.put_slice(PLAINTEXT.as_bytes()),
            "/json" => serde_json::to_writer((&mut self.answers).writer(), &Message::HELLO)
                .expect("writing to a buffer cannot fail"),
            _ => {}
        }
    }

    fn decode_and_answer(&mut self) -> io::Result<()> {
        loop {
            match self.codec.decode(&mut self.received) {
                Ok(Some(h1::Message::Item(request))) => self.answer(&request),
                Ok(Some(h1::Message::Chunk(_))) => {}
                Ok(None) => return Ok(()),
                Err(error) => return Err(io::Error::other(error.to_string())),
            }
        }
    }
}

impl Future for Connection {
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            ready!(this.poll_send(cx))?;
            if !ready!(this.poll_fill(cx))? {
                return Poll::Ready(Ok(()));
            }
            this.decode_and_answer()?;
        }
    }
}
