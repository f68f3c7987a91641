//! Connections to a server in another process, all of them open at once.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Dimension;
use super::growth::Growth;
use super::point::{Point, once, repeated};
use crate::http::{build, roster, server::Server};

pub(super) const DIMENSION: Dimension =
    Dimension { unit: "connections", sizes: (10, 10, 10_000), engines: &["http"], measure };

const REQUEST: &[u8] = b"GET /json HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// An answer that takes longer is an error.
const TIMEOUT: Duration = Duration::from_secs(10);

fn measure(_: &str, connections: u64) -> Result<Vec<Point>> {
    let specs = roster::chosen(&["hello".to_owned()], &[])?;
    let built = build::all(specs, false)?;
    let (spec, binary) = built.first().context("the server is built")?;
    let mut server = Server::start(spec, binary)?;
    let before = server.usage()?.resident_kib;
    let mut streams = Vec::new();
    let connect = once(|| {
        for _ in 0..connections {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port()))
                .context("the limit of open files may be too low (ulimit -n)")?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            streams.push(stream);
        }
        Ok(())
    })?;
    let begun = Instant::now();
    streams.iter_mut().try_for_each(exchange)?;
    let number = u32::try_from(connections)?;
    let each = begun.elapsed() / number;
    let memory = server.usage()?.resident_kib.saturating_sub(before) * 1024;
    let one = repeated(2_000, |_| exchange(&mut streams[0]))?;
    drop(streams);
    server.stop();
    Ok(vec![
        Point::time("connect", Growth::Constant, connect / number),
        Point::time("a request on each, one by one", Growth::Constant, each),
        Point::time("a request while the others are idle", Growth::Constant, one),
        Point::bytes("memory of the server", Growth::Linear, memory),
    ])
}

/// Sends a request and reads the answer, which fits into one piece.
fn exchange(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(REQUEST)?;
    let mut answer = [0; 1024];
    let length = stream.read(&mut answer)?;
    ensure!(answer[..length].starts_with(b"HTTP/1.1 200"), "the answer is not 200");
    Ok(())
}
