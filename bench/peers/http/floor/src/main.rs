//! The floor: the cost of the kernel and an event loop for a server that does nothing. Each core
//! has a thread, an epoll instance and a SO_REUSEPORT listener. It counts the blank lines that end
//! requests and answers each with the same fixed bytes, all requests of a read in one write. It
//! does not parse, route or format anything (its Date is constant), so no HTTP server can be
//! expected to reach it.

mod connection;

use connection::{Connection, Scratch};
use options::Options;
use rustix::event::epoll;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

const EVENTS_PER_WAIT: usize = 1024;
const BACKLOG: i32 = 4096;

fn main() -> io::Result<()> {
    let options = Options::from_args();
    let threads: Vec<_> = (0..options.threads)
        .map(|_| listen(options.address()))
        .collect::<io::Result<Vec<_>>>()?
        .into_iter()
        .map(|listener| std::thread::spawn(move || serve(&listener)))
        .collect();
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a server thread panicked"))??;
    }
    Ok(())
}

fn listen(address: SocketAddr) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn serve(listener: &OwnedFd) -> io::Result<()> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let listening = epoll::EventData::new_u64(listener.as_raw_fd() as u64);
    epoll::add(&poll, listener, listening, epoll::EventFlags::IN)?;
    // File descriptors are small and reused, so they are indexes into a Vec.
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = Vec::with_capacity(EVENTS_PER_WAIT);
    let mut scratch = Scratch::new();
    loop {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let event: &epoll::Event = event;
            let data = event.data;
            if data == listening {
                accept_all(&poll, listener, &mut connections)?;
                continue;
            }
            let place = &mut connections[data.u64() as usize];
            if let Some(connection) = place
                && !connection.serve(&mut scratch)
            {
                *place = None;
            }
        }
    }
}

fn accept_all(
    poll: &OwnedFd,
    listener: &OwnedFd,
    connections: &mut Vec<Option<Connection>>,
) -> io::Result<()> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    while let Ok(stream) = rustix::net::accept_with(listener, flags) {
        sockopt::set_tcp_nodelay(&stream, true)?;
        let place = stream.as_raw_fd() as usize;
        if connections.len() <= place {
            connections.resize_with(place + 1, || None);
        }
        let edges = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(poll, &stream, epoll::EventData::new_u64(place as u64), edges)?;
        connections[place] = Some(Connection::new(stream));
    }
    Ok(())
}
