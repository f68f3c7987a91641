//! may_minihttp, like its TechEmpower entry: a stackful coroutine per connection. The handler sets
//! the Server and Date headers itself.

use bytes::BufMut;
use may_minihttp::{HttpService, HttpServiceFactory, Request, Response};
use options::{Message, Options, PLAINTEXT};
use std::io;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Answers;

impl HttpService for Answers {
    fn call(&mut self, request: Request, response: &mut Response) -> io::Result<()> {
        match request.path() {
            "/plaintext" => {
                response.header("Content-Type: text/plain").body(PLAINTEXT);
            }
            "/json" => {
                response.header("Content-Type: application/json");
                serde_json::to_writer(response.body_mut().writer(), &Message::HELLO)?;
            }
            _ => {
                response.status_code(404, "Not Found");
            }
        }
        Ok(())
    }
}

struct Factory;

impl HttpServiceFactory for Factory {
    type Service = Answers;

    fn new_service(&self, _connection: usize) -> Answers {
        Answers
    }
}

fn main() -> io::Result<()> {
    let options = Options::from_args();
    may::config().set_workers(options.threads).set_pool_capacity(1000).set_stack_size(0x1000);
    let server = Factory.start(options.address())?;
    server.join().map_err(|_| io::Error::other("the accepting coroutine panicked"))
}
