//! A protocol that is served over each transport.

use std::task::Context;
use std::time::Instant;

use marmota_http::{Endpoint, Flow, Method, Response, Router, Server, Status};
use marmota_model::ErrorKind;
use marmota_rpc::{
    Connection, ConnectionEnd, Credential, InProcess, ServerProtocol, packet, upgraded,
};

use crate::{WITHIN, echo_at};

/// Returns each packet to its sender, and ends when it is `end`.
#[derive(Default)]
struct Echo {
    credential: Credential,
    has_ended: bool,
}

impl ServerProtocol for Echo {
    fn run(&mut self, input: &[u8], output: &mut Vec<u8>, _: &mut Context<'_>) -> usize {
        let mut used = 0;
        while let Ok(Some(packet)) = packet::first(&input[used..], 1 << 24) {
            match packet.body {
                b"end" => self.has_ended = true,
                b"who" => packet::put(output, self.credential.as_bytes()),
                body => packet::put(output, body),
            }
            used += packet.bytes();
        }
        used
    }

    fn end(&self) -> Option<ConnectionEnd> {
        self.has_ended.then_some(ConnectionEnd::Left)
    }

    fn is_hungry(&self) -> bool {
        true
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

fn router() -> Router {
    let endpoint = Endpoint::direct(|request, out| {
        let echo = Echo { credential: Credential::of_request(request), has_ended: false };
        let refused = |_| Response::new(Status::UPGRADE_REQUIRED);
        out.respond(upgraded(request, "echo", echo).unwrap_or_else(refused));
        Flow::Done
    });
    Router::new().on(Method::Get, "/api/-/echo", endpoint)
}

fn answer(connection: &mut Connection, body: &[u8]) -> Vec<u8> {
    connection.queue(body).unwrap();
    connection.wait_for(WITHIN, |packet| Some(packet.body.to_vec())).unwrap()
}

#[test]
fn packets_and_the_credential_pass_over_each_transport() {
    let name = format!("@marmota-rpc-{}", std::process::id());
    let server = Server::bind("127.0.0.1:0").unwrap().also_bind(format!("unix:{name}")).unwrap();
    let server = server.listeners(1).start(router()).unwrap();
    let host = server.local_addr();
    for url in [format!("unix:{name}"), format!("http://{host}/api"), format!("ws://{host}/api")] {
        let mut connector = echo_at(&url);
        connector.credential = Credential::new("s3cret");
        // The first packet is sent with the upgrade.
        let mut first = Vec::new();
        packet::put(&mut first, b"first");
        let mut connection = connector.connect(&first, WITHIN).unwrap();
        let received = connection.wait_for(WITHIN, |packet| Some(packet.body.to_vec()));
        assert_eq!(received.unwrap(), b"first", "{url}");
        let large = vec![7; 1_000_000];
        assert!(answer(&mut connection, &large) == large, "{url}");
        assert_eq!(answer(&mut connection, b"who"), b"s3cret", "{url}");
        connection.queue(b"end").unwrap();
        assert!(connection.wait_for(WITHIN, |_| Some(())).is_err(), "{url}");
    }
    let error = echo_at(&format!("http://{host}/other")).connect(&[], WITHIN).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.message().starts_with("no echo is served at"), "{error}");
    server.shutdown().unwrap();
    let error = echo_at(&format!("unix:{name}")).connect(&[], WITHIN).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
}

#[test]
fn a_server_in_the_same_process_answers() {
    let mut connection = Connection::new(Box::new(InProcess::new(Echo::default())), Vec::new());
    assert_eq!(answer(&mut connection, b"hello"), b"hello");
    connection.queue(b"end").unwrap();
    assert!(connection.wait_for(WITHIN, |_| Some(())).is_err());
}

#[test]
fn packets_beyond_the_limit_end_the_connection() {
    let mut connection = Connection::new(Box::new(InProcess::new(Echo::default())), Vec::new());
    connection.set_packet_bytes_max(10);
    assert_eq!(answer(&mut connection, &[1; 10]), [1; 10]);
    connection.queue(&[1; 11]).unwrap();
    let error = connection.wait_for(WITHIN, |_| Some(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
}

#[test]
fn a_local_address_is_for_networks() {
    let mut connector = echo_at("unix:@nowhere");
    connector.local_address = Some([127, 0, 0, 1].into());
    let error = connector.connect(&[], WITHIN).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
